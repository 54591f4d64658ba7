import { isDeepStrictEqual } from 'node:util'
import type { Kysely } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { IncomingVersion } from '../catalog/entry.ts'
import { precedence } from '../catalog/precedence.ts'
import { parseExactly } from '../sources/parse-exactly.ts'
import { canonicalClaims, internClaims } from './claims-sets.ts'
import { insertFresh } from './insert-fresh.ts'
import { insertFreshAtOnce } from './insert-fresh-postgres.ts'
import {
  entryKey,
  type FreshColumns,
  type KnownEntry,
  type KnownVersion,
  loadKnown,
  type Placed,
  type Write,
} from './known-entries.ts'
import { lockSources } from './lock-sources.ts'
import type { Publication, PublishOutcome } from './records.ts'
import { refreshListing } from './refresh-listing.ts'
import type { RegistryTables } from './schema.ts'
import { renewRevisions, settleEntries } from './settle-entries.ts'
import { incomingColumns } from './version-row.ts'

type Database = Kysely<RegistryTables>

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
  const { sources, known } = await lockManaged(database, publications)
  const placed = publications.map((publication): Placed | undefined => {
    const source = sources.get(publication.source)
    return source === undefined ? undefined : { publication, source, precedence: precedence(publication.version) }
  })
  const found = placed.filter((one) => one !== undefined)
  if (found.length === 0) return publications.map(() => 'no_source')
  const sets = await internClaims(
    database,
    found.map(({ publication }) => publication.claims),
    known,
  )
  const { outcomes, fresh, returned, revived } = plan(placed, sets, await loadKnown(database, found))
  const writes = [...fresh, ...returned]
  if (writes.length === 0) return [...outcomes]

  const changed = writes.flatMap(({ entry }) => entry.id ?? [])
  if (fresh.length > 0) await (isPostgres(database) ? insertFreshAtOnce : insertFresh)(database, fresh)
  for (const { id, claimsSet } of revived)
    await database
      .updateTable('entry')
      .set({ claims_set: claimsSet })
      .where('id', '=', id as number)
      .execute()
  for (const one of returned) await bringBack(database, one)
  await settleEntries(database, [...new Set(changed)])
  await refreshListing(database, { entries: Array.from(revived, ({ id }) => id as number) })
  if (returned.length > 0) await renewRevisions(database, [...new Set(returned.map(({ source }) => source))])
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
      return sameDocument(version.document, document) ? 'unchanged' : 'version_exists'

    if (!living && entry.id !== undefined) {
      entry.claimsSet = claimsSet
      revived.add(entry)
    }
    const write = { ...one, entry, columns: columnsOf(publication) }
    if (version === undefined) fresh.push(write)
    else returned.push({ ...write, version })
    entry.versions.set(precedence, { id: 0, documentId: 0, ...version, goneAt: null, document })
    return 'created'
  }

  const outcomes = placed.map((one) => (one === undefined ? 'no_source' : outcomeOf(one)))
  return { outcomes, fresh, returned, revived }
}

/** Whether two documents say the same: the order of an object's members is of no meaning (RFC 8259, section 4). */
function sameDocument(one = 'null', other: string): boolean {
  return one === other || isDeepStrictEqual(parseExactly(one), parseExactly(other))
}

/**
 * Numbers of the managed sources that are published to, by name; other replicas wait until the transaction has ended. On
 * PostgreSQL also those of sets of claims that are known, by the same way to the server and back.
 */
async function lockManaged(database: Database, publications: readonly Publication[]) {
  const names = [...new Set(publications.map(({ source }) => source))]
  const rows = isPostgres(database)
    ? await lockSources(database, { names, claims: publications.map(({ claims }) => canonicalClaims(claims)) })
    : await database.selectFrom('source').select(['id', 'name', 'config']).where('name', 'in', names).execute()
  const managed = rows.filter(({ config }) => 'managed' in JSON.parse(config))
  return {
    sources: new Map(managed.map(({ id, name }) => [name, id])),
    known: new Map(rows.flatMap((row) => ('sets' in row ? Object.entries(row.sets ?? {}) : []))),
  }
}

/** A deleted version that is published again. */
async function bringBack(
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

/** The columns of a version that is published. */
function columnsOf({ type, name, version, title, description, document, at }: Publication): FreshColumns {
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
