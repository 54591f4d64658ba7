import { sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import type { Database } from './schema.ts'

type Table = 'entry' | 'document' | 'entry_version'

/**
 * Allocates ids for new rows, in the transaction that writes them. With known ids, rows that refer to each other can be
 * written by one statement for each table.
 */
export async function allocateIds<T extends Table>(
  database: Database,
  counts: Readonly<Record<T, number>>,
): Promise<Readonly<Record<T, readonly number[]>>> {
  const wanted = Object.entries<number>(counts)
  const allocated: Record<string, number[]> = Object.fromEntries(wanted.map(([table]) => [table, []]))
  for (const { name, id } of await (isPostgres(database) ? drawFromSequences : countOn)(database, wanted))
    allocated[name]?.push(id)
  return allocated as Record<T, number[]>
}

interface Allocated {
  readonly name: string
  readonly id: number
}

async function drawFromSequences(database: Database, wanted: [string, number][]): Promise<readonly Allocated[]> {
  const tables = sql.join(wanted.map(([table, count]) => sql`(${table}, ${count}::int)`))
  const { rows } = await sql<Allocated>`
    with wanted as materialized (
      select name, count, pg_get_serial_sequence(name, 'id')::regclass as sequence from (values ${tables}) as t(name, count))
    select w.name, nextval(w.sequence)::int as id
    from wanted w cross join lateral generate_series(1, w.count)`.execute(database)
  return rows
}

/** Counts on from the highest id. No lock is needed: SQLite has one writer. */
async function countOn(database: Database, wanted: [string, number][]): Promise<readonly Allocated[]> {
  const allocated: Allocated[] = []
  for (const [name, count] of wanted) {
    const { rows } = await sql<{ last: number | null }>`select max(id) as last from ${sql.table(name)}`.execute(
      database,
    )
    const last = rows[0]?.last ?? 0
    for (let more = 1; more <= count; more++) allocated.push({ name, id: last + more })
  }
  return allocated
}
