import { type RawBuilder, sql } from 'kysely'
import type { Visible } from '../../authz/access.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { type Database, TOMBSTONE_RANK } from '../database/schema.ts'
import { byShape, limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import {
  columnsOfRow,
  createReadRevision,
  documentColumn,
  type FilterValues,
  type FoundRow,
  referenceColumns,
  revisionColumn,
  rowColumns,
  type VersionFilter,
  versionConditions,
} from '../database/version-columns.ts'
import type { ReserveMemory } from './version-page.ts'

/** The query for a step of a walk by name: the next `size` entries from `from` on, and up to `limit` versions. */
export interface StepQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  readonly from: string
  readonly size: number
  readonly limit: number
  readonly afterName: string
  readonly afterPrecedence: string
  readonly filter: VersionFilter
  readonly values: FilterValues
}

export interface Step {
  /** Versions by name and precedence, each name from the first source that the caller sees. */
  readonly rows: readonly FoundRow[]
  readonly scanned: number
  /** The last name that was scanned; undefined if there are no more. */
  readonly last: string | undefined
  readonly more: boolean
  /** The registry's revision in the snapshot of the rows, or afterwards if there are none. */
  readonly revision: string | undefined
  /** True if the registry changed during the scan. */
  readonly torn: boolean
}

/** The query for a page of a registry, in terms of the store. */
export interface StorePageQuery
  extends Pick<StepQuery, 'registry' | 'type' | 'visible' | 'limit' | 'filter' | 'values'> {
  readonly hold?: ReserveMemory | undefined
  readonly after: { readonly name: string; readonly precedence: string } | undefined
  readonly term: string | undefined
}

/** Selects the listings of a registry from a name on; deleted entries only if they are wanted. */
const inRange = (value: (name: 'registry' | 'type' | 'from') => RawBuilder<unknown>, includeDeleted: boolean) => sql`
  l.registry_id = ${value('registry')} and l.type = ${value('type')} and l.name >= ${value('from')}
  ${includeDeleted ? sql`` : sql`and l.rank < ${sql.lit(TOMBSTONE_RANK)}`}`

type VersionsOptions = Pick<StepQuery, 'registry' | 'limit' | 'afterPrecedence' | 'values'>

type VersionValues = Required<FilterValues> & Omit<VersionsOptions, 'values'> & { readonly entries: unknown }

interface Candidate {
  readonly name: string
  readonly entry_id: number
}

type CandidateQuery = Pick<StepQuery, 'registry' | 'type' | 'visible' | 'from' | 'size'> & {
  readonly includeDeleted: boolean
}

type CandidateValues = Pick<StepQuery, 'registry' | 'type' | 'from' | 'size'> & {
  readonly [set: `set${number}`]: number
}

interface Candidates {
  readonly found: readonly Candidate[]
  readonly last: string | undefined
  readonly more: boolean
  /** The registry's revision in the same snapshot, or before it; undefined if there are no rows. */
  readonly revision: string | undefined
}

/** The most sets of claims in one statement, since SQLite takes at most 500 parts. Results of several are merged. */
const LARGEST_GROUP = 64
const NO_SET = -1

type CandidateRow = Candidate & { readonly rank: number; readonly revision: string }

type CandidatePlaceholder = (name: keyof CandidateValues & string) => RawBuilder<unknown>

/** Creates the function that takes a step on SQLite: it finds the next entries, then their versions. */
export function createSqliteStep(database: Database): (query: StepQuery) => Promise<Step> {
  const candidates = createCandidates(database)
  const versions = createVersions(database)
  const readRevision = createReadRevision(database)

  return async function readStep({ registry, type, visible, from, size, limit, filter, values, ...after }) {
    const { includeDeleted } = filter
    const { found, last, more, revision } = await candidates({ registry, type, visible, from, size, includeDeleted })
    // Only the first name of a page may have versions on the page before.
    const afterPrecedence = found[0]?.name === after.afterName ? after.afterPrecedence : ''
    const rows = found.length === 0 ? [] : await versions(found, filter, { registry, limit, afterPrecedence, values })
    const revisionAfter = rows.length === 0 ? await readRevision(registry) : rows[0]?.revision
    const torn = revision !== undefined && revisionAfter !== revision
    return { rows, scanned: found.length, last, more, revision: revisionAfter, torn }
  }
}

