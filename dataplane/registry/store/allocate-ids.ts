import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { RegistryTables } from './schema.ts'

/**
 * Numbers for that many new rows, to be used in the same transaction: rows that refer to each other can then be written
 * by one statement a table, whatever order the database would hand numbers out in.
 */
export async function allocateIds(
  database: Kysely<RegistryTables>,
  table: 'entry' | 'entry_version' | 'document',
  count: number,
): Promise<number[]> {
  if (count === 0) return []
  if (isPostgres(database)) {
    const { rows } = await sql<{ id: number }>`
      select nextval(pg_get_serial_sequence(${table}, 'id'))::int as id from generate_series(1, ${count}::int)`.execute(
      database,
    )
    return rows.map(({ id }) => id)
  }
  // SQLite has one writer: nobody else hands out numbers before this transaction ends.
  const { rows } = await sql<{ last: number | null }>`select max(id) as last from ${sql.table(table)}`.execute(database)
  const last = rows[0]?.last ?? 0
  return Array.from({ length: count }, (_, index) => last + 1 + index)
}
