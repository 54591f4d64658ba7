import { Kysely } from 'kysely'
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

/** Whether the database itself failed, rather than the code that asks it. */
export function isDatabaseError(error: unknown): boolean {
  return isSqliteError(error)
}
