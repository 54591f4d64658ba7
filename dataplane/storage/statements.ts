import type { CompiledQuery, LogEvent } from 'kysely'
import { type Observe, type Operation, OTHER_ERROR } from '../telemetry/observe.ts'

/** A statement that has been run: plain data, which can go from one thread to another. */
export interface RunStatement {
  /** `db.system.name` of the semantic conventions for databases. */
  readonly system: 'sqlite' | 'postgresql'
  /** `db.operation.name`: one of few. */
  readonly operation: string
  /** Milliseconds until its answer was there. */
  readonly ms: number
  /** A code of ours, where it failed. */
  readonly error?: string
}

export type ObserveStatement = (statement: RunStatement) => void

/** What Kysely builds, by the kind of its root. */
const OF_NODES: ReadonlyMap<string, string> = new Map(
  ['Select', 'Insert', 'Update', 'Delete', 'Merge'].map((name) => [`${name}QueryNode`, name.toUpperCase()]),
)
/** First words of statements that are written out. */
const WORDS = new Set(
  'SELECT INSERT UPDATE DELETE WITH ANALYZE BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE PRAGMA'.split(' '),
)
const FIRST_WORD = /^(?:\/\*[^*]*\*\/)?\s*([a-z]+)/i

/** What kind of statement it is; `other` where its first word is none of those in use. */
export function operationOf({ query, sql }: Pick<CompiledQuery, 'query' | 'sql'>): string {
  const built = OF_NODES.get(query.kind)
  if (built !== undefined) return built
  const word = FIRST_WORD.exec(sql)?.[1]?.toUpperCase() ?? ''
  return WORDS.has(word) ? word : 'other'
}

/** What is told of a statement by what Kysely tells; `errorCode` gives our code of an error that has one. */
export function runStatement(
  system: RunStatement['system'],
  event: Pick<LogEvent, 'level' | 'query' | 'queryDurationMillis'> & { readonly error?: unknown },
  errorCode: (error: unknown) => string | undefined,
): RunStatement {
  const told = { system, operation: operationOf(event.query), ms: event.queryDurationMillis }
  return event.level === 'query' ? told : { ...told, error: errorCode(event.error) ?? OTHER_ERROR }
}

/** Reports statements where requests are reported. */
export function observeStatements(observe: Observe): ObserveStatement {
  // An operation that comes again finds its series without a look at its names.
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
