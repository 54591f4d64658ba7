import type { Kysely } from 'kysely'
import type { RegistryTables } from '../database/schema.ts'

type Database = Kysely<RegistryTables>

interface SourcePass {
  readonly source: number
  readonly name: string
  readonly before: string | undefined
}

/** Returns the pass that last wrote to a source. */
export async function lastPass(database: Database, source: number): Promise<string | undefined> {
  const row = await database
    .selectFrom('lease')
    .select('holder')
    .where('name', '=', formatRow(source))
    .executeTakeFirst()
  return row?.holder
}

/**
 * Marks this pass as the writing one; false if another has written since. Call it in each writing transaction: an
 * outdated pass (stalled beyond its lease, or with old settings) would remove what the other one wrote.
 */
export async function acquirePass(database: Database, { source, name, before = name }: SourcePass): Promise<boolean> {
  const taken = await database
    .insertInto('lease')
    .values({ name: formatRow(source), holder: name, expires_at: 0 })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet({ holder: name }).where('lease.holder', 'in', [name, before]),
    )
    .returning('holder')
    .executeTakeFirst()
  return taken !== undefined
}

export async function forgetPasses(database: Database, source: number): Promise<void> {
  await database.deleteFrom('lease').where('name', '=', formatRow(source)).execute()
}

const formatRow = (source: number) => `pass ${source}`
