import type { Kysely } from 'kysely'
import type { RegistryTables } from '../database/schema.ts'

type Database = Kysely<RegistryTables>

interface SourcePass {
  readonly source: number
  readonly name: string
  /** The pass before it; undefined if there was none. */
  readonly before: string | undefined
}

/** Returns the pass that last wrote to a source. */
export async function lastPass(database: Database, source: number): Promise<string | undefined> {
  const row = await database.selectFrom('lease').select('holder').where('name', '=', rowOf(source)).executeTakeFirst()
  return row?.holder
}

/**
 * Marks this pass as the writing one; false if another pass has written since this one began. It must be called in each
 * writing transaction of a pass. A pass can be outdated: its replica stalled for longer than its lease, or its source's
 * settings changed while it ran. Such a pass has not seen what the other one wrote, and would remove it.
 */
export async function acquirePass(database: Database, { source, name, before = name }: SourcePass): Promise<boolean> {
  const taken = await database
    .insertInto('lease')
    .values({ name: rowOf(source), holder: name, expires_at: 0 })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet({ holder: name }).where('lease.holder', 'in', [name, before]),
    )
    .returning('holder')
    .executeTakeFirst()
  return taken !== undefined
}

/** Forgets the passes of a source. It must be called when the source is removed. */
export async function forgetPasses(database: Database, source: number): Promise<void> {
  await database.deleteFrom('lease').where('name', '=', rowOf(source)).execute()
}

const rowOf = (source: number) => `pass ${source}`
