import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { ClaimsMap } from '../authz/claims.ts'
import type { AdminReader, EntryPage, EntryRecord, VersionSummary } from './records.ts'
import type { EntryType, RegistryTables } from './schema.ts'
import type { Snapshot } from './snapshot.ts'
import { prepareStatement } from './statement.ts'

/** An entry with one of its versions; all of these are null where it has none that is not deleted. */
interface Row extends Nullable<VersionRow> {
  readonly id: number
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: string
}

interface VersionRow extends Omit<VersionSummary, 'createdAt' | 'updatedAt'> {
  readonly published_at: string
  readonly updated_at: string
}

type Nullable<T> = { readonly [K in keyof T]: T[K] | null }

/** Entries `(id, source, type, name, claims, place)` with their versions, by one statement, so that both are of one state. */
const withVersions = (entries: RawBuilder<unknown>) => sql<Row>`
  select e.id, e.source, e.type, e.name, e.claims,
    v.version, v.status, v.title, v.description, v.published_at, v.updated_at
  from (${entries}) e left join entry_version v on v.entry_id = e.id and v.status <> 'deleted'
  order by e.type, e.name, e.place, v.precedence desc`

function recordsOf(rows: readonly Row[]): EntryRecord[] {
  return Array.from(Map.groupBy(rows, ({ id }) => id).values(), (its) => {
    const [{ source, type, name, claims }] = its as [Row]
    const versions = its.filter((row): row is Row & VersionRow => row.version !== null).map(summaryOf)
    return { source, type, name, claims: JSON.parse(claims) as ClaimsMap, versions }
  })
}

function summaryOf({ version, status, title, description, published_at, updated_at }: VersionRow): VersionSummary {
  return { version, status, title, description, createdAt: published_at, updatedAt: updated_at }
}

/** Reads entries as they are in their sources, whoever would see them. */
export function createAdminReader(
  database: Kysely<RegistryTables>,
  snapshot: Snapshot,
  available: <T>(answer: Promise<T>) => Promise<T>,
): AdminReader {
  const read = async (entries: RawBuilder<unknown>) => recordsOf((await withVersions(entries).execute(database)).rows)

  // Asked before each publication.
  const named = prepareStatement<RegistryTables, Pick<Row, 'type' | 'name'>, Row>(database, (value) =>
    withVersions(sql`
      select e.id, s.name as source, e.type, e.name, c.claims, 0 as place
      from entry e join source s on s.id = e.source_id join claims_set c on c.id = e.claims_set
      where e.living = 1 and e.type = ${value('type')} and e.name = ${value('name')}`),
  )

  return {
    sources: async () => [...snapshot.sources().values()],
    source: async (name) => snapshot.sources().get(name),
    registries: async () => [...snapshot.registries().values()],
    registry: async (name) => snapshot.registries().get(name),
    entriesOfSource: (source, page) => available(read(pageOfSource(source, page))),
    async entriesOfRegistry(registry, page) {
      const id = snapshot.registries().get(registry)?.id
      return id === undefined ? [] : available(read(pageOfRegistry(id, page)))
    },
    entriesNamed: (type, name) => available(named({ type, name }).then(recordsOf)),
  }
}

function pageOfSource(source: string, { limit, after }: EntryPage): RawBuilder<unknown> {
  const behind = after === undefined ? sql`` : sql`and (e.type, e.name) > (${after.type}, ${after.name})`
  return sql`
    select e.id, s.name as source, e.type, e.name, c.claims, 0 as place
    from entry e join source s on s.id = e.source_id join claims_set c on c.id = e.claims_set
    where s.name = ${source} and e.living = 1 ${behind}
    order by e.type, e.name limit ${limit}`
}

/** Sources of one name come in the order of the registry; a page may begin in the middle of them. */
function pageOfRegistry(registry: number, { limit, after }: EntryPage): RawBuilder<unknown> {
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
