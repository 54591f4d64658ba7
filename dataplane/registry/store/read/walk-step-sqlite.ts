import { type Kysely, type RawBuilder, sql } from 'kysely'
import { createReadRevision, revisionColumn } from '../database/read-revision.ts'
import { type RegistryTables, TOMBSTONE_RANK } from '../database/schema.ts'
import { byShape, limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import {
  columnsOfRow,
  documentColumn,
  type FilterValues,
  type FoundRow,
  referenceColumns,
  rowColumns,
  type VersionFilter,
  versionConditions,
} from '../database/version-columns.ts'
import type { Step, StepQuery } from './walk-step.ts'

type Values = Required<FilterValues> & {
  readonly registry: number
  readonly entries: unknown
  readonly limit: number
  readonly afterPrecedence: string
}

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
  /** The registry's revision in the same snapshot, or before it; undefined if no row carries it. */
  readonly revision: string | undefined
}

/** SQLite takes at most 500 parts in a statement. A caller who sees more gets several, merged. */
const LARGEST_GROUP = 64
const NO_SET = -1

type Row = Candidate & { readonly rank: number; readonly revision: string }

type Placeholder = (name: keyof CandidateValues & string) => RawBuilder<unknown>

/** Creates the function that scans the next entries by ranges of an index, then their versions. */
export function createSqliteStep(database: Kysely<RegistryTables>): (query: StepQuery) => Promise<Step> {
  const candidates = createCandidates(database)
  const versions = createVersions(database)
  const readRevision = createReadRevision(database)

  return async function readStep({ registry, type, visible, from, size, limit, filter, values, ...after }) {
    const { includeDeleted } = filter
    const { found, last, more, revision } = await candidates({ registry, type, visible, from, size, includeDeleted })
    // Only the page's first name has versions from an earlier page.
    const afterPrecedence = found[0]?.name === after.afterName ? after.afterPrecedence : ''
    const rows = found.length === 0 ? [] : await versions(found, filter, { registry, limit, afterPrecedence, values })
    const revisionAfter = rows.length === 0 ? await readRevision(registry) : rows[0]?.revision
    const torn = revision !== undefined && revisionAfter !== revision
    return { rows, scanned: found.length, last, more, revision: revisionAfter, torn }
  }
}

interface VersionsOptions {
  readonly registry: number
  readonly limit: number
  readonly afterPrecedence: string
  readonly values: FilterValues
}

function createVersions(database: Kysely<RegistryTables>) {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter) =>
    prepareStatement<RegistryTables, Values, FoundRow>(
      database,
      // SQLite reads the rows in the order of the list. An `order by` would read all of them.
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
    // The shape decides the placeholders, and the values have the same shape.
    return statement(filter)({ ...values, ...rest, entries } as Values)
  }
}

/**
 * Creates the function that finds the next entries by name in SQLite: it merges one range of the index (registry, type,
 * set, name) per visible set. Rows come by name and rank, so that the first of a name is shown.
 */
function createCandidates(database: Kysely<RegistryTables>): (query: CandidateQuery) => Promise<Candidates> {
  const readRevision = createReadRevision(database)
  const statement = byShape((parts: number | 'all', includeDeleted: boolean) =>
    prepareStatement<RegistryTables, CandidateValues, Row>(database, (value) =>
      parts === 'all' ? everything(value, includeDeleted) : rangePerPart(value, includeDeleted, parts),
    ),
  )

  async function readRows({ visible, includeDeleted, ...values }: CandidateQuery): Promise<Row[]> {
    if (visible === 'all') return statement('all', includeDeleted)(values)
    const rows: Row[] = []
    for (let at = 0; at < visible.length; at += LARGEST_GROUP) {
      const group = visible.slice(at, at + LARGEST_GROUP)
      // Few sizes mean few statements.
      const parts = 2 ** Math.ceil(Math.log2(group.length))
      const sets = Array.from({ length: parts }, (_, index) => [`set${index}`, group[index] ?? NO_SET])
      rows.push(...(await statement(parts, includeDeleted)({ ...values, ...Object.fromEntries(sets) })))
    }
    return visible.length <= LARGEST_GROUP ? rows : rows.sort(byNameAndRank).slice(0, values.size)
  }

  return async function findCandidates(query) {
    // Several statements show one state if the registry's revision after the last equals that before the first.
    const ahead = query.visible.length > LARGEST_GROUP ? await readRevision(query.registry) : undefined
    const rows = await readRows(query)
    const found = rows.filter(({ name }, index) => rows[index - 1]?.name !== name)
    return { found, last: rows.at(-1)?.name, more: rows.length >= query.size, revision: ahead ?? rows[0]?.revision }
  }
}

function byNameAndRank(one: Row, other: Row): number {
  return Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)) || one.rank - other.rank
}

const range = (value: Placeholder, includeDeleted: boolean) => sql`
  l.registry_id = ${value('registry')} and l.type = ${value('type')} and l.name >= ${value('from')}
  ${includeDeleted ? sql`` : sql`and l.rank < ${sql.lit(TOMBSTONE_RANK)}`}`

function everything(value: Placeholder, includeDeleted: boolean): RawBuilder<Row> {
  return sql<Row>`
    select l.name, l.rank, l.entry_id, ${revisionColumn(value)} from listing l
    where ${range(value, includeDeleted)} order by l.name, l.rank ${limitTo(value('size'))}`
}

function rangePerPart(value: Placeholder, includeDeleted: boolean, parts: number): RawBuilder<Row> {
  // The part has no limit of its own: its index orders it, and SQLite takes rows from it as it merges.
  const part = (index: number) => sql`
    select l.name, l.rank, l.entry_id from listing l
    where ${range(value, includeDeleted)} and l.claims_set = ${value(`set${index}`)}`
  return sql<Row>`
    select c.name, c.rank, c.entry_id, ${revisionColumn(value)} from (
      ${sql.join(
        Array.from({ length: parts }, (_, index) => part(index)),
        sql` union all `,
      )}
      order by name, rank ${limitTo(value('size'))}) c`
}
