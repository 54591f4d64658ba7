import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import { foldTerm, trigrams } from '../catalog/search-text.ts'
import { type Candidate, type CandidateQuery, createCandidates } from './candidates.ts'
import { createFindVersions } from './find-versions.ts'
import { createFoundPage } from './found-page.ts'
import { numberLists } from './number-list.ts'
import { limitOf } from './row-limit.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'
import {
  documentColumn,
  type FilterValues,
  rowColumns,
  type VersionFilter,
  type VersionRow,
  versionConditions,
} from './version-columns.ts'

export interface PageQuery extends Pick<CandidateQuery, 'registry' | 'type' | 'visible'> {
  readonly limit: number
  readonly after: { readonly name: string; readonly precedence: string } | undefined
  readonly filter: VersionFilter
  readonly values: FilterValues
  /** What is searched for, as it was written. */
  readonly term: string | undefined
}

type Values = Required<FilterValues> & {
  readonly registry: number
  readonly entries: unknown
  readonly limit: number
  readonly afterPrecedence: string
}

/** Most entries that are looked at by one statement. */
const MOST = 1_000
/**
 * After so many entries in a row without a match an index is asked where the next one is, each time later: to ask costs as
 * much as to look at three thousand entries where a tenth of all match, and as a few hundred where few do.
 */
const PATIENCE = 100
/** PostgreSQL looks at so many entries at least before it asks an index: it meets what is common sooner than it counts it. */
const SAMPLE = 30
/** To look at so many entries costs as much as to ask the index and to look at what it finds. */
const ASKING = 500
/** A store that changes faster than a page is read is taken as it is after so many attempts. */
const ATTEMPTS = 5

/**
 * Makes the function that reads a page. Where a search or `updatedSince` finds little, by its index; else first the entries by name, by ranges of an index, then their versions. Both tell
 * the registry's revision; where it changed in between the page is read again, so that it is of one state.
 */
export function createListPage(database: Kysely<RegistryTables>): (query: PageQuery) => Promise<VersionRow[]> {
  const candidates = createCandidates(database)
  const versions = createVersions(database)
  const find = createFindVersions(database)
  const foundPage = createFoundPage(database)
  const samples = isPostgres(database)

  /** What an index finds, where that is little: to walk by name would pass over nearly everything. */
  async function findFew({ values, term }: PageQuery): Promise<readonly number[] | undefined> {
    const byTerm = term === undefined ? undefined : await find.byTerm(term)
    if (byTerm !== undefined || values.updatedSince === undefined) return byTerm
    return find.byChange(values.updatedSince)
  }

  async function attempt(
    query: PageQuery,
    sample: boolean,
  ): Promise<{ readonly rows: VersionRow[]; readonly torn: boolean }> {
    const { registry, type, visible, limit, after, filter, values } = query
    let ask = sample
    const rows: VersionRow[] = []
    let from = after?.name ?? ''
    let afterPrecedence = after?.precedence ?? ''
    let revision: string | undefined
    let passed = 0
    let patience = PATIENCE
    let size = ask ? Math.max(limit, SAMPLE) : limit
    for (;;) {
      const { found, last, more } = await candidates({
        registry,
        type,
        visible,
        from,
        size,
        includeDeleted: filter.includeDeleted,
      })
      const [first] = found
      if (first === undefined || last === undefined) return { rows, torn: false }
      revision ??= first.revision
      // Only on the page's first name are there versions that came before.
      if (first.name !== after?.name) afterPrecedence = ''
      const met = await versions(found, filter, { registry, limit: limit - rows.length, afterPrecedence, values })
      rows.push(...met)
      if (first.revision !== revision || met.some((row) => row.revision !== revision)) return { rows, torn: true }
      if (rows.length >= limit || !more) return { rows, torn: false }
      from = `${last}\u0001`
      size = Math.min(size * 4, MOST)
      afterPrecedence = ''
      passed = met.length === 0 ? passed + found.length : 0
      if (ask && limit * found.length > ASKING * met.length) {
        const few = await findFew(query)
        if (few !== undefined) return { rows: await foundFew(few, query), torn: false }
        // Many that are not here are somewhere else.
        if (met.length === 0) passed = patience
      }
      ask = false
      if (passed < patience) continue
      // Matches may all lie in another part of the names.
      const next = await find.nextName(query.term, values.updatedSince, from)
      if (next === undefined) return { rows, torn: false }
      if (next === null) continue
      from = next
      // Where one matches its neighbours may too.
      size = limit
      passed = 0
      patience *= 2
    }
  }

  const foundFew = async (few: readonly number[], query: PageQuery) => (few.length === 0 ? [] : foundPage(few, query))

  async function walk(query: PageQuery, sample = false): Promise<VersionRow[]> {
    for (let left = ATTEMPTS; ; left--) {
      const { rows, torn } = await attempt(query, sample)
      if (!torn || left === 0) return rows
    }
  }

  return async function readPage(query) {
    // Nearly everything has a short term, and to ask an index for it is dear: the walk asks when it meets nothing.
    if (isShort(query.term)) return walk(query)
    if (query.term !== undefined && samples) return walk(query, true)
    const few = await findFew(query)
    return few === undefined ? walk(query) : foundFew(few, query)
  }
}

const isShort = (term: string | undefined) => term !== undefined && trigrams(foldTerm(term)).length === 0

interface VersionsOptions {
  readonly registry: number
  readonly limit: number
  /** Of the first entry's versions only those behind this one. */
  readonly afterPrecedence: string
  readonly values: FilterValues
}

function createVersions(database: Kysely<RegistryTables>) {
  const statements = new Map<string, (values: Values) => Promise<VersionRow[]>>()
  const lists = numberLists(database)
  // SQLite reads in the order of the list and stops at the limit; to be told to sort would make it read all of them.
  const order = (key: RawBuilder<unknown>, precedence: RawBuilder<unknown>) =>
    isPostgres(database) ? sql`order by ${key}, ${precedence}` : sql``

  function statement(filter: VersionFilter) {
    const key = JSON.stringify(filter)
    let prepared = statements.get(key)
    if (prepared === undefined)
      statements.set(
        key,
        (prepared = prepareStatement<RegistryTables, Values, VersionRow>(
          database,
          (value) => sql<VersionRow>`
            select p.*, ${documentColumn}, (select revision from registry where id = ${value('registry')}) as revision
            from (
              select ${rowColumns}, v.document_id, c.key, v.precedence
              from ${lists.table(value('entries'))} c cross join entry e cross join entry_version v
              where e.id = c.value and v.entry_id = e.id
                and (c.key > 0 or v.precedence > ${value('afterPrecedence')})
                ${versionConditions(filter, value)}
              ${order(sql`c.key`, sql`v.precedence`)} ${limitOf(value('limit'))}) p
              cross join document d
            where d.id = p.document_id
            ${order(sql`p.key`, sql`p.precedence`)}`,
        )),
      )
    return prepared
  }

  return function readVersions(found: readonly Candidate[], filter: VersionFilter, options: VersionsOptions) {
    const { values, ...rest } = options
    const entries = lists.value(found.map(({ entry_id }) => entry_id))
    // The shape says which placeholders there are, and the values come by the same shape.
    return statement(filter)({ ...values, ...rest, entries } as Values)
  }
}
