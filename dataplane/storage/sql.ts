import { type CompiledQuery, Kysely, type LogEvent, PostgresAdapter } from 'kysely'
import { type Observe, type Operation, OTHER_ERROR } from '../telemetry/observe.ts'
import {
  isPostgresAway,
  isPostgresConflict,
  isPostgresError,
  type PoolOptions,
  postgresDialect,
} from './sql-postgres.ts'
import { isSqliteError, isSqliteLocked, NodeSqliteDialect, type SqliteOptions } from './sql-sqlite.ts'

export type { RunBlocking } from './sql-sqlite.ts'

/** The options of a database. Few other files know which of the two it is. */
type DatabaseOptions = {
  readonly observe?: ObserveStatement | undefined
} & (
  | ({ readonly dialect: 'sqlite' } & SqliteOptions)
  | ({ readonly dialect: 'postgres' } & Omit<PoolOptions, 'onUnconnected'>)
)

/** Opens a database, which connects at the first query. `destroy()` closes it. `T` describes its tables. */
export function openDatabase<T>(options: DatabaseOptions): Kysely<T> {
  const { observe } = options
  const system = options.dialect === 'sqlite' ? 'sqlite' : 'postgresql'
  const onUnconnected = (error: unknown, ms: number) =>
    observe?.({ system, operation: 'CONNECT', ms, error: findErrorCode(error) ?? OTHER_ERROR })
  const dialect =
    options.dialect === 'sqlite' ? new NodeSqliteDialect(options) : postgresDialect({ ...options, onUnconnected })
  return new Kysely<T>({
    dialect,
    ...(observe && { log: (event) => observe(describeStatement(system, event)) }),
  })
}

function findErrorCode(error: unknown): string | undefined {
  if (isDatabaseAway(error)) return 'unavailable'
  return isPostgresConflict(error) ? 'conflict' : undefined
}

/** Tells whether the database is PostgreSQL, for the places where the SQL of the two differs. */
export function isPostgres(database: Pick<Kysely<unknown>, 'getExecutor'>): boolean {
  return database.getExecutor().adapter instanceof PostgresAdapter
}

/** Tells whether the database itself failed, rather than the code that calls it. */
export function isDatabaseError(error: unknown): boolean {
  return isSqliteError(error) || isPostgresError(error)
}

/** Tells whether the database is unavailable at the moment, so that all statements fail. */
export function isDatabaseAway(error: unknown): boolean {
  return isPostgresAway(error) || isSqliteLocked(error)
}

const ATTEMPTS = 10

/** Runs a transaction, and again after a conflict with another one. */
export async function retryConflicts<T>(transact: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transact()
    } catch (error) {
      if (attempt === ATTEMPTS || !isPostgresConflict(error)) throw error
      // Random waits keep the transactions from conflicting again.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10 * attempt))
    }
  }
}

/** A finished statement, as data that can be sent between threads. */
export interface RunStatement {
  /** `db.system.name` of OpenTelemetry's conventions for databases. */
  readonly system: 'sqlite' | 'postgresql'
  /** `db.operation.name`, one of a small set. */
  readonly operation: string
  readonly ms: number
  readonly error?: string
}

export type ObserveStatement = (statement: RunStatement) => void

const NODE_OPERATIONS: ReadonlyMap<string, string> = new Map(
  ['Select', 'Insert', 'Update', 'Delete', 'Merge'].map((name) => [`${name}QueryNode`, name.toUpperCase()]),
)
/** The first words of raw statements that are reported. */
const KNOWN_WORDS = new Set(
  'SELECT INSERT UPDATE DELETE WITH ANALYZE BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE PRAGMA'.split(' '),
)
const FIRST_WORD = /^(?:\/\*[^*]*\*\/)?\s*([a-z]+)/i

/** Finds the operation of a statement; `other` if its first word is unknown. */
function findOperation({ query, sql }: Pick<CompiledQuery, 'query' | 'sql'>): string {
  const built = NODE_OPERATIONS.get(query.kind)
  if (built !== undefined) return built
  const word = FIRST_WORD.exec(sql)?.[1]?.toUpperCase() ?? ''
  return KNOWN_WORDS.has(word) ? word : 'other'
}

function describeStatement(
  system: RunStatement['system'],
  event: Pick<LogEvent, 'level' | 'query' | 'queryDurationMillis'> & { readonly error?: unknown },
): RunStatement {
  const statement = { system, operation: findOperation(event.query), ms: event.queryDurationMillis }
  return event.level === 'query' ? statement : { ...statement, error: findErrorCode(event.error) ?? OTHER_ERROR }
}

export function observeStatements(observe: Observe): ObserveStatement {
  // Telemetry finds the series of an operation by identity, so each has one object.
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
