import type { Kysely } from 'kysely'
import type { IncomingVersion } from '../catalog/entry.ts'
import { allocateIds } from './allocate-ids.ts'
import { lockSource } from './apply-sync.ts'
import { canonicalClaims, internClaims } from './claims-sets.ts'
import type { Publication, PublishOutcome } from './records.ts'
import { refreshListing } from './refresh-listing.ts'
import type { EntryTable, RegistryTables } from './schema.ts'
import { renewRevisions, settleEntries } from './settle-entries.ts'
import { incomingColumns } from './version-row.ts'

type Database = Kysely<RegistryTables>

interface KnownVersion {
  id: number
  readonly goneAt: string | null
  document: string | undefined
  readonly documentId: number
}

interface KnownEntry {
  id: number | undefined
  claimsSet: number
  /** By precedence. */
  readonly versions: Map<string, KnownVersion>
}

/**
 * Writes publications, as many as there are, by a handful of statements; to be called in a transaction. Their outcomes
 * come in the same order, as if one had been written after the other.
 */
export async function publishAll(database: Database, publications: readonly Publication[]): Promise<PublishOutcome[]> {
  const sources = await lockManaged(database, publications)
  const sets = await internClaims(
    database,
    publications.map(({ claims }) => claims),
  )
  const entries = await loadEntries(database, publications, sources)

  const fresh: {
    readonly entry: KnownEntry
    readonly key: string
    readonly publication: Publication
    readonly source: number
  }[] = []
  const returned: { readonly version: KnownVersion; readonly publication: Publication; readonly source: number }[] = []
  const reclaimed = new Set<KnownEntry>()

  const outcomes = publications.map((publication): PublishOutcome => {
    const source = sources.get(publication.source)
    if (source === undefined) return 'no_source'
    const key = keyOf(source, publication)
    const claimsSet = sets.get(canonicalClaims(publication.claims)) as number
    const { precedence } = columnsOf(publication)
    let entry = entries.get(key)
    if (entry === undefined) entries.set(key, (entry = { id: undefined, claimsSet, versions: new Map() }))
    const version = entry.versions.get(precedence)
    const living = [...entry.versions.values()].some(({ goneAt }) => goneAt === null)
    if (living && entry.claimsSet !== claimsSet) return 'claims_mismatch'
    if (version !== undefined && version.goneAt === null)
      return version.document === publication.document ? 'unchanged' : 'version_exists'

    if (entry.claimsSet !== claimsSet) {
      entry.claimsSet = claimsSet
      reclaimed.add(entry)
    }
    if (version === undefined) fresh.push({ entry, key, publication, source })
    else returned.push({ version, publication, source })
    const { document } = publication
    entry.versions.set(precedence, {
      id: version?.id ?? 0,
      goneAt: null,
      document,
      documentId: version?.documentId ?? 0,
    })
    return 'created'
  })
  if (fresh.length + returned.length === 0) return outcomes

  await insertEntries(database, fresh)
  for (const { id, claimsSet } of reclaimed)
    if (id !== undefined)
      await database.updateTable('entry').set({ claims_set: claimsSet }).where('id', '=', id).execute()
  await insertVersions(database, fresh)
  for (const { version, publication } of returned) await bringBack(database, version, publication)

  const touched = new Set([...fresh.map(({ entry }) => entry.id as number), ...(await entriesOf(database, returned))])
  await settleEntries(database, [...touched])
  await refreshListing(database, { entries: [...touched] })
  const changed = new Set([...fresh, ...returned].map(({ source }) => source))
  await renewRevisions(database, [...changed])
  return outcomes
}

function columnsOf(publication: Publication) {
  const { type, name, version, title, description, document } = publication
  const incoming: IncomingVersion = {
    type,
    name,
    version,
    title,
    description,
    document,
    status: 'active',
    statusMessage: null,
    statusChangedAt: null,
    publishedAt: null,
    others: null,
  }
  return incomingColumns(incoming)
}

const keyOf = (source: number, { type, name }: Pick<EntryTable, 'type' | 'name'>) => `${source} ${type} ${name}`

/** Numbers of the managed sources that are published to, by name; other replicas wait until the transaction has ended. */
async function lockManaged(database: Database, publications: readonly Publication[]) {
  const names = [...new Set(publications.map(({ source }) => source))]
  const rows = await database
    .selectFrom('source')
    .select(['id', 'name', 'config'])
    .where('name', 'in', names)
    .orderBy('id')
    .execute()
  const managed = rows.filter(({ config }) => 'managed' in JSON.parse(config))
  for (const { id } of managed) await lockSource(database, id)
  return new Map(managed.map(({ id, name }) => [name, id]))
}

