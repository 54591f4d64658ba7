import { type Kysely as Database, Kysely, PostgresAdapter } from 'kysely'
import { isSqliteError, NodeSqliteDialect, type SqliteOptions } from './sql-sqlite.ts'

/** Where a database is. PostgreSQL joins as a second member; nothing but this file knows which one it is. */
export type DatabaseOptions = { readonly dialect: 'sqlite' } & SqliteOptions

/**
 * The one factory of SQL connections. Nothing is opened before the first query; `destroy()` closes.
 * `T` describes the tables, as Kysely takes them.
 */
export function openDatabase<T>(options: DatabaseOptions): Kysely<T> {
  return new Kysely<T>({ dialect: new NodeSqliteDialect(options) })
}

/** Which of the two databases this is, for the few places where their SQL differs. */
export function isPostgres(database: Pick<Database<unknown>, 'getExecutor'>): boolean {
  return database.getExecutor().adapter instanceof PostgresAdapter
}

/** Whether the database itself failed, rather than the code that asks it. */
export function isDatabaseError(error: unknown): boolean {
  return isSqliteError(error)
}