function createVersions(database: Database) {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter) =>
    prepareStatement<VersionValues, FoundRow>(
      database,
      // SQLite reads rows in the order of the list until the limit. With `order by` it would read all.
      (value) => sql<FoundRow>`
            select ${columnsOfRow}, ${documentColumn}, ${revisionColumn(value)}
            from (
              select ${rowColumns}, ${referenceColumns}, c.key, v.precedence
              from ${lists.table(value('entries'))} c cross join entry e cross join entry_version v
              where e.id = c.value and v.entry_id = e.id
                and (c.key > 0 or v.precedence > ${value('afterPrecedence')})
                ${versionConditions(filter, value)}
              ${limitTo(value('limit'))}) p
              cross join document d
            where d.id = p.document_id`,
    ),
  )

  return function readVersions(found: readonly Candidate[], filter: VersionFilter, options: VersionsOptions) {
    const { values, ...rest } = options
    const entries = lists.value(found.map(({ entry_id }) => entry_id))
    // The values have the shape that decides the placeholders.
    return statement(filter)({ ...values, ...rest, entries } as VersionValues)
  }
}

/**
 * Creates the function that finds the next entries by name. It merges a range of the index (registry, type, set, name)
 * for each visible set. Rows come by name and rank, since the first of a name is shown.
 */
function createCandidates(database: Database): (query: CandidateQuery) => Promise<Candidates> {
  const readRevision = createReadRevision(database)
  const statement = byShape((parts: number | 'all', includeDeleted: boolean) =>
    prepareStatement<CandidateValues, CandidateRow>(database, (value) =>
      parts === 'all' ? selectAll(value, includeDeleted) : mergeRanges(value, includeDeleted, parts),
    ),
  )

  async function readRows({ visible, includeDeleted, ...values }: CandidateQuery): Promise<CandidateRow[]> {
    if (visible === 'all') return statement('all', includeDeleted)(values)
    const rows: CandidateRow[] = []
    for (let at = 0; at < visible.length; at += LARGEST_GROUP) {
      const group = visible.slice(at, at + LARGEST_GROUP)
      // Sizes are powers of two, so that there are few statements.
      const parts = 2 ** Math.ceil(Math.log2(group.length))
      const sets = Array.from({ length: parts }, (_, index) => [`set${index}`, group[index] ?? NO_SET])
      rows.push(...(await statement(parts, includeDeleted)({ ...values, ...Object.fromEntries(sets) })))
    }
    return visible.length <= LARGEST_GROUP ? rows : rows.sort(byNameAndRank).slice(0, values.size)
  }

  return async function findCandidates(query) {
    // Several statements have read one state if the revision has not changed from the first to the last.
    const ahead = query.visible.length > LARGEST_GROUP ? await readRevision(query.registry) : undefined
    const rows = await readRows(query)
    const found = rows.filter(({ name }, index) => rows[index - 1]?.name !== name)
    return { found, last: rows.at(-1)?.name, more: rows.length >= query.size, revision: ahead ?? rows[0]?.revision }
  }
}

function byNameAndRank(one: CandidateRow, other: CandidateRow): number {
  return Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)) || one.rank - other.rank
}

function selectAll(value: CandidatePlaceholder, includeDeleted: boolean): RawBuilder<CandidateRow> {
  return sql<CandidateRow>`
    select l.name, l.rank, l.entry_id, ${revisionColumn(value)} from listing l
    where ${inRange(value, includeDeleted)} order by l.name, l.rank ${limitTo(value('size'))}`
}

function mergeRanges(value: CandidatePlaceholder, includeDeleted: boolean, parts: number): RawBuilder<CandidateRow> {
  // The parts need no limit: the index orders them, and SQLite merges them row by row.
  const part = (index: number) => sql`
    select l.name, l.rank, l.entry_id from listing l
    where ${inRange(value, includeDeleted)} and l.claims_set = ${value(`set${index}`)}`
  return sql<CandidateRow>`
    select c.name, c.rank, c.entry_id, ${revisionColumn(value)} from (
      ${sql.join(
        Array.from({ length: parts }, (_, index) => part(index)),
        sql` union all `,
      )}
      order by name, rank ${limitTo(value('size'))}) c`
}

/** Callers who see so many sets of claims usually see most entries. */
const MANY_SETS = 8
/** For them, so many times the wanted number of entries is scanned. */
const OVERSCAN = 4

