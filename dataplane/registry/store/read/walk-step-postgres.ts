import { type Kysely, type RawBuilder, sql } from 'kysely'
import { revisionColumn } from '../database/read-revision.ts'
import { type RegistryTables, TOMBSTONE_RANK } from '../database/schema.ts'
import { byShape, numberLists, prepareStatement } from '../database/statement.ts'
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

/** A caller who sees so many sets of claims usually sees most entries. */
const MANY_SETS = 8
/** For such a caller so many times the wanted number of entries are scanned. */
const DENSE = 4

type Values = Required<FilterValues> &
  Pick<StepQuery, 'registry' | 'type' | 'from' | 'size' | 'limit' | 'afterName' | 'afterPrecedence'> & {
    readonly sets: unknown
  }

type Placeholder = (name: keyof Values) => RawBuilder<unknown>

/** The common columns of all rows, of which there is at least one; without a version its name is null. */
type Row = (FoundRow | { readonly name: null; readonly revision: string }) & {
  readonly scanned: number
  readonly last: string | null
}

/**
 * Creates the function that scans the next entries by one statement. It merges one range of the index (registry, type,
 * set, name) per visible set: hidden entries cost nothing. Beginning twenty ranges takes longer than a page, so for
 * many sets it first scans the entries of all callers.
 */
export function createPostgresStep(database: Kysely<RegistryTables>): (query: StepQuery) => Promise<Step> {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter, sees: Sees) =>
    prepareStatement<RegistryTables, Values, Row>(
      database,
      (value) => sql<Row>`
            with ${listed[sees](value, filter)}
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
    const rows = await statement(filter, sees)({ ...values, ...query, sets } as Values)
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

function isVersion(row: Row): row is Extract<Row, FoundRow> {
  return row.name !== null
}

const range = (value: Placeholder, { includeDeleted }: VersionFilter) => sql`
  l.registry_id = ${value('registry')} and l.type = ${value('type')} and l.name >= ${value('from')}
  ${includeDeleted ? sql`` : sql`and l.rank < ${sql.lit(TOMBSTONE_RANK)}`}`

/** The next entries by name and rank, so that the first of a name is the one that is shown. */
type Sees = 'all' | 'some' | 'many'
const listed: Readonly<Record<Sees, (value: Placeholder, filter: VersionFilter) => RawBuilder<unknown>>> = {
  all: (value, filter) => sql`
    listed as materialized (
      select l.name, l.rank, l.entry_id from listing l
      where ${range(value, filter)} order by l.name, l.rank limit ${value('size')})`,
  some: (value, filter) => sql`
    listed as materialized (${ranges(value, filter)} order by l.name, l.rank limit ${value('size')})`,
  many: (value, filter) => sql`
    next as materialized (
      select n.name, n.rank, n.entry_id from (
        select l.name, l.rank, l.entry_id, l.claims_set from listing l
        where ${range(value, filter)} order by l.name, l.rank limit ${sql.lit(DENSE)} * ${value('size')}::int) n
      where n.claims_set = any(${value('sets')}::int[]) order by n.name, n.rank limit ${value('size')}),
    listed as materialized (
      select name, rank, entry_id from (
        select name, rank, entry_id from next where (select count(*) from next) >= ${value('size')}::int
        union all
        (${ranges(value, filter)} where (select count(*) from next) < ${value('size')}::int)) l
      order by name, rank limit ${value('size')})`,
}

function ranges(value: Placeholder, filter: VersionFilter): RawBuilder<unknown> {
  return sql`
    select l.name, l.rank, l.entry_id
    from unnest(${value('sets')}::int[]) as s(claims_set) cross join lateral (
      select l.name, l.rank, l.entry_id from listing l
      where ${range(value, filter)} and l.claims_set = s.claims_set
      order by l.name, l.rank limit ${value('size')}) l`
}
