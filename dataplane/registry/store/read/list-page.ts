import type { Kysely } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { foldTerm, trigrams } from '../../catalog/search-text.ts'
import { createReadRevision } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import type { FoundRow } from '../database/version-columns.ts'
import { createFindVersions } from '../search/find-versions.ts'
import type { FoundVersions } from '../search/term-index.ts'
import { type ReadAttempt, readConsistently } from './consistent-read.ts'
import { createFoundPage } from './found-page.ts'
import type { MakePage, VersionPage } from './large-texts.ts'
import type { Step, StepQuery, StorePageQuery } from './walk-step.ts'
import { createPostgresStep } from './walk-step-postgres.ts'
import { createSqliteStep } from './walk-step-sqlite.ts'

/** The most entries that one statement scans. */
const MOST = 1_000
/**
 * After so many entries without a match an index is asked for the next one. The number grows each time: asking costs as
 * much as scanning three thousand entries if a tenth of all match, a few hundred if few do.
 */
const PATIENCE = 100
/** PostgreSQL first scans so many entries: it meets a common term sooner than it counts it. */
const SAMPLE = 30
/** Scanning so many entries costs as much as asking the index and reading its matches. */
const ASKING = 500

interface PageStatements {
  readonly step: (query: StepQuery) => Promise<Step>
  readonly find: ReturnType<typeof createFindVersions>
  readonly foundPage: ReturnType<typeof createFoundPage>
  readonly revisionOf: ReturnType<typeof createReadRevision>
  /** True if a search scans some entries before it asks an index. */
  readonly samples: boolean
}

/**
 * Creates the function that reads a page: by an index if a search or `updatedSince` finds little, otherwise by names.
 * If the registry changed in between, the page is read again.
 */
export function createListPage(
  database: Kysely<RegistryTables>,
  makePage: MakePage,
): (query: StorePageQuery) => Promise<VersionPage> {
  const postgres = isPostgres(database)
  const statements: PageStatements = {
    step: postgres ? createPostgresStep(database) : createSqliteStep(database),
    find: createFindVersions(database),
    foundPage: createFoundPage(database),
    revisionOf: createReadRevision(database),
    samples: postgres,
  }

  return async function readPage(query) {
    // One row more than requested shows whether there is a next page.
    const oneMore = { ...query, limit: query.limit + 1 }
    return readConsistently(
      () => attempt(statements, oneMore),
      (rows, isLast) => makePage(rows, { limit: query.limit, registry: query.registry, isLast, hold: query.hold }),
    )
  }
}

async function attempt(statements: PageStatements, query: StorePageQuery): Promise<ReadAttempt> {
  // Nearly every version has a short term, and asking an index for it is expensive. The walk asks if it finds nothing.
  if (isShort(query.term)) return walkByName(statements, query, false)
  if (query.term !== undefined && statements.samples) return walkByName(statements, query, true)
  const few = await findFew(statements, query)
  return few === undefined ? walkByName(statements, query, false) : showFew(statements, few, query)
}

const isShort = (term: string | undefined) => term !== undefined && trigrams(foldTerm(term)).length === 0

/** Returns the matches of an index if they are few: a walk by name would pass over nearly everything. */
async function findFew(
  { find }: PageStatements,
  { registry, values, term }: StorePageQuery,
): Promise<FoundVersions | undefined> {
  const byTerm = term === undefined ? undefined : await find.byTerm(term, registry)
  if (byTerm !== undefined || values.updatedSince === undefined) return byTerm
  return find.byChange(values.updatedSince, registry)
}

async function showFew(
  { foundPage, revisionOf }: PageStatements,
  { ids, revision }: FoundVersions,
  query: StorePageQuery,
): Promise<ReadAttempt> {
  if (ids.length === 0) return { rows: [], torn: false }
  const rows = await foundPage(ids, query)
  const revisionAfter = rows.length === 0 ? await revisionOf(query.registry) : rows[0]?.revision
  return { rows, torn: revisionAfter !== revision }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

interface Walk {
  readonly rows: FoundRow[]
  readonly limit: number
  readonly next: Writable<StepQuery>
  revision: string | undefined
  /** True if the next step is a sample: if it finds little, an index is asked. */
  isSample: boolean
  /** True if the sample has found so little that there may be few matches in all. */
  mayBeFew: boolean
  passed: number
  /** The number of them after which an index is asked. */
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
      if (few !== undefined) return showFew(statements, few, query)
    }
    if (walk.passed >= walk.patience) {
      const shown = await jump(statements, query, walk)
      if (shown !== undefined) return shown
    }
  }
}

/** Adds a step's rows to the walk and prepares the next step. Returns the result if the walk has ended. */
function advance(walk: Walk, { rows, torn, scanned, last, more, revision }: Step): ReadAttempt | undefined {
  walk.revision ??= revision
  walk.rows.push(...rows)
  if (torn || revision !== walk.revision) return { rows: walk.rows, torn: true }
  if (walk.rows.length >= walk.limit || last === undefined || !more) return { rows: walk.rows, torn: false }
  const { next, limit } = walk
  next.from = `${last}\u0001`
  next.size = Math.min(next.size * 4, MOST)
  next.limit = limit - walk.rows.length
  walk.passed = rows.length === 0 ? walk.passed + scanned : 0
  if (walk.isSample && limit * scanned > ASKING * rows.length) {
    // A common term that none of these versions has is elsewhere. The index finds where, or that its matches are few.
    if (rows.length === 0) walk.passed = walk.patience
    else walk.mayBeFew = true
  }
  walk.isSample = false
  return undefined
}

/**
 * Continues the walk at the next match, by an index. Returns the result if the matches are few, or if there are no
 * more.
 */
async function jump(statements: PageStatements, query: StorePageQuery, walk: Walk): Promise<ReadAttempt | undefined> {
  const { registry, term, values, limit } = query
  const { next, rows, revision } = walk
  const match = await statements.find.next({ registry, term, since: values.updatedSince, from: next.from })
  if (match === undefined) return undefined
  if ('found' in match) return showFew(statements, match.found, query)
  if (match.name === undefined) return { rows, torn: match.revision !== revision }
  next.from = match.name
  // The neighbours of a match may match too.
  next.size = limit
  walk.passed = 0
  walk.patience *= 2
  return undefined
}
