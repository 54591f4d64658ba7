import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import { isEmpty } from '../../../identity/claims.ts'
import { isPostgres } from '../../../storage/sql.ts'
import { readUpstreamMeta } from '../../catalog/entry.ts'
import { parseExactly } from '../../catalog/json.ts'
import { precedence } from '../../catalog/precedence.ts'
import { refreshLatest, refreshListing, renewRevisions } from '../apply/refresh.ts'
import { canonicalClaims, internClaims } from '../database/claims-sets.ts'
import type { Publication, PublishOutcome } from '../database/records.ts'
import type { Database } from '../database/schema.ts'
import { prepareForTransactions } from '../database/statement.ts'
import { deriveColumns } from '../database/version-columns.ts'
import { insertFresh, insertFreshAtOnce } from './insert-fresh.ts'
import {
  type FreshColumns,
  formatEntryKey,
  type KnownEntry,
  type KnownVersion,
  loadKnown,
  type ResolvedPublication,
  type Write,
} from './known-entries.ts'

interface Plan {
  readonly fresh: Write[]
  /** The deleted versions that are published again. */
  readonly returned: (Write & { readonly version: KnownVersion })[]
  /** The entries that had only tombstones. They may get other claims. */
  readonly revived: Set<KnownEntry>
}

interface Lock {
  readonly names: readonly string[]
  readonly claims: readonly string[]
}

interface LockedSource {
  readonly id: number
  readonly name: string
  readonly config: string
  readonly source_claims: string
  /** The ids of stored sets of claims, by their canonical texts. */
  readonly sets: Readonly<Record<string, number>> | null
}

/** Locks sources until the transaction ends, and reads sets of claims. */
const lockSources = prepareForTransactions<Lock, LockedSource>(
  (value) => sql<LockedSource>`
    select id, name, config, (select s.claims from claims_set s where s.id = source.claims_set) as source_claims,
      (select json_object_agg(c.claims, c.id) from claims_set c where c.claims = any(${value('claims')}::text[])) as sets
    from source where name = any(${value('names')}::text[]) order by id for update`,
)

/**
 * Writes publications by a few statements; it must be called in a transaction. Returns their outcomes in order, which
 * are the same as if they were written one after the other.
 */
export async function publishAll(
  database: Database,
  publications: readonly Publication[],
  sizes = new ManagedSizes(),
): Promise<PublishOutcome[]> {
  const { sources, known } = await lockManaged(database, publications)
  const resolved = publications.map((publication) => resolve(publication, sources.get(publication.source)))
  const found = resolved.filter((one) => typeof one === 'object')
  if (found.length === 0) return resolved.filter((one) => typeof one === 'string')
  const sets = await internClaims(
    database,
    found.map(({ publication }) => publication.claims),
    known,
  )
  const left = await readBytesLeft(database, sizes, found)
  const state = { sets, entries: await loadKnown(database, found), left }
  const plan: Plan = { fresh: [], returned: [], revived: new Set() }
  const outcomes = resolved.map((one) => (typeof one === 'string' ? one : planPublication(one, state, plan)))
  const { fresh, returned, revived } = plan
  const writes = [...fresh, ...returned]
  if (writes.length === 0) return outcomes
  for (const { source, publication } of writes) sizes.add(source, Buffer.byteLength(publication.document))

  const changed = writes.flatMap(({ entry }) => entry.id ?? [])
  if (fresh.length > 0) await (isPostgres(database) ? insertFreshAtOnce : insertFresh)(database, fresh)
  for (const { id, claimsSet } of revived)
    await database
      .updateTable('entry')
      .set({ claims_set: claimsSet })
      .where('id', '=', id as number)
      .execute()
  for (const one of returned) await restoreVersion(database, one)
  await refreshLatest(database, [...new Set(changed)])
  await refreshListing(database, { entries: Array.from(revived, ({ id }) => id as number) })
  if (returned.length > 0) await renewRevisions(database, [...new Set(returned.map(({ source }) => source))])
  return outcomes
}

/** Resolves the source of a publication, or returns the outcome if it has none. */
function resolve(
  publication: Publication,
  source: Pick<LockedSource, 'id' | 'source_claims'> | undefined,
): ResolvedPublication | 'no_source' | 'source_changed' {
  if (source === undefined) return 'no_source'
  const { expectSource, version } = publication
  if (expectSource !== undefined && canonicalClaims(expectSource) !== source.source_claims) return 'source_changed'
  return { publication, source: source.id, precedence: precedence(version) }
}

/** The state of the store before publications are planned. */
interface Known {
  readonly sets: ReadonlyMap<string, number>
  readonly entries: Map<string, KnownEntry>
  /** The bytes that each source may still get. */
  readonly left: Map<number, number>
}

async function readBytesLeft(
  database: Database,
  sizes: ManagedSizes,
  resolved: readonly ResolvedPublication[],
): Promise<Map<number, number>> {
  const left = new Map<number, number>()
  for (const [source, its] of Map.groupBy(resolved, ({ source }) => source)) {
    const most = its.reduce((least, { publication: { mostBytes = Infinity } }) => Math.min(least, mostBytes), Infinity)
    const wanted = its.reduce((sum, { publication }) => sum + Buffer.byteLength(publication.document), 0)
    left.set(source, most === Infinity ? most : most - (await sizes.held(database, source, wanted, most)))
  }
  return left
}

