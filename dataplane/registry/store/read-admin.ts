import { type Kysely, sql } from 'kysely'
import type { ClaimsMap } from '../authz/claims.ts'
import type { AdminReader, EntryPage, EntryRecord, VersionSummary } from './records.ts'
import type { EntryType, RegistryTables } from './schema.ts'
import type { Snapshot } from './snapshot.ts'
import { prepareStatement } from './statement.ts'

interface EntryRow {
  readonly id: number
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: string
}

/** Reads entries as they are in their sources, whoever would see them. */
export function createAdminReader(
  database: Kysely<RegistryTables>,
  snapshot: Snapshot,
  available: <T>(answer: Promise<T>) => Promise<T>,
): AdminReader {
  async function withVersions(entries: readonly EntryRow[]): Promise<EntryRecord[]> {
    if (entries.length === 0) return []
    const rows = await database
      .selectFrom('entry_version')
      .select(['entry_id', 'version', 'status', 'title', 'description', 'published_at', 'updated_at'])
      .where(
        'entry_id',
        'in',
        entries.map(({ id }) => id),
      )
      .where('status', '<>', 'deleted')
      .orderBy('entry_id')
      .orderBy('precedence', 'desc')
      .execute()
    const versions = Map.groupBy(rows, ({ entry_id }) => entry_id)
    return entries.map(({ id, claims, ...entry }) => ({
      ...entry,
      claims: JSON.parse(claims) as ClaimsMap,
      versions: (versions.get(id) ?? []).map(
        ({ published_at, updated_at, entry_id, ...version }): VersionSummary => ({
          ...version,
          createdAt: published_at,
          updatedAt: updated_at,
        }),
      ),
    }))
  }

  function living() {
    return database
      .selectFrom('entry as e')
      .innerJoin('source as s', 's.id', 'e.source_id')
      .innerJoin('claims_set as c', 'c.id', 'e.claims_set')
      .select(['e.id', 's.name as source', 'e.type', 'e.name', 'c.claims'])
      .where('e.living', '=', 1)
  }

  // Asked before each publication.
  const named = prepareStatement<RegistryTables, Pick<EntryRow, 'type' | 'name'>, EntryRow>(
    database,
    (value) => sql<EntryRow>`
      select e.id, s.name as source, e.type, e.name, c.claims
      from entry e join source s on s.id = e.source_id join claims_set c on c.id = e.claims_set
      where e.living = 1 and e.type = ${value('type')} and e.name = ${value('name')}`,
  )

  return {
    sources: async () => [...snapshot.sources().values()],
    source: async (name) => snapshot.sources().get(name),
    registries: async () => [...snapshot.registries().values()],
    registry: async (name) => snapshot.registries().get(name),
    entriesOfSource(source, { limit, after }) {
      let query = living().where('s.name', '=', source).orderBy('e.type').orderBy('e.name').limit(limit)
      if (after !== undefined) query = query.where(sql<boolean>`(e.type, e.name) > (${after.type}, ${after.name})`)
      return available(query.execute().then(withVersions))
    },
    entriesOfRegistry: (registry, page) =>
      available(pageOfRegistry(database, snapshot.registries().get(registry)?.id, page).then(withVersions)),
    entriesNamed: (type, name) => available(named({ type, name }).then(withVersions)),
  }
}

/** Sources of one name come in the order of the registry; a page may begin in the middle of them. */
async function pageOfRegistry(
  database: Kysely<RegistryTables>,
  registry: number | undefined,
  { limit, after }: EntryPage,
): Promise<EntryRow[]> {
  if (registry === undefined) return []
  const rank = sql`(
    select rs.position from registry_source rs join source a on a.id = rs.source_id
    where rs.registry_id = ${registry} and a.name = ${after?.source ?? ''})`
  const behind =
    after === undefined
      ? sql``
      : sql`and (l.type, l.name, l.rank) > (${after.type}, ${after.name}, coalesce(${rank}, -1))`
  const { rows } = await sql<EntryRow>`
    select e.id, s.name as source, e.type, e.name, c.claims
    from listing l join entry e on e.id = l.entry_id join source s on s.id = e.source_id
      join claims_set c on c.id = e.claims_set
    where l.registry_id = ${registry} and e.living = 1 ${behind}
    order by l.type, l.name, l.rank limit ${limit}`.execute(database)
  return rows
}
