import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import { refreshListing } from './refresh-listing.ts'
import type { RegistryTables } from './schema.ts'

/** The configured sources and registries; names are unique and every source named by a registry exists. */
export interface StoreSettings {
  readonly sources: readonly string[]
  readonly registries: readonly { readonly name: string; readonly sources: readonly string[] }[]
}

/**
 * Makes the store hold exactly these sources and registries, in one transaction. What a source brought stays, whichever
 * registries it is in; a source that is no longer configured goes with all its entries. Writes nothing where nothing
 * differs.
 */
export function applySettings(database: Kysely<RegistryTables>, settings: StoreSettings): Promise<void> {
  return database.transaction().execute(async (transaction) => {
    const sourceIds = await applySources(transaction, settings)
    await applyRegistries(transaction, settings, sourceIds)
  })
}

async function applySources(
  database: Kysely<RegistryTables>,
  { sources }: StoreSettings,
): Promise<ReadonlyMap<string, number>> {
  const known = new Map((await database.selectFrom('source').select(['id', 'name']).execute()).map(idByName))
  for (const [name, id] of known)
    if (!sources.includes(name)) await database.deleteFrom('source').where('id', '=', id).execute()

  for (const name of sources) {
    if (known.has(name)) continue
    const { id } = await database.insertInto('source').values({ name }).returning('id').executeTakeFirstOrThrow()
    known.set(name, id)
  }
  return known
}

async function applyRegistries(
  database: Kysely<RegistryTables>,
  { registries }: StoreSettings,
  sourceIds: ReadonlyMap<string, number>,
): Promise<void> {
  const known = new Map((await database.selectFrom('registry').select(['id', 'name']).execute()).map(idByName))
  for (const [name, id] of known)
    if (!registries.some((registry) => registry.name === name))
      await database.deleteFrom('registry').where('id', '=', id).execute()

  for (const { name, sources } of registries) {
    const id = known.get(name) ?? (await insertRegistry(database, name))
    await applyOrder(
      database,
      id,
      sources.map((source) => sourceIds.get(source) as number),
    )
  }
}

async function insertRegistry(database: Kysely<RegistryTables>, name: string): Promise<number> {
  const row = { name, revision: randomUUID() }
  return (await database.insertInto('registry').values(row).returning('id').executeTakeFirstOrThrow()).id
}

/** A source that went has taken its row along: the positions then differ, and the registry gets a new revision. */
async function applyOrder(database: Kysely<RegistryTables>, registry: number, sources: readonly number[]) {
  const before = await database
    .selectFrom('registry_source')
    .select(['source_id', 'position'])
    .where('registry_id', '=', registry)
    .execute()
  const same =
    before.length === sources.length && before.every(({ source_id, position }) => sources[position] === source_id)
  if (same) return

  await database.deleteFrom('registry_source').where('registry_id', '=', registry).execute()
  await database
    .insertInto('registry_source')
    .values(sources.map((source_id, position) => ({ registry_id: registry, source_id, position })))
    .execute()
  await refreshListing(database, { registry })
  await database.updateTable('registry').set({ revision: randomUUID() }).where('id', '=', registry).execute()
}

function idByName({ id, name }: { id: number; name: string }): [string, number] {
  return [name, id]
}
