import type { Kysely } from 'kysely'
import { dropSource, writeRegistry, writeSource } from './apply-settings.ts'
import { lockSource } from './apply-sync.ts'
import type { AdminWriter } from './records.ts'
import type { RegistryTables } from './schema.ts'

type Database = Kysely<RegistryTables>
type Argument<K extends keyof AdminWriter> = Parameters<AdminWriter[K]>[0]
type Outcome<K extends keyof AdminWriter> = ReturnType<AdminWriter[K]>

/** Creates or changes a source of the API; to be called in a transaction, as the others here. */
export async function putSource(database: Database, change: Argument<'putSource'>): Outcome<'putSource'> {
  const before = await find(database, 'source', change.name)
  const refusal = refusalOf(before, change.create)
  if (refusal !== undefined) return refusal
  await writeSource(database, change, 'api', change.at)
  return 'done'
}

export async function removeSource(database: Database, { name }: Argument<'removeSource'>): Outcome<'removeSource'> {
  const before = await find(database, 'source', name)
  if (before?.origin !== 'api') return 'not_found'
  // A registry that takes it meanwhile is seen then, or finds it gone.
  await lockSource(database, before.id)
  const user = await database
    .selectFrom('registry_source')
    .select('registry_id')
    .where('source_id', '=', before.id)
    .executeTakeFirst()
  if (user !== undefined) return 'in_use'
  await dropSource(database, before.id)
  return 'done'
}

export async function putRegistry(database: Database, change: Argument<'putRegistry'>): Outcome<'putRegistry'> {
  const before = await find(database, 'registry', change.name)
  const refusal = refusalOf(before, change.create)
  if (refusal !== undefined) return refusal
  for (const source of change.sources) if ((await find(database, 'source', source)) === undefined) return 'no_source'
  await writeRegistry(database, change, 'api', change.at)
  return 'done'
}

export async function removeRegistry(
  database: Database,
  { name }: Argument<'removeRegistry'>,
): Outcome<'removeRegistry'> {
  const before = await find(database, 'registry', name)
  if (before?.origin !== 'api') return 'not_found'
  await database.deleteFrom('registry').where('id', '=', before.id).execute()
  return 'done'
}

function find(database: Database, table: 'source' | 'registry', name: string) {
  return database.selectFrom(table).select(['id', 'origin']).where('name', '=', name).executeTakeFirst()
}

/** What the configuration file made, the file alone may change. */
function refusalOf(before: { readonly origin: string } | undefined, create: boolean) {
  if (create) return before === undefined ? undefined : 'taken'
  if (before === undefined) return 'not_found'
  return before.origin === 'api' ? undefined : 'taken'
}
