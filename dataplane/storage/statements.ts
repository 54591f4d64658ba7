import type { CompiledQuery, LogEvent } from 'kysely'
import { type Observe, type Operation, OTHER_ERROR } from '../telemetry/observe.ts'

/** A finished statement: plain data, which can be sent between threads. */
export interface RunStatement {
  /** `db.system.name` of the semantic conventions for databases. */
  readonly system: 'sqlite' | 'postgresql'
  /** `db.operation.name`, one of a small set. */
  readonly operation: string
  readonly ms: number
  readonly error?: string
}

export type ObserveStatement = (statement: RunStatement) => void

const OF_NODES: ReadonlyMap<string, string> = new Map(
  ['Select', 'Insert', 'Update', 'Delete', 'Merge'].map((name) => [`${name}QueryNode`, name.toUpperCase()]),
)
/** The known first words of raw statements. */
const WORDS = new Set(
  'SELECT INSERT UPDATE DELETE WITH ANALYZE BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE PRAGMA'.split(' '),
)
const FIRST_WORD = /^(?:\/\*[^*]*\*\/)?\s*([a-z]+)/i

/** Returns the operation of a statement; `other` if its first word is unknown. */
export function operationOf({ query, sql }: Pick<CompiledQuery, 'query' | 'sql'>): string {
  const built = OF_NODES.get(query.kind)
  if (built !== undefined) return built
  const word = FIRST_WORD.exec(sql)?.[1]?.toUpperCase() ?? ''
  return WORDS.has(word) ? word : 'other'
}

/** Converts Kysely's report of a statement; `errorCode` returns our code for an error that has one. */
export function runStatement(
  system: RunStatement['system'],
  event: Pick<LogEvent, 'level' | 'query' | 'queryDurationMillis'> & { readonly error?: unknown },
  errorCode: (error: unknown) => string | undefined,
): RunStatement {
  const told = { system, operation: operationOf(event.query), ms: event.queryDurationMillis }
  return event.level === 'query' ? told : { ...told, error: errorCode(event.error) ?? OTHER_ERROR }
}

/** Reports statements to the observer of requests. */
export function observeStatements(observe: Observe): ObserveStatement {
  // A repeated operation finds its series without a lookup by name.
  const operations = new Map<string, Operation>()

  function operationFor({ system, operation }: RunStatement): Operation {
    const key = `${system} ${operation}`
    let known = operations.get(key)
    if (known === undefined)
      operations.set(key, (known = { kind: 'store', name: system, attributes: { 'db.operation.name': operation } }))
    return known
  }

  return function observeStatement(statement) {
    const { ms, error } = statement
    const observation = observe(operationFor(statement), { startedAt: performance.now() - ms })
    observation.end(error === undefined ? { result: 'ok' } : { result: 'error', code: error })
  }
}
