import type { Kysely } from 'kysely'
import type { RegistryTables } from '../database/schema.ts'

type Database = Kysely<RegistryTables>

interface SourcePass {
  readonly source: number
  /** Its name, which no other has. */
  readonly name: string
  /** The one before it; undefined where there was none. */
  readonly before: string | undefined
}

/** The pass that last wrote to a source. */
export async function lastPass(database: Database, source: number): Promise<string | undefined> {
  const row = await database.selectFrom('lease').select('holder').where('name', '=', rowOf(source)).executeTakeFirst()
  return row?.holder
}

/**
 * To be called in each transaction of a pass that writes; false where another pass has written since this one began. One
 * whose replica stood still for longer than its lease, or whose source was set otherwise while it ran, has not seen what
 * the other brought, and would bury it.
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

/** To be called when a source is removed. */
export async function forgetPasses(database: Database, source: number): Promise<void> {
  await database.deleteFrom('lease').where('name', '=', rowOf(source)).execute()
}

const rowOf = (source: number) => `pass ${source}`
