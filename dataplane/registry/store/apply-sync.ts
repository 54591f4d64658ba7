import { hash, randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { IncomingVersion } from '../catalog/entry.ts'
import { precedence } from '../catalog/precedence.ts'
import { searchText } from '../catalog/search-text.ts'
import { inChunks } from './chunks.ts'
import { refreshListing } from './refresh-listing.ts'
import type { EntryType, EntryVersionTable, RegistryTables } from './schema.ts'

/** What a source holds now, or what has changed in it. */
export interface SourceContent {
  readonly source: string
  readonly settingsHash: string
  readonly contentHash: string
  /** Whether these are all of its versions: what is not among them has left the source. */
  readonly complete: boolean
  /** No two of the same type, name and version. */
  readonly versions: readonly IncomingVersion[]
  /** JSON list of what was left out. */
  readonly problems: string
  /** UTC with milliseconds. */
  readonly now: string
}

/** How long a version that left its source is told of under `include_deleted` and `updated_since`. */
const TOMBSTONE_MS = 30 * 24 * 60 * 60 * 1000

interface Known {
  readonly id: number
  readonly contentHash: string
  readonly goneAt: string | null
  /** Whether the content at hand has it. */
  seen: boolean
}

interface KnownEntry {
  id: number
  readonly versions: Map<string, Known>
}

/**
 * Makes the store hold this content for a source, in one transaction: whoever reads sees the state before or
 * after, and a process that is killed leaves the state before. Writes only what differs.
 *
 * What is gone becomes a tombstone, so that those who mirror us by `updated_since` learn of it.
 */
export function applySync(database: Kysely<RegistryTables>, content: SourceContent): Promise<void> {
  return database.transaction().execute(async (transaction) => {
    const { id: source } = await transaction
      .selectFrom('source')
      .select('id')
      .where('name', '=', content.source)
      .executeTakeFirstOrThrow()

    const known = await loadKnown(transaction, source)
    await insertEntries(transaction, source, content.versions, known)
    const touched = await writeVersions(transaction, content, known)
    if (content.complete) await buryVanished(transaction, content.now, known, touched)
    await purgeTombstones(transaction, content.now, known, touched)
    if (touched.size > 0) {
      await settleEntries(transaction, [...touched])
      await refreshListing(transaction, { source })
      await renewRevisions(transaction, source)
    }
    await recordContent(transaction, source, content)
  })
}

type Database = Kysely<RegistryTables>

const keyOf = (type: EntryType, name: string) => `${type} ${name}`

async function loadKnown(database: Database, source: number): Promise<Map<string, KnownEntry>> {
  const rows = await database
    .selectFrom('entry as e')
    .leftJoin('entry_version as v', 'v.entry_id', 'e.id')
    .select(['e.id as entry_id', 'e.type', 'e.name', 'v.id', 'v.version', 'v.content_hash', 'v.gone_at'])
    .where('e.source_id', '=', source)
    .execute()
  const known = new Map<string, KnownEntry>()
  for (const { entry_id, type, name, id, version, content_hash, gone_at } of rows) {
    const key = keyOf(type, name)
    let entry = known.get(key)
    if (entry === undefined) known.set(key, (entry = { id: entry_id, versions: new Map() }))
    if (id !== null && version !== null && content_hash !== null)
      entry.versions.set(version, { id, contentHash: content_hash, goneAt: gone_at, seen: false })
  }
  return known
}

async function insertEntries(
  database: Database,
  source: number,
  versions: readonly IncomingVersion[],
  known: Map<string, KnownEntry>,
): Promise<void> {
  const fresh = new Map<string, { source_id: number; type: EntryType; name: string }>()
  for (const { type, name } of versions) {
    const key = keyOf(type, name)
    if (!known.has(key)) fresh.set(key, { source_id: source, type, name })
  }
  await inChunks([...fresh.values()], async (rows) => {
    const inserted = await database.insertInto('entry').values(rows).returning(['id', 'type', 'name']).execute()
    for (const { id, type, name } of inserted) known.set(keyOf(type, name), { id, versions: new Map() })
  })
}

/** Inserts and updates versions; returns the entries that they belong to. */
async function writeVersions(
  database: Database,
  { versions, now }: SourceContent,
  known: ReadonlyMap<string, KnownEntry>,
): Promise<Set<number>> {
  const touched = new Set<number>()
  const fresh: NewVersion[] = []

  for (const incoming of versions) {
    const entry = known.get(keyOf(incoming.type, incoming.name)) as KnownEntry
    const before = entry.versions.get(incoming.version)
    const contentHash = hashOf(incoming)
    if (before === undefined) fresh.push(newVersion(entry.id, incoming, contentHash, now))
    else {
      before.seen = true
      if (before.contentHash === contentHash && before.goneAt === null) continue
      await updateVersion(database, before.id, newVersion(entry.id, incoming, contentHash, now), incoming)
    }
    touched.add(entry.id)
  }
  await inChunks(fresh, (rows) => database.insertInto('entry_version').values(rows).execute())
  return touched
}

async function buryVanished(
  database: Database,
  now: string,
  known: ReadonlyMap<string, KnownEntry>,
  touched: Set<number>,
): Promise<void> {
  const vanished: number[] = []
  for (const entry of known.values())
    for (const version of entry.versions.values())
      if (!version.seen && version.goneAt === null) {
        vanished.push(version.id)
        touched.add(entry.id)
      }
  await inChunks(vanished, (ids) =>
    database
      .updateTable('entry_version')
      .set({ status: 'deleted', status_message: null, status_changed_at: now, updated_at: now, gone_at: now })
      .where('id', 'in', ids)
      .execute(),
  )
}

/** Old tombstones go for good, and entries that have no version left with them. */
async function purgeTombstones(
  database: Database,
  now: string,
  known: ReadonlyMap<string, KnownEntry>,
  touched: Set<number>,
): Promise<void> {
  const before = new Date(Date.parse(now) - TOMBSTONE_MS).toISOString()
  const isOld = ({ seen, goneAt }: Known) => !seen && goneAt !== null && goneAt < before
  const entries: number[] = []
  const versions: number[] = []
  for (const entry of known.values()) {
    const all = [...entry.versions.values()]
    const old = all.filter(isOld).map(({ id }) => id)
    if (old.length === 0) continue
    versions.push(...old)
    // An entry that was touched already has a version that came in just now.
    if (old.length === all.length && !touched.has(entry.id)) entries.push(entry.id)
    touched.add(entry.id)
  }
  await inChunks(versions, (ids) => database.deleteFrom('entry_version').where('id', 'in', ids).execute())
  await inChunks(entries, (ids) => database.deleteFrom('entry').where('id', 'in', ids).execute())
}

/** Finds the latest version and whether any is left: what is in the source before tombstones, then not deleted, then newest. */
async function settleEntries(database: Database, entries: readonly number[]): Promise<void> {
  await inChunks(entries, (ids) =>
    sql`
      update entry set
        latest_id = (
          select v.id from entry_version v where v.entry_id = entry.id order by
            case when v.gone_at is null then 0 else 1 end, case when v.status = 'deleted' then 1 else 0 end,
            v.precedence desc limit 1),
        living = case when exists (
          select 1 from entry_version v where v.entry_id = entry.id and v.gone_at is null) then 1 else 0 end
      where id in (${sql.join(ids)})`.execute(database),
  )
}

async function renewRevisions(database: Database, source: number): Promise<void> {
  await database
    .updateTable('registry')
    .set({ revision: randomUUID() })
    .where('id', 'in', (select) =>
      select.selectFrom('registry_source').select('registry_id').where('source_id', '=', source),
    )
    .execute()
}

async function recordContent(
  database: Database,
  source: number,
  { settingsHash, contentHash, problems }: SourceContent,
): Promise<void> {
  const count = (type: EntryType) =>
    sql<number>`(select count(*) from entry where source_id = ${source} and type = ${type} and living = 1)`
  await database
    .updateTable('source')
    .set({
      settings_hash: settingsHash,
      content_hash: contentHash,
      problems,
      servers: count('server'),
      skills: count('skill'),
    })
    .where('id', '=', source)
    .execute()
}

/** Over everything that came in, so that an equal hash means an equal row. */
function hashOf(incoming: IncomingVersion): string {
  const { document, others, status, statusMessage, statusChangedAt, publishedAt } = incoming
  const rest = JSON.stringify([status, statusMessage, statusChangedAt, publishedAt, others])
  return hash('sha256', `${rest}\n${document}`, 'base64url')
}

/** What the source does not tell is kept: when it was published, and when its status changed if it did not. */
async function updateVersion(database: Database, id: number, row: NewVersion, incoming: IncomingVersion) {
  const { published_at, status_changed_at, ...columns } = row
  await database
    .updateTable('entry_version')
    .set({ ...columns, ...(incoming.publishedAt !== null && { published_at }) })
    .set((set) => ({
      status_changed_at:
        incoming.statusChangedAt ??
        set.case().when('status', '=', row.status).then(set.ref('status_changed_at')).else(row.updated_at).end(),
    }))
    .where('id', '=', id)
    .execute()
}

type NewVersion = Omit<EntryVersionTable, 'id'>

function newVersion(entry: number, incoming: IncomingVersion, contentHash: string, now: string): NewVersion {
  const { name, version, title, description } = incoming
  return {
    entry_id: entry,
    version,
    precedence: precedence(version),
    status: incoming.status,
    status_message: incoming.statusMessage,
    status_changed_at: incoming.statusChangedAt ?? incoming.publishedAt ?? now,
    published_at: incoming.publishedAt ?? now,
    updated_at: now,
    gone_at: null,
    title,
    description,
    search_text: searchText(name, title, description),
    content_hash: contentHash,
    other_meta: incoming.others,
    document: incoming.document,
  }
}
