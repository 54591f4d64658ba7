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

/** The options of a database. Few files besides this one know which kind it is. */
type DatabaseOptions = {
  readonly observe?: ObserveStatement | undefined
} & (
  | ({ readonly dialect: 'sqlite' } & SqliteOptions)
  | ({ readonly dialect: 'postgres' } & Omit<PoolOptions, 'onUnconnected'>)
)

/** Opens a database at the first query; `destroy()` closes it. `T` describes the tables. */
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

/** Tells whether the database is PostgreSQL, for the few places where the SQL of the two databases differs. */
export function isPostgres(database: Pick<Kysely<unknown>, 'getExecutor'>): boolean {
  return database.getExecutor().adapter instanceof PostgresAdapter
}

/** Tells whether the database itself failed, rather than the code that calls it. */
export function isDatabaseError(error: unknown): boolean {
  return isSqliteError(error) || isPostgresError(error)
}

/** Tells whether the database is unavailable for now, so that every statement would fail. */
export function isDatabaseAway(error: unknown): boolean {
  return isPostgresAway(error) || isSqliteLocked(error)
}

const ATTEMPTS = 10

/** Runs a transaction, and retries it after a conflict with another one. */
export async function retryConflicts<T>(transact: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transact()
    } catch (error) {
      if (attempt === ATTEMPTS || !isPostgresConflict(error)) throw error
      // A random wait keeps conflicting transactions apart.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10 * attempt))
    }
  }
}
