import type { Kysely } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { IncomingVersion } from '../catalog/entry.ts'
import { precedence } from '../catalog/precedence.ts'
import { allocateIds } from './allocate-ids.ts'
import { canonicalClaims, internClaims } from './claims-sets.ts'
import { insertTogether } from './insert-together.ts'
import { entryKey, type KnownEntry, type KnownVersion, loadKnown, type Placed } from './known-entries.ts'
import type { Publication, PublishOutcome } from './records.ts'
import { listAdded, refreshListing } from './refresh-listing.ts'
import type { RegistryTables } from './schema.ts'
import { renewRevisions, settleEntries } from './settle-entries.ts'
import { incomingColumns } from './version-row.ts'

type Database = Kysely<RegistryTables>

/** A publication that is written, to an entry that may be new. */
interface Write extends Placed {
  readonly entry: KnownEntry
}

/** What publications come to. */
interface Plan {
  readonly outcomes: readonly PublishOutcome[]
  /** Versions that are new. */
  readonly fresh: readonly Write[]
  /** Deleted versions that come back. */
  readonly returned: readonly (Write & { readonly version: KnownVersion })[]
  /** Entries that had no version left and come back, maybe with other claims. */
  readonly revived: ReadonlySet<KnownEntry>
}

/**
 * Writes publications, as many as there are, by a handful of statements; to be called in a transaction. Their outcomes
 * come in the same order, as if one had been written after the other.
 */
export async function publishAll(database: Database, publications: readonly Publication[]): Promise<PublishOutcome[]> {
  const sources = await lockManaged(database, publications)
  const placed = publications.map((publication): Placed | undefined => {
    const source = sources.get(publication.source)
    return source === undefined ? undefined : { publication, source, precedence: precedence(publication.version) }
  })
  const found = placed.filter((one) => one !== undefined)
  if (found.length === 0) return publications.map(() => 'no_source')
  const sets = await internClaims(
    database,
    found.map(({ publication }) => publication.claims),
  )
  const { outcomes, fresh, returned, revived } = plan(placed, sets, await loadKnown(database, found))
  const writes = [...fresh, ...returned]
  if (writes.length === 0) return [...outcomes]

  const added = writes.filter(({ entry }) => entry.id === undefined)
  await insertFresh(database, fresh)
  for (const { id, claimsSet } of revived)
    await database
      .updateTable('entry')
      .set({ claims_set: claimsSet })
      .where('id', '=', id as number)
      .execute()
  for (const one of returned) await bringBack(database, one)
  await settleEntries(database, idsOf(writes.filter((write) => !added.includes(write))))
  await refreshListing(database, { entries: Array.from(revived, ({ id }) => id as number) })
  await listAdded(database, idsOf(added))
  await renewRevisions(database, [...new Set(writes.map(({ source }) => source))])
  return [...outcomes]
}

function plan(
  placed: readonly (Placed | undefined)[],
  sets: ReadonlyMap<string, number>,
  entries: Map<string, KnownEntry>,
): Plan {
  const fresh: Write[] = []
  const returned: (Write & { readonly version: KnownVersion })[] = []
  const revived = new Set<KnownEntry>()

  function outcomeOf(one: Placed): PublishOutcome {
    const { publication, source, precedence } = one
    const { document } = publication
    const claimsSet = sets.get(canonicalClaims(publication.claims)) as number
    const key = entryKey(source, publication)
    let entry = entries.get(key)
    if (entry === undefined) entries.set(key, (entry = { id: undefined, claimsSet, versions: new Map() }))
    const version = entry.versions.get(precedence)
    const living = entry.versions.values().some(({ goneAt }) => goneAt === null)
    if (living && entry.claimsSet !== claimsSet) return 'claims_mismatch'
    if (version !== undefined && version.goneAt === null)
      return version.document === document ? 'unchanged' : 'version_exists'

    if (!living && entry.id !== undefined) {
      entry.claimsSet = claimsSet
      revived.add(entry)
    }
    if (version === undefined) fresh.push({ ...one, entry })
    else returned.push({ ...one, entry, version })
    entry.versions.set(precedence, { id: 0, documentId: 0, ...version, goneAt: null, document })
    return 'created'
  }

  const outcomes = placed.map((one) => (one === undefined ? 'no_source' : outcomeOf(one)))
  return { outcomes, fresh, returned, revived }
}

const idsOf = (writes: readonly Write[]) => [...new Set(writes.map(({ entry }) => entry.id as number))]

/** Numbers of the managed sources that are published to, by name; other replicas wait until the transaction has ended. */
async function lockManaged(database: Database, publications: readonly Publication[]) {
  const names = [...new Set(publications.map(({ source }) => source))]
  const rows = await database
    .selectFrom('source')
    .select(['id', 'name', 'config'])
    .where('name', 'in', names)
    .orderBy('id')
    .$if(isPostgres(database), (query) => query.forUpdate())
    .execute()
  return new Map(rows.filter(({ config }) => 'managed' in JSON.parse(config)).map(({ id, name }) => [name, id]))
}

/** Writes new versions, and the entries that are new with them, settled. */
async function insertFresh(database: Database, fresh: readonly Write[]): Promise<void> {
  if (fresh.length === 0) return
  const added = Map.groupBy(
    fresh.filter(({ entry }) => entry.id === undefined),
    ({ entry }) => entry,
  )
  const ids = await allocateIds(database, { entry: added.size, document: fresh.length, entry_version: fresh.length })
  const entries = Array.from(added, ([entry, [first, ...more]], index) => {
    entry.id = ids.entry[index] as number
    const newest = more.reduce((one, other) => newer(one, other), first as Write)
    const { source, publication } = newest
    const { type, name } = publication
    const latest_id = ids.entry_version[fresh.indexOf(newest)]
    return { id: entry.id, source_id: source, type, name, claims_set: entry.claimsSet, latest_id }
  })
  await insertTogether(database, {
    entry: entries,
    document: fresh.map(({ publication: { document }, source }, index) => ({
      id: ids.document[index],
      source_id: source,
      text: document,
    })),
    entry_version: fresh.map(({ entry, publication }, index) => ({
      ...columnsOf(publication),
      id: ids.entry_version[index],
      entry_id: entry.id,
      document_id: ids.document[index],
    })),
  })
}

/** As the database orders them, byte by byte. */
function newer(one: Write, other: Write): Write {
  return Buffer.compare(Buffer.from(one.precedence), Buffer.from(other.precedence)) > 0 ? one : other
}

/** A deleted version that is published again. */
async function bringBack(database: Database, { version, publication }: Plan['returned'][number]): Promise<void> {
  const { id, documentId } = version
  const { document } = publication
  await database.updateTable('document').set({ text: document }).where('id', '=', documentId).execute()
  await database
    .updateTable('entry_version')
    .set({ ...columnsOf(publication), gone_at: null })
    .where('id', '=', id)
    .execute()
}

/** The columns of a version that is published. */
function columnsOf({ type, name, version, title, description, document, at }: Publication) {
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
  const { type: _, name: __, ...columns } = incomingColumns(incoming)
  return { ...columns, status_changed_at: at, published_at: at, updated_at: at }
}
