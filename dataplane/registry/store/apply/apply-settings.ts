import { randomUUID } from 'node:crypto'
import { type Insertable, type RawBuilder, sql } from 'kysely'
import { findKind } from '../../../config/registry.ts'
import { isPostgres, retryConflicts } from '../../../storage/sql.ts'
import { internOne } from '../database/claims-sets.ts'
import type { RegistrySetting, SourceSetting } from '../database/records.ts'
import type { Database, Origin, RegistryTables } from '../database/schema.ts'
import { forgetPasses } from './apply-sync.ts'
import { refreshListing, renewRevisions } from './refresh.ts'

/** The configured sources and registries. Names are unique, and every source named by a registry exists. */
export interface StoreSettings {
  readonly sources: readonly SourceSetting[]
  readonly registries: readonly RegistrySetting[]
}

/**
 * Makes the store have exactly these sources and registries, besides those of the API, in one transaction. Sources that
 * are no longer configured are removed with their entries. If the API has used a name, the file takes it over.
 */
export function applySettings(database: Database, settings: StoreSettings): Promise<void> {
  return retryConflicts(() => database.transaction().execute((transaction) => writeSettings(transaction, settings)))
}

async function writeSettings(database: Database, settings: StoreSettings): Promise<void> {
  const at = new Date().toISOString()
  // Replicas that start together wait here for each other.
  if (isPostgres(database)) await sql`select pg_advisory_xact_lock(${sql.lit(SETTINGS_LOCK)})`.execute(database)
  for (const { id, name } of await findConfigured(database, 'source'))
    if (!settings.sources.some((source) => source.name === name)) await dropSource(database, id)
  for (const source of settings.sources) await writeSource(database, source, 'config', at)

  for (const { id, name } of await findConfigured(database, 'registry'))
    if (!settings.registries.some((registry) => registry.name === name))
      await database.deleteFrom('registry').where('id', '=', id).execute()
  for (const registry of settings.registries) await writeRegistry(database, registry, 'config', at)
}

const SETTINGS_LOCK = 7_461_001

function findConfigured(database: Database, table: 'source' | 'registry') {
  return database.selectFrom(table).select(['id', 'name']).where('origin', '=', 'config').execute()
}

/** The most entries that one statement removes. With hundreds of thousands it would exceed its timeout. */
const DROPPED_AT_ONCE = 10_000

async function dropEntries(database: Database, source: number): Promise<void> {
  type Key = Pick<RegistryTables['entry'], 'type' | 'name'>
  let behind: Key | undefined = { type: 'server', name: '' }
  while (behind !== undefined) {
    const isBehind: RawBuilder<boolean> = sql<boolean>`(type, name) > (${behind.type}, ${behind.name})`
    const end: Key | undefined = await database
      .selectFrom('entry')
      .select(['type', 'name'])
      .where('source_id', '=', source)
      .where(isBehind)
      .orderBy('type')
      .orderBy('name')
      .offset(DROPPED_AT_ONCE - 1)
      .limit(1)
      .executeTakeFirst()
    await database
      .deleteFrom('entry')
      .where('source_id', '=', source)
      .where(isBehind)
      .$if(end !== undefined, (query) => query.where(sql<boolean>`(type, name) <= (${end?.type}, ${end?.name})`))
      .execute()
    behind = end
  }
}

export async function dropSource(database: Database, id: number): Promise<void> {
  await renewRevisions(database, [id])
  await forgetPasses(database, id)
  await dropEntries(database, id)
  await database.deleteFrom('source').where('id', '=', id).execute()
}

export async function writeSource(
  database: Database,
  { name, config, claims }: SourceSetting,
  origin: Origin,
  at: string,
): Promise<void> {
  const claims_set = await internOne(database, claims)
  const inherits = config.managed === undefined && config.kubernetes === undefined ? 1 : 0
  const row = { origin, config: JSON.stringify(config), claims_set, inherits }
  const before = await database.selectFrom('source').selectAll().where('name', '=', name).executeTakeFirst()
  if (before === undefined) {
    await database
      .insertInto('source')
      .values({ name, ...row, created_at: at, updated_at: at })
      .execute()
    return
  }
  if (Object.entries(row).every(([column, value]) => before[column as keyof typeof row] === value)) return
  await database
    .updateTable('source')
    .set({ ...row, updated_at: at })
    .where('id', '=', before.id)
    .execute()
  if (findKind(config) !== findKind(JSON.parse(before.config))) await emptySource(database, before.id)
  else if (inherits === 1 && claims_set !== before.claims_set) await inheritClaims(database, before.id, claims_set)
}

/** Empties a source that changes its type, since it has nothing in common with the one before. */
async function emptySource(database: Database, source: number): Promise<void> {
  await dropEntries(database, source)
  await database.deleteFrom('staged_version').where('source_id', '=', source).execute()
  await database.deleteFrom('document').where('source_id', '=', source).execute()
  const nothing = { settings_hash: null, content_hash: null, servers: 0, skills: 0, problems: '[]', sync_state: null }
  await database.updateTable('source').set(nothing).where('id', '=', source).execute()
  await renewRevisions(database, [source])
}

/** Gives the claims of a synced source to its entries. */
async function inheritClaims(database: Database, source: number, claims_set: number): Promise<void> {
  await database
    .updateTable('entry')
    .set({ claims_set })
    .where('source_id', '=', source)
    .where('claims_set', '<>', claims_set)
    .execute()
  await refreshListing(database, { source })
  await renewRevisions(database, [source])
}

export async function writeRegistry(
  database: Database,
  { name, sources, claims }: RegistrySetting,
  origin: Origin,
  at: string,
): Promise<void> {
  const claims_set = await internOne(database, claims)
  const before = await database.selectFrom('registry').selectAll().where('name', '=', name).executeTakeFirst()
  const { id } =
    before ?? (await insertRegistry(database, { name, origin, claims_set, created_at: at, updated_at: at }))
  const reordered = await applyOrder(database, id, sources)
  if (before !== undefined && (reordered || before.origin !== origin || before.claims_set !== claims_set))
    await database.updateTable('registry').set({ origin, claims_set, updated_at: at }).where('id', '=', id).execute()
}

function insertRegistry(database: Database, row: Omit<Insertable<RegistryTables['registry']>, 'revision'>) {
  const values = { ...row, revision: randomUUID() }
  return database.insertInto('registry').values(values).returning('id').executeTakeFirstOrThrow()
}

/** Sets the sources of a registry; true if they differ from before. */
async function applyOrder(database: Database, registry: number, names: readonly string[]) {
  const rows =
    names.length === 0
      ? []
      : await database.selectFrom('source').select(['id', 'name']).where('name', 'in', names).execute()
  const ids = new Map(rows.map(({ id, name }) => [name, id]))
  const sources = names.map((name) => ids.get(name) as number)
  const before = await database
    .selectFrom('registry_source')
    .select(['source_id', 'position'])
    .where('registry_id', '=', registry)
    .orderBy('position')
    .execute()
  const same =
    before.length === sources.length && before.every(({ source_id, position }) => sources[position] === source_id)
  if (!same) await writeOrder(database, registry, sources)
  return !same
}

async function writeOrder(database: Database, registry: number, sources: readonly number[]) {
  await database.deleteFrom('registry_source').where('registry_id', '=', registry).execute()
  if (sources.length > 0)
    await database
      .insertInto('registry_source')
      .values(sources.map((source_id, position) => ({ registry_id: registry, source_id, position })))
      .execute()
  await refreshListing(database, { registry })
  await database.updateTable('registry').set({ revision: randomUUID() }).where('id', '=', registry).execute()
}
