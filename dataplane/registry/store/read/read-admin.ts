import { type RawBuilder, sql } from 'kysely'
import type { ClaimsMap } from '../../../identity/claims.ts'
import type { EntryType } from '../../catalog/entry.ts'
import type { AdminReader, EntryPageQuery, EntryRecord, RecordPage, VersionSummary } from '../database/records.ts'
import type { Database } from '../database/schema.ts'
import { prepareStatement } from '../database/statement.ts'
import type { Snapshot } from './snapshot.ts'

/** An entry with one of its versions. Without a version its columns are null. */
interface Row extends Nullable<VersionRow> {
  readonly id: number
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: string
  /** The bytes of the page up to this row. */
  readonly upto: number
}

interface VersionRow extends Omit<VersionSummary, 'createdAt' | 'updatedAt'> {
  readonly published_at: string
  readonly updated_at: string
}

type Nullable<T> = { readonly [K in keyof T]: T[K] | null }

/** The most bytes of a page. One entry never has more. */
const PAGE_BYTES = 8 * 1024 * 1024
/** Only the newest versions of an entry are shown, with so many characters of their texts. */
const MOST_VERSIONS = 100
const LONGEST_TITLE = 1_000
const LONGEST_DESCRIPTION = 4_000
/** A version takes so many bytes besides its texts and the claims of its entry. */
const AROUND_BYTES = 300

/**
 * Builds the statement that adds versions to entries `(id, source, type, name, claims, place)`. Texts that don't fit
 * the page are null.
 */
const selectVersions = (entries: RawBuilder<unknown>) => sql<Row>`
  with shown as (
    select e.id, e.source, e.type, e.name, e.claims, e.place, v.version, v.status, v.precedence, v.published_at,
      v.updated_at, substr(v.title, 1, ${sql.lit(LONGEST_TITLE)}) as title,
      substr(v.description, 1, ${sql.lit(LONGEST_DESCRIPTION)}) as description
    from (${entries}) e left join entry_version v on v.id in (
      select n.id from entry_version n where n.entry_id = e.id and n.status <> 'deleted'
      order by n.precedence desc limit ${sql.lit(MOST_VERSIONS)})),
  counted as (
    select shown.*, cast(sum(${sql.lit(AROUND_BYTES)} + coalesce(octet_length(title), 0)
        + coalesce(octet_length(description), 0) + octet_length(claims))
      over (order by type, name, place, precedence desc rows unbounded preceding) as integer) as upto
    from shown)
  select id, source, type, name, claims, version, status, published_at, updated_at, upto,
    case when upto <= ${sql.lit(PAGE_BYTES)} then title end as title,
    case when upto <= ${sql.lit(PAGE_BYTES)} then description end as description
  from counted order by type, name, place, precedence desc`

function buildPage(rows: readonly Row[], limit: number): RecordPage {
  const all = [...Map.groupBy(rows, ({ id }) => id).values()]
  const fitting = all.filter((its, index) => index === 0 || (index < limit && (its.at(-1)?.upto ?? 0) <= PAGE_BYTES))
  return { entries: buildRecords(fitting), more: fitting.length < all.length }
}

function buildRecords(entries: readonly (readonly Row[])[]): EntryRecord[] {
  return entries.map((its) => {
    const [{ source, type, name, claims }] = its as [Row]
    const versions = its.filter((row): row is Row & VersionRow => row.version !== null).map(buildSummary)
    return { source, type, name, claims: JSON.parse(claims) as ClaimsMap, versions }
  })
}

function buildSummary({ version, status, title, description, published_at, updated_at }: VersionRow): VersionSummary {
  return { version, status, title, description, createdAt: published_at, updatedAt: updated_at }
}

/** Creates the reads of the admin API, which show entries as they are in their sources. */
export function createAdminReader(
  database: Database,
  snapshot: Snapshot,
  askStore: <T>(answer: Promise<T>) => Promise<T>,
): AdminReader {
  // One entry more than requested shows whether there is a next page.
  const read = async (entries: (page: EntryPageQuery) => RawBuilder<unknown>, page: EntryPageQuery) =>
    buildPage((await selectVersions(entries({ ...page, limit: page.limit + 1 })).execute(database)).rows, page.limit)

  // It is prepared because it runs before each publication.
  const named = prepareStatement<Pick<Row, 'type' | 'name'>, Omit<Row, 'upto' | keyof VersionRow>>(
    database,
    (value) => sql`
      select e.id, s.name as source, e.type, e.name, c.claims
      from entry e join source s on s.id = e.source_id join claims_set c on c.id = e.claims_set
      where e.living = 1 and e.type = ${value('type')} and e.name = ${value('name')}`,
  )

  return {
    sources: async () => [...snapshot.sources().values()],
    source: async (name) => snapshot.sources().get(name),
    registries: async () => [...snapshot.registries().values()],
    registry: async (name) => snapshot.registries().get(name),
    entriesOfSource: (source, page) => askStore(read((its) => selectOfSource(source, its), page)),
    async entriesOfRegistry(registry, page) {
      const id = snapshot.registries().get(registry)?.id
      return id === undefined ? { entries: [], more: false } : askStore(read((its) => selectOfRegistry(id, its), page))
    },
    entriesNamed: (type, name) =>
      askStore(
        named({ type, name }).then((rows) =>
          rows.map(({ source, claims }) => ({ source, type, name, claims: JSON.parse(claims) as ClaimsMap })),
        ),
      ),
  }
}

function selectOfSource(source: string, { limit, after }: EntryPageQuery): RawBuilder<unknown> {
  const behind = after === undefined ? sql`` : sql`and (e.type, e.name) > (${after.type}, ${after.name})`
  return sql`
    select e.id, s.name as source, e.type, e.name, c.claims, 0 as place
    from entry e join source s on s.id = e.source_id join claims_set c on c.id = e.claims_set
    where s.name = ${source} and e.living = 1 ${behind}
    order by e.type, e.name limit ${limit}`
}

/** Selects a page of a registry. Entries of the same name come in the order of their sources. */
function selectOfRegistry(registry: number, { limit, after }: EntryPageQuery): RawBuilder<unknown> {
  const rank = sql`(
    select rs.position from registry_source rs join source a on a.id = rs.source_id
    where rs.registry_id = ${registry} and a.name = ${after?.source ?? ''})`
  const behind =
    after === undefined
      ? sql``
      : sql`and (l.type, l.name, l.rank) > (${after.type}, ${after.name}, coalesce(${rank}, -1))`
  return sql`
    select e.id, s.name as source, e.type, e.name, c.claims, l.rank as place
    from listing l join entry e on e.id = l.entry_id join source s on s.id = e.source_id
      join claims_set c on c.id = e.claims_set
    where l.registry_id = ${registry} and e.living = 1 ${behind}
    order by l.type, l.name, l.rank limit ${limit}`
}
