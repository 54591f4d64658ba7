import { type RawBuilder, sql } from 'kysely'

/**
 * A limit that comes with each run. SQLite reads the value of a bare placeholder as it plans, and so compiles the
 * statement anew for each run: for one of 32 parts five times the work of running it.
 */
export function limitOf(rows: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`limit ${rows} + 0`
}