type StepValues = Required<FilterValues> &
  Pick<StepQuery, 'registry' | 'type' | 'from' | 'size' | 'limit' | 'afterName' | 'afterPrecedence'> & {
    readonly sets: unknown
  }

type StepPlaceholder = (name: keyof StepValues) => RawBuilder<unknown>

/** A row. There is always one with `scanned`, `last` and `revision`; its name is null if there is no version. */
type StepRow = (FoundRow | { readonly name: null; readonly revision: string }) & {
  readonly scanned: number
  readonly last: string | null
}

/**
 * Creates the function that takes a step on PostgreSQL, by one statement. It merges a range of the index (registry,
 * type, set, name) for each visible set, so that hidden entries cost nothing. Opening twenty ranges takes longer than a
 * page, so for many sets it first scans entries of all sets.
 */
export function createPostgresStep(database: Database): (query: StepQuery) => Promise<Step> {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter, sees: Sees) =>
    prepareStatement<StepValues, StepRow>(
      database,
      (value) => sql<StepRow>`
            with ${selectListed[sees](value, filter)}
            select ${columnsOfRow}, ${documentColumn}, s.*, ${revisionColumn(value)}
            from (
                select max(name) as last, count(*)::int as scanned from listed) s
              left join (
                select ${rowColumns}, ${referenceColumns}, v.precedence
                from (select distinct on (name) name, entry_id from listed order by name, rank) l
                  join entry e on e.id = l.entry_id
                  join entry_version v on v.entry_id = e.id
                where (l.name > ${value('afterName')} or v.precedence > ${value('afterPrecedence')})
                  ${versionConditions(filter, value)}
                order by l.name, v.precedence limit ${value('limit')}) p on true
              left join document d on d.id = p.document_id
            order by p.name, p.precedence`,
    ),
  )

  return async function readStep({ visible, filter, values, ...query }) {
    const sees = visible === 'all' ? 'all' : visible.length < MANY_SETS ? 'some' : 'many'
    const sets = visible === 'all' ? undefined : lists.value(visible)
    const rows = await statement(filter, sees)({ ...values, ...query, sets } as StepValues)
    const { scanned = 0, last, revision } = rows[0] ?? {}
    return {
      rows: rows.filter(isVersion),
      scanned,
      last: last ?? undefined,
      more: scanned >= query.size,
      revision,
      torn: false,
    }
  }
}

function isVersion(row: StepRow): row is Extract<StepRow, FoundRow> {
  return row.name !== null
}

/** The number of sets of claims that a caller sees. */
type Sees = 'all' | 'some' | 'many'
/** Selects the next entries by name and rank, since the first of a name is shown. */
const selectListed: Readonly<Record<Sees, (value: StepPlaceholder, filter: VersionFilter) => RawBuilder<unknown>>> = {
  all: (value, filter) => sql`
    listed as materialized (
      select l.name, l.rank, l.entry_id from listing l
      where ${inRange(value, filter.includeDeleted)} order by l.name, l.rank limit ${value('size')})`,
  some: (value, filter) => sql`
    listed as materialized (${selectRanges(value, filter)} order by l.name, l.rank limit ${value('size')})`,
  many: (value, filter) => sql`
    next as materialized (
      select n.name, n.rank, n.entry_id from (
        select l.name, l.rank, l.entry_id, l.claims_set from listing l
        where ${inRange(value, filter.includeDeleted)} order by l.name, l.rank limit ${sql.lit(OVERSCAN)} * ${value('size')}::int) n
      where n.claims_set = any(${value('sets')}::int[]) order by n.name, n.rank limit ${value('size')}),
    listed as materialized (
      select name, rank, entry_id from (
        select name, rank, entry_id from next where (select count(*) from next) >= ${value('size')}::int
        union all
        (${selectRanges(value, filter)} where (select count(*) from next) < ${value('size')}::int)) l
      order by name, rank limit ${value('size')})`,
}

function selectRanges(value: StepPlaceholder, filter: VersionFilter): RawBuilder<unknown> {
  return sql`
    select l.name, l.rank, l.entry_id
    from unnest(${value('sets')}::int[]) as s(claims_set) cross join lateral (
      select l.name, l.rank, l.entry_id from listing l
      where ${inRange(value, filter.includeDeleted)} and l.claims_set = s.claims_set
      order by l.name, l.rank limit ${value('size')}) l`
}