async function loadEntries(
  database: Database,
  publications: readonly Publication[],
  sources: ReadonlyMap<string, number>,
) {
  const entries = new Map<string, KnownEntry>()
  if (sources.size === 0) return entries
  const rows = await database
    .selectFrom('entry as e')
    .leftJoin('entry_version as v', 'v.entry_id', 'e.id')
    .select(['e.id', 'e.source_id', 'e.type', 'e.name', 'e.claims_set', 'v.id as version_id', 'v.precedence'])
    .select(['v.gone_at', 'v.document_id'])
    .where('e.source_id', 'in', [...sources.values()])
    .where('e.type', 'in', ['server', 'skill'])
    .where('e.name', 'in', [...new Set(publications.map(({ name }) => name))])
    .execute()
  const wanted = new Set(
    publications.flatMap((publication) => {
      const source = sources.get(publication.source)
      return source === undefined ? [] : `${keyOf(source, publication)} ${columnsOf(publication).precedence}`
    }),
  )
  const documents: KnownVersion[] = []
  for (const row of rows) {
    const key = keyOf(row.source_id, row)
    let entry = entries.get(key)
    if (entry === undefined) entries.set(key, (entry = { id: row.id, claimsSet: row.claims_set, versions: new Map() }))
    if (row.version_id === null || row.precedence === null || row.document_id === null) continue
    const version = { id: row.version_id, goneAt: row.gone_at, document: undefined, documentId: row.document_id }
    entry.versions.set(row.precedence, version)
    if (wanted.has(`${key} ${row.precedence}`)) documents.push(version)
  }
  if (documents.length > 0) {
    const texts = await database
      .selectFrom('document')
      .select(['id', 'text'])
      .where(
        'id',
        'in',
        documents.map(({ documentId }) => documentId),
      )
      .execute()
    const byId = new Map(texts.map(({ id, text }) => [id, text]))
    for (const version of documents) version.document = byId.get(version.documentId)
  }
  return entries
}

type Fresh = readonly { readonly entry: KnownEntry; readonly publication: Publication; readonly source: number }[]

async function insertEntries(database: Database, fresh: Fresh): Promise<void> {
  const added = new Map<KnownEntry, Fresh[number]>()
  for (const item of fresh) if (item.entry.id === undefined) added.set(item.entry, item)
  const ids = await allocateIds(database, 'entry', added.size)
  if (ids.length === 0) return
  const rows = [...added.values()].map(({ entry, publication: { type, name }, source }, index) => {
    entry.id = ids[index] as number
    return { id: entry.id, source_id: source, type, name, claims_set: entry.claimsSet }
  })
  await database.insertInto('entry').values(rows).execute()
}

async function insertVersions(database: Database, fresh: Fresh): Promise<void> {
  if (fresh.length === 0) return
  const documents = await allocateIds(database, 'document', fresh.length)
  await database
    .insertInto('document')
    .values(
      fresh.map(({ publication: { document }, source }, index) => ({
        id: documents[index] as number,
        source_id: source,
        text: document,
      })),
    )
    .execute()
  await database
    .insertInto('entry_version')
    .values(
      fresh.map(({ entry, publication }, index) => {
        const { type, name, ...columns } = columnsOf(publication)
        const { at } = publication
        return {
          ...columns,
          entry_id: entry.id as number,
          status_changed_at: at,
          published_at: at,
          updated_at: at,
          document_id: documents[index] as number,
        }
      }),
    )
    .execute()
}

/** A deleted version that is published again. */
async function bringBack(
  database: Database,
  { id, documentId }: KnownVersion,
  publication: Publication,
): Promise<void> {
  const { type, name, ...columns } = columnsOf(publication)
  const { at, document } = publication
  await database.updateTable('document').set({ text: document }).where('id', '=', documentId).execute()
  await database
    .updateTable('entry_version')
    .set({ ...columns, status_changed_at: at, published_at: at, updated_at: at, gone_at: null })
    .where('id', '=', id)
    .execute()
}

async function entriesOf(database: Database, returned: readonly { readonly version: KnownVersion }[]) {
  if (returned.length === 0) return []
  const ids = returned.map(({ version }) => version.id)
  const rows = await database.selectFrom('entry_version').select('entry_id').where('id', 'in', ids).execute()
  return rows.map(({ entry_id }) => entry_id)
}
