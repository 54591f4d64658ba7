import { Kysely, PostgresAdapter } from 'kysely'
import { OTHER_ERROR } from '../telemetry/observe.ts'
import {
  isPostgresAway,
  isPostgresConflict,
  isPostgresError,
  type PoolOptions,
  postgresDialect,
} from './sql-postgres.ts'
import { isSqliteError, isSqliteLocked, NodeSqliteDialect, type SqliteOptions } from './sql-sqlite.ts'
import { type ObserveStatement, runStatement } from './statements.ts'

export type { RunBlocking } from './sql-sqlite.ts'

/** Where a database is. Few places but this file know which one it is. */
type DatabaseOptions = {
  /** Told of each statement when it has been run. */
  readonly observe?: ObserveStatement | undefined
} & (
  | ({ readonly dialect: 'sqlite' } & SqliteOptions)
  | ({ readonly dialect: 'postgres' } & Omit<PoolOptions, 'onUnconnected'>)
)

/**
 * The one factory of SQL connections. Nothing is opened before the first query; `destroy()` closes.
 * `T` describes the tables, as Kysely takes them.
 */
export function openDatabase<T>(options: DatabaseOptions): Kysely<T> {
  const { observe } = options
  const system = options.dialect === 'sqlite' ? 'sqlite' : 'postgresql'
  const onUnconnected = (error: unknown, ms: number) =>
    observe?.({ system, operation: 'CONNECT', ms, error: errorCode(error) ?? OTHER_ERROR })
  const dialect =
    options.dialect === 'sqlite' ? new NodeSqliteDialect(options) : postgresDialect({ ...options, onUnconnected })
  return new Kysely<T>({
    dialect,
    ...(observe && { log: (event) => observe(runStatement(system, event, errorCode)) }),
  })
}

function errorCode(error: unknown): string | undefined {
  if (isDatabaseAway(error)) return 'unavailable'
  return isPostgresConflict(error) ? 'conflict' : undefined
}

/** Which of the two databases this is, for the few places where their SQL differs. */
export function isPostgres(database: Pick<Kysely<unknown>, 'getExecutor'>): boolean {
  return database.getExecutor().adapter instanceof PostgresAdapter
}

/** Whether the database itself failed, rather than the code that asks it. */
export function isDatabaseError(error: unknown): boolean {
  return isSqliteError(error) || isPostgresError(error)
}

/** Whether it takes nothing for now, whatever is asked of it. */
export function isDatabaseAway(error: unknown): boolean {
  return isPostgresAway(error) || isSqliteLocked(error)
}

const ATTEMPTS = 10

/** Runs a transaction; again where another one got in its way. */
export async function retryConflicts<T>(transact: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transact()
    } catch (error) {
      if (attempt === ATTEMPTS || !isPostgresConflict(error)) throw error
      // Those who met come back apart from each other.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10 * attempt))
    }
  }
}