/** Adds a publication to the plan, and to what is known for the next one. Returns its outcome. */
function planPublication(
  one: ResolvedPublication,
  { sets, entries, left }: Known,
  { fresh, returned, revived }: Plan,
): PublishOutcome {
  const { publication, source, precedence } = one
  const { document } = publication
  const claimsSet = sets.get(canonicalClaims(publication.claims)) as number
  const entry = findOrAddEntry(entries, formatEntryKey(source, publication), claimsSet)
  const version = entry.versions.get(precedence)
  const isLiving = entry.versions.values().some(({ goneAt }) => goneAt === null)
  const refusal = refuseClaims(publication, isLiving ? entry.claimsSet : undefined, claimsSet)
  if (refusal !== undefined) return refusal
  if (version?.goneAt === null) return sameDocument(version.document, document) ? 'unchanged' : 'version_exists'

  const bytes = Buffer.byteLength(document)
  const bytesLeft = left.get(source) as number
  if (bytes > bytesLeft) return 'source_full'
  left.set(source, bytesLeft - bytes)
  if (!isLiving && entry.id !== undefined) {
    entry.claimsSet = claimsSet
    revived.add(entry)
  }
  const write = { ...one, entry, columns: buildColumns(publication) }
  if (version === undefined) fresh.push(write)
  else returned.push({ ...write, version })
  entry.versions.set(precedence, { id: 0, documentId: 0, ...version, goneAt: null, document })
  return 'created'
}

function findOrAddEntry(entries: Map<string, KnownEntry>, key: string, claimsSet: number): KnownEntry {
  let entry = entries.get(key)
  if (entry === undefined) entries.set(key, (entry = { id: undefined, claimsSet, versions: new Map() }))
  return entry
}

/** Checks the claims. `living`: the set of an entry that has versions; undefined for a first version. */
function refuseClaims(
  { needsClaims, claims }: Publication,
  living: number | undefined,
  claimsSet: number,
): 'claims_mismatch' | 'claims_required' | undefined {
  if (living !== undefined) return living === claimsSet ? undefined : 'claims_mismatch'
  return needsClaims && isEmpty(claims) ? 'claims_required' : undefined
}

/** Tells whether two documents are equal. The order of members does not count (RFC 8259, section 4). */
function sameDocument(one = 'null', other: string): boolean {
  return one === other || isDeepStrictEqual(parseExactly(one), parseExactly(other))
}

/**
 * Locks the managed sources that are published to. Returns their ids by name and, on PostgreSQL, the ids of stored sets
 * of claims.
 */
async function lockManaged(database: Database, publications: readonly Publication[]) {
  const names = [...new Set(publications.map(({ source }) => source))]
  const rows = isPostgres(database)
    ? await lockSources(database, { names, claims: publications.map(({ claims }) => canonicalClaims(claims)) })
    : await database
        .selectFrom('source as s')
        .innerJoin('claims_set as c', 'c.id', 's.claims_set')
        .select(['s.id', 's.name', 's.config', 'c.claims as source_claims'])
        .where('s.name', 'in', names)
        .execute()
  const managed = rows.filter(({ config }) => 'managed' in JSON.parse(config))
  return {
    sources: new Map(managed.map((row) => [row.name, row])),
    known: new Map(rows.flatMap((row) => ('sets' in row ? Object.entries(row.sets ?? {}) : []))),
  }
}

async function restoreVersion(
  database: Database,
  { version, publication, columns }: Plan['returned'][number],
): Promise<void> {
  const { id, documentId } = version
  const { document } = publication
  await database.updateTable('document').set({ text: document }).where('id', '=', documentId).execute()
  await database
    .updateTable('entry_version')
    .set({ ...columns, gone_at: null })
    .where('id', '=', id)
    .execute()
}

function buildColumns({ type, name, version, title, description, document, at }: Publication): FreshColumns {
  // A publication has no `_meta` of an upstream.
  const incoming = { type, name, version, title, description, document, ...readUpstreamMeta(undefined) }
  const { type: _, name: __, ...columns } = deriveColumns(incoming)
  return { ...columns, status_changed_at: at, published_at: at, updated_at: at }
}

/** A count is repeated after this time, since other replicas publish, and versions are deleted. */
const RECOUNT_MS = 10 * 60_000
/** If there seems to be no room, it is repeated after this time. */
const SOON_MS = 10_000

interface Counted {
  bytes: number
  readonly at: number
}

/** Estimates the bytes of documents in managed sources, since counting many of them takes long. */
export class ManagedSizes {
  readonly #sources = new Map<number, Counted>()

  /** Returns the bytes of a source. It counts again if the count is old, or if `wanted` more would exceed the limit. */
  async held(database: Database, source: number, wanted: number, most: number): Promise<number> {
    const known = this.#sources.get(source)
    const age = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.at
    const isFull = known !== undefined && known.bytes + wanted > most
    if (known !== undefined && age < (isFull ? SOON_MS : RECOUNT_MS)) return known.bytes
    const { rows } = await sql<{ bytes: number | string }>`
      select coalesce(sum(octet_length(text)), 0) as bytes from document where source_id = ${source}`.execute(database)
    // PostgreSQL gives sums as text.
    const bytes = Number(rows[0]?.bytes)
    this.#sources.set(source, { bytes, at: performance.now() })
    return bytes
  }

  add(source: number, bytes: number): void {
    const counted = this.#sources.get(source)
    if (counted !== undefined) counted.bytes += bytes
  }
}
