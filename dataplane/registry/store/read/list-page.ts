import type { Kysely } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { foldTerm, trigrams } from '../../catalog/search-text.ts'
import { createRevisionOf } from '../database/revision-of.ts'
import type { RegistryTables } from '../database/schema.ts'
import type { FoundRow } from '../database/version-columns.ts'
import { createFindVersions } from '../search/find-versions.ts'
import type { Few } from '../search/term-index.ts'
import { type Attempt, ofOneState } from './attempts.ts'
import { createFoundPage } from './found-page.ts'
import type { MakePage, VersionPage } from './large-texts.ts'
import type { PageQuery } from './page-query.ts'
import { createPostgresStep } from './walk-step-postgres.ts'
import { createSqliteStep } from './walk-step-sqlite.ts'

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
/**
 * Makes the function that reads a page. Where a search or `updatedSince` finds little, by its index; else by names, step by
 * step. Where the registry changed in between the page is read again, so that it is of one state.
 */
export function createListPage(
  database: Kysely<RegistryTables>,
  makePage: MakePage,
): (query: PageQuery) => Promise<VersionPage> {
  const step = isPostgres(database) ? createPostgresStep(database) : createSqliteStep(database)
  const find = createFindVersions(database)
  const foundPage = createFoundPage(database)
  const revisionOf = createRevisionOf(database)
  const samples = isPostgres(database)

  /** What an index finds, where that is little: to walk by name would pass over nearly everything. */
  async function findFew({ registry, values, term }: PageQuery): Promise<Few | undefined> {
    const byTerm = term === undefined ? undefined : await find.byTerm(term, registry)
    if (byTerm !== undefined || values.updatedSince === undefined) return byTerm
    return find.byChange(values.updatedSince, registry)
  }

  async function showFew({ ids, revision }: Few, query: PageQuery): Promise<Attempt> {
    if (ids.length === 0) return { rows: [], torn: false }
    const rows = await foundPage(ids, query)
    const told = rows.length === 0 ? await revisionOf(query.registry) : rows[0]?.revision
    return { rows, torn: told !== revision }
  }

  async function walk(query: PageQuery, sample = false): Promise<Attempt> {
    const { registry, type, visible, limit, after, filter, values, term } = query
    const [afterName, afterPrecedence] = [after?.name ?? '', after?.precedence ?? '']
    const scope = { registry, type, visible, afterName, afterPrecedence, filter, values }
    const rows: FoundRow[] = []
    let ask = sample
    let from = afterName
    let revision: string | undefined
    let passed = 0
    let patience = PATIENCE
    let size = ask ? Math.max(limit, SAMPLE) : limit
    for (;;) {
      const met = await step({ ...scope, from, size, limit: limit - rows.length })
      const { looked, last, more } = met
      revision ??= met.revision
      rows.push(...met.rows)
      if (met.torn || met.revision !== revision) return { rows, torn: true }
      if (rows.length >= limit || last === undefined || !more) return { rows, torn: false }
      from = `${last}\u0001`
      size = Math.min(size * 4, MOST)
      passed = met.rows.length === 0 ? passed + looked : 0
      if (ask && limit * looked > ASKING * met.rows.length) {
        // Many that are not here are somewhere else: where, or that they are few, is found at once.
        if (met.rows.length === 0) passed = patience
        else {
          const few = await findFew(query)
          if (few !== undefined) return showFew(few, query)
        }
      }
      ask = false
      if (passed < patience) continue
      // Matches may all lie in another part of the names.
      const place = await find.next({ registry, term, since: values.updatedSince, from })
      if (place === undefined) continue
      if ('few' in place) return showFew(place.few, query)
      if (place.name === undefined) return { rows, torn: place.revision !== revision }
      from = place.name
      // Where one matches its neighbours may too.
      size = limit
      passed = 0
      patience *= 2
    }
  }

  async function attempt(query: PageQuery): Promise<Attempt> {
    // Nearly everything has a short term, and to ask an index for it is dear: the walk asks when it meets nothing.
    if (isShort(query.term)) return walk(query)
    if (query.term !== undefined && samples) return walk(query, true)
    const few = await findFew(query)
    return few === undefined ? walk(query) : showFew(few, query)
  }

  return async function readPage(query) {
    // One more than was asked for tells whether there is a next page.
    const oneMore = { ...query, limit: query.limit + 1 }
    return ofOneState(
      () => attempt(oneMore),
      (rows, isLast) => makePage(rows, { limit: query.limit, registry: query.registry, isLast, hold: query.hold }),
    )
  }
}

const isShort = (term: string | undefined) => term !== undefined && trigrams(foldTerm(term)).length === 0
