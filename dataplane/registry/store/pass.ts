import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { RegistryTables } from './schema.ts'

type Database = Kysely<RegistryTables>

/**
 * Of the passes over a source the one that began last alone may write; to be called in a transaction, as the others here.
 * One that was overtaken, because its replica stood still for longer than its lease or its source was set otherwise while
 * it ran, has not seen what the other brought, and would bury it. Gives the pass its name.
 */
export async function beginPass(database: Database, source: number): Promise<string> {
  const holder = randomUUID()
  await database
    .insertInto('lease')
    .values({ name: rowOf(source), holder, expires_at: 0 })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ holder }))
    .execute()
  return holder
}

/** Whether the pass was not overtaken; no other begins before the transaction ends then. */
export async function holdPass(database: Database, source: number, pass: string): Promise<boolean> {
  const query = database.selectFrom('lease').select('name').where('name', '=', rowOf(source)).where('holder', '=', pass)
  return (await (isPostgres(database) ? query.forShare() : query).executeTakeFirst()) !== undefined
}

export async function endPass(database: Database, source: number): Promise<void> {
  await database.deleteFrom('lease').where('name', '=', rowOf(source)).execute()
}

const rowOf = (source: number) => `pass ${source}`
