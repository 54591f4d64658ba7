import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { Visible } from '../authz/visibility.ts'
import { type NumberLists, numberLists } from './number-list.ts'
import { type EntryType, type RegistryTables, TOMBSTONE_RANK } from './schema.ts'
import { prepareStatement } from './statement.ts'

/** An entry that a registry shows a caller: of all visible ones of its name the first in the order of the sources. */
export interface Candidate {
  readonly name: string
  readonly entry_id: number
  /** The registry's revision in the same snapshot. */
  readonly revision: string
}

export interface CandidateQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  /** Names from here on. */
  readonly from: string
  readonly size: number
  readonly includeDeleted: boolean
}

interface Values {
  readonly registry: number
  readonly type: EntryType
  readonly from: string
  readonly size: number
  readonly sets?: unknown
  readonly [set: `set${number}`]: number
}

/** Sets in one statement of SQLite, which takes 500 parts at most; a caller who sees more gets several, merged. */
const LARGEST_GROUP = 64
/** The number of no set. */
const NO_SET = -1

/**
 * Makes the function that finds the next entries by name. For a caller who sees some sets of claims it merges one range
 * of the index (registry, type, set, name) for each: what the caller does not see costs nothing.
 */
export function createCandidates(
  database: Kysely<RegistryTables>,
): (query: CandidateQuery) => Promise<readonly Candidate[]> {
  const statements = new Map<string, (values: Values) => Promise<Candidate[]>>()
  const lists = numberLists(database)
  const postgres = isPostgres(database)

  function statement(parts: number | 'all', includeDeleted: boolean) {
    const key = `${parts} ${includeDeleted}`
    let prepared = statements.get(key)
    if (prepared === undefined)
      statements.set(
        key,
        (prepared = prepareStatement<RegistryTables, Values, Candidate>(database, (value) =>
          parts === 'all'
            ? everything(value, includeDeleted)
            : postgres
              ? rangePerRow(value, lists, includeDeleted)
              : rangePerPart(value, lists, includeDeleted, parts),
        )),
      )
    return prepared
  }

  return async function findCandidates({ visible, includeDeleted, ...values }) {
    if (visible === 'all') return statement('all', includeDeleted)(values)
    const sets = lists.value(visible)
    if (postgres) return statement(1, includeDeleted)({ ...values, sets })

    const found: Candidate[] = []
    for (let at = 0; at < visible.length; at += LARGEST_GROUP) {
      const group = visible.slice(at, at + LARGEST_GROUP)
      // Few sizes, so few statements.
      const parts = 2 ** Math.ceil(Math.log2(group.length))
      const numbered = Object.fromEntries(
        Array.from({ length: parts }, (_, index) => [`set${index}`, group[index] ?? NO_SET]),
      )
      found.push(...(await statement(parts, includeDeleted)({ ...values, sets, ...numbered })))
    }
    if (visible.length <= LARGEST_GROUP) return found
    return found
      .sort((one, other) => Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)))
      .slice(0, values.size)
  }
}

type Placeholder = (name: keyof Values & string) => RawBuilder<unknown>

const revision = (value: Placeholder) =>
  sql`(select revision from registry where id = ${value('registry')}) as revision`

/** Rows of `listing` from a name on. */
const range = (value: Placeholder, includeDeleted: boolean) => sql`
  l.registry_id = ${value('registry')} and l.type = ${value('type')} and l.name >= ${value('from')}
  ${includeDeleted ? sql`` : sql`and l.rank < ${sql.lit(TOMBSTONE_RANK)}`}`

/** No better one of the same name, as far as the caller sees. */
const wins = (seen: RawBuilder<unknown>) => sql`
  not exists (select 1 from listing b where b.registry_id = l.registry_id and b.type = l.type and b.name = l.name
    and b.rank < l.rank ${seen})`

function everything(value: Placeholder, includeDeleted: boolean): RawBuilder<Candidate> {
  return sql<Candidate>`
    select l.name, l.entry_id, ${revision(value)} from listing l
    where ${range(value, includeDeleted)} and ${wins(sql``)} order by l.name, l.rank limit ${value('size')}`
}

function rangePerPart(value: Placeholder, lists: NumberLists, includeDeleted: boolean, parts: number) {
  const seen = sql`and b.claims_set in (${lists.select(value('sets'))})`
  // Without a limit of its own: each part is in order by its index, and SQLite takes from them as it merges.
  const part = (index: number) => sql`
    select l.name, l.rank, l.entry_id from listing l where ${range(value, includeDeleted)}
      and l.claims_set = ${value(`set${index}`)} and ${wins(seen)}`
  return sql<Candidate>`
    select c.name, c.entry_id, ${revision(value)} from (
      ${sql.join(
        Array.from({ length: parts }, (_, index) => part(index)),
        sql` union all `,
      )}
      order by name, rank limit ${value('size')}) c`
}

function rangePerRow(value: Placeholder, lists: NumberLists, includeDeleted: boolean): RawBuilder<Candidate> {
  const seen = sql`and b.claims_set = any(array(${lists.select(value('sets'))}))`
  return sql<Candidate>`
    select c.name, c.entry_id, ${revision(value)} from ${lists.table(value('sets'))} s cross join lateral (
      select l.name, l.rank, l.entry_id from listing l where ${range(value, includeDeleted)}
        and l.claims_set = s.value and ${wins(seen)} order by l.name, l.rank limit ${value('size')}) c
    order by c.name, c.rank limit ${value('size')}`
}
