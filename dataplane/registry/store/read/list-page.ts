import { sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { foldTerm, trigrams } from '../../catalog/search-text.ts'
import type { Database } from '../database/schema.ts'
import { byShape, limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import {
  createReadRevision,
  type FilterValues,
  type FoundRow,
  revisionColumn,
  type VersionFilter,
  versionColumns,
  versionConditions,
} from '../database/version-columns.ts'
import { createFindVersions, type FoundVersions } from './find-versions.ts'
import { type MakePage, type ReadAttempt, readConsistently, type VersionPage } from './version-page.ts'
import { createPostgresStep, createSqliteStep, type Step, type StepQuery, type StorePageQuery } from './walk-step.ts'

/** The most entries that one statement scans. */
const MOST_SCANNED = 1_000
/**
 * After so many entries without a match, the walk asks an index for the next match. The number doubles each time, since
 * asking costs as much as scanning three thousand entries if a tenth of all match, and a few hundred if few do.
 */
const PATIENCE = 100
/** On PostgreSQL a search first scans so many entries, which finds a common term sooner than the index does. */
const SAMPLE = 30
/** Scanning so many entries costs as much as asking an index and reading its matches. */
const ASKING = 500

interface PageStatements {
  readonly step: (query: StepQuery) => Promise<Step>
  readonly find: ReturnType<typeof createFindVersions>
  readonly foundPage: ReturnType<typeof createFoundPage>
  readonly readRevision: ReturnType<typeof createReadRevision>
  /** True if a search scans some entries before it asks an index. */
  readonly samples: boolean
}

/**
 * Creates the function that reads a page. It reads the matches of an index if a search or `updatedSince` has few, and
 * walks by name otherwise. If the registry changes meanwhile, it reads the page again.
 */
export function createListPage(
  database: Database,
  makePage: MakePage,
): (query: StorePageQuery) => Promise<VersionPage> {
  const postgres = isPostgres(database)
  const statements: PageStatements = {
    step: postgres ? createPostgresStep(database) : createSqliteStep(database),
    find: createFindVersions(database),
    foundPage: createFoundPage(database),
    readRevision: createReadRevision(database),
    samples: postgres,
  }

  return async function readPage(query) {
    // One row more than requested shows whether there is a next page.
    const oneMore = { ...query, limit: query.limit + 1 }
    return readConsistently(
      () => tryRead(statements, oneMore),
      (rows, isLast) => makePage(rows, { limit: query.limit, registry: query.registry, isLast, hold: query.hold }),
    )
  }
}

async function tryRead(statements: PageStatements, query: StorePageQuery): Promise<ReadAttempt> {
  // Nearly every version has a short term, for which an index is slow. The walk asks it only if it finds nothing.
  if (isShort(query.term)) return walkByName(statements, query, false)
  if (query.term !== undefined && statements.samples) return walkByName(statements, query, true)
  const few = await findFew(statements, query)
  return few === undefined ? walkByName(statements, query, false) : readFew(statements, few, query)
}

const isShort = (term: string | undefined) => term !== undefined && trigrams(foldTerm(term)).length === 0

/** Returns the matches of an index if they are few. A walk by name would pass nearly everything to find them. */
async function findFew(
  { find }: PageStatements,
  { registry, values, term }: StorePageQuery,
): Promise<FoundVersions | undefined> {
  const byTerm = term === undefined ? undefined : await find.byTerm(term, registry)
  if (byTerm !== undefined || values.updatedSince === undefined) return byTerm
  return find.byChange(values.updatedSince, registry)
}

async function readFew(
  { foundPage, readRevision }: PageStatements,
  { ids, revision }: FoundVersions,
  query: StorePageQuery,
): Promise<ReadAttempt> {
  if (ids.length === 0) return { rows: [], torn: false }
  const rows = await foundPage(ids, query)
  const revisionAfter = rows.length === 0 ? await readRevision(query.registry) : rows[0]?.revision
  return { rows, torn: revisionAfter !== revision }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

interface Walk {
  readonly rows: FoundRow[]
  readonly limit: number
  readonly next: Writable<StepQuery>
  revision: string | undefined
  /** True if the next step is a sample. If that finds little, an index is asked. */
  isSample: boolean
  /** True if the sample found so little that there may be few matches in all. */
  mayBeFew: boolean
  /** The entries without a match since the last one. */
  passed: number
  patience: number
}

function beginWalk(query: StorePageQuery, isSample: boolean): Walk {
  const { registry, type, visible, limit, after, filter, values } = query
  const afterName = after?.name ?? ''
  const afterPrecedence = after?.precedence ?? ''
  const size = isSample ? Math.max(limit, SAMPLE) : limit
  return {
    rows: [],
    limit,
    next: { registry, type, visible, afterName, afterPrecedence, filter, values, from: afterName, size, limit },
    revision: undefined,
    isSample,
    mayBeFew: false,
    passed: 0,
    patience: PATIENCE,
  }
}

async function walkByName(statements: PageStatements, query: StorePageQuery, isSample: boolean): Promise<ReadAttempt> {
  const walk = beginWalk(query, isSample)
  for (;;) {
    const step = await statements.step(walk.next)
    const end = advance(walk, step)
    if (end !== undefined) return end
    if (walk.mayBeFew) {
      walk.mayBeFew = false
      const few = await findFew(statements, query)
      if (few !== undefined) return readFew(statements, few, query)
    }
    if (walk.passed >= walk.patience) {
      const shown = await jump(statements, query, walk)
      if (shown !== undefined) return shown
    }
  }
}

/** Adds the rows of a step and prepares the next step. Returns the result if the walk has ended. */
function advance(walk: Walk, { rows, torn, scanned, last, more, revision }: Step): ReadAttempt | undefined {
  walk.revision ??= revision
  walk.rows.push(...rows)
  if (torn || revision !== walk.revision) return { rows: walk.rows, torn: true }
  if (walk.rows.length >= walk.limit || last === undefined || !more) return { rows: walk.rows, torn: false }
  const { next, limit } = walk
  next.from = `${last}\u0001`
  next.size = Math.min(next.size * 4, MOST_SCANNED)
  next.limit = limit - walk.rows.length
  walk.passed = rows.length === 0 ? walk.passed + scanned : 0
  if (walk.isSample && limit * scanned > ASKING * rows.length) {
    // Without a match here, the index finds where the next is, or that there are few.
    if (rows.length === 0) walk.passed = walk.patience
    else walk.mayBeFew = true
  }
  walk.isSample = false
  return undefined
}

/** Continues the walk at the next match of an index. Returns the result if there are few matches, or no more. */
async function jump(statements: PageStatements, query: StorePageQuery, walk: Walk): Promise<ReadAttempt | undefined> {
  const { registry, term, values, limit } = query
  const { next, rows, revision } = walk
  const match = await statements.find.next({ registry, term, since: values.updatedSince, from: next.from })
  if (match === undefined) return undefined
  if ('found' in match) return readFew(statements, match.found, query)
  if (match.name === undefined) return { rows, torn: match.revision !== revision }
  next.from = match.name
  // The names after a match may match too.
  next.size = limit
  walk.passed = 0
  walk.patience *= 2
  return undefined
}

type Values = Required<FilterValues> &
  Pick<StepQuery, 'registry' | 'type' | 'limit' | 'afterName' | 'afterPrecedence'> & {
    readonly versions: unknown
    readonly sets: unknown
  }

/** Creates the function that reads a page of the matches of an index. It reads all of them, so they must be few. */
function createFoundPage(database: Database) {
  const lists = numberLists(database)
  // This keeps both databases from moving the order into the outer query.
  const noMerge = isPostgres(database) ? sql`offset 0` : sql`limit -1`

  const statement = byShape((filter: VersionFilter, all: boolean) =>
    prepareStatement<Values, FoundRow>(database, (value) => {
      const sees = (table: string) =>
        all ? sql`` : sql`and ${sql.ref(`${table}.claims_set`)} in (${lists.select(value('sets'))})`
      // The rows are ordered first, so that visibility is checked for one page only.
      return sql<FoundRow>`
            select ${versionColumns}, ${revisionColumn(value)}
            from (
              select o.id, o.name, o.precedence
              from (
                select v.id, v.entry_id, e.name, v.precedence
                from ${lists.table(value('versions'))} f cross join entry_version v cross join entry e
                where v.id = f.value and e.id = v.entry_id
                  and (e.name > ${value('afterName')}
                    or e.name = ${value('afterName')} and v.precedence > ${value('afterPrecedence')})
                  ${versionConditions(filter, value)}
                order by e.name, v.precedence ${noMerge}) o
              where exists (
                select 1 from listing l where l.entry_id = o.entry_id
                  and l.registry_id = ${value('registry')} and l.type = ${value('type')} ${sees('l')}
                  and not exists (
                    select 1 from listing b where b.registry_id = l.registry_id and b.type = l.type and b.name = l.name
                      and b.rank < l.rank ${sees('b')}))
              ${limitTo(value('limit'))}) p
              cross join entry_version v
              cross join entry e
              cross join document d
            where v.id = p.id and e.id = v.entry_id and d.id = v.document_id
            order by p.name, p.precedence`
    }),
  )

  return function readFound(versions: readonly number[], query: StorePageQuery): Promise<FoundRow[]> {
    const { registry, type, visible, limit, after, filter, values } = query
    const all = visible === 'all'
    return statement(
      filter,
      all,
    )({
      ...values,
      registry,
      type,
      limit,
      versions: lists.value(versions),
      sets: all ? undefined : lists.value(visible),
      afterName: after?.name ?? '',
      afterPrecedence: after?.precedence ?? '',
    } as Values)
  }
}
