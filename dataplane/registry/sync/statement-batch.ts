import type { ObserveStatement, RunStatement } from '../../storage/statements.ts'

/** Statements told of in one message: a sync runs very many. */
const MOST = 256

/** Collects what is told of statements for another thread: `send` gets them many at a time. */
export function batchStatements(send: (statements: readonly RunStatement[]) => void): {
  readonly observeStatement: ObserveStatement
  /** Sends those that are left. */
  sendStatements(): void
} {
  let batch: RunStatement[] = []

  function sendStatements(): void {
    if (batch.length === 0) return
    const statements = batch
    batch = []
    send(statements)
  }

  return {
    sendStatements,
    observeStatement(statement) {
      batch.push(statement)
      if (batch.length === MOST) sendStatements()
    },
  }
}
