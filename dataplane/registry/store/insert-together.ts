import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { RegistryTables } from './schema.ts'

type Row<T extends keyof RegistryTables> = Readonly<Partial<Record<keyof RegistryTables[T] & string, unknown>>>

/** New rows by table, in the order in which they refer to each other; rows of one table have the same columns. */
export type NewRows = { readonly [T in keyof RegistryTables]?: readonly Row<T>[] }

/** Inserts rows into several tables: by one statement on PostgreSQL, where each is a way to the server and back. */
export async function insertTogether(database: Kysely<RegistryTables>, rows: NewRows): Promise<void> {
  const inserts = Object.entries(rows).flatMap(([table, its]) => (its.length === 0 ? [] : insertOf(table, its)))
  const last = inserts.at(-1)
  if (last === undefined) return
  if (!isPostgres(database)) {
    for (const insert of inserts) await insert.execute(database)
    return
  }
  const before = inserts.slice(0, -1).map((insert, index) => sql`${sql.id(`part${index}`)} as (${insert})`)
  await sql`${before.length === 0 ? sql`` : sql`with ${sql.join(before)}`} ${last}`.execute(database)
}

function insertOf(table: string, rows: readonly Readonly<Record<string, unknown>>[]): RawBuilder<unknown> {
  const columns = Object.keys(rows[0] ?? {})
  const values = rows.map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`)
  return sql`insert into ${sql.table(table)} (${sql.join(columns.map((column) => sql.id(column)))}) values ${sql.join(values)}`
}
