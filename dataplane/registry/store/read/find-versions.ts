import { type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { foldTerm, likePattern, trigrams } from '../../catalog/search-text.ts'
import { JOINT, SEPARATORS } from '../database/migrations/0003-search-key.ts'
import type { Database } from '../database/schema.ts'
import { prepareStatement } from '../database/statement.ts'
import { revisionColumn } from '../database/version-columns.ts'

/** The most changed versions that are read one by one. Of more, a walk by name soon meets enough. */
const FEW_CHANGED = 1_500

interface NextQuery {
  readonly registry: number
  readonly term: string | undefined
  readonly since: string | undefined
  readonly from: string
}

/** Finds versions of all registries by an index. Undefined if there are many, or if the index can't find them. */
export function createFindVersions(database: Database) {
  const index = isPostgres(database) ? createPostgresIndex(database) : createSqliteIndex(database)
  const changed = prepareStatement<{ since: string; registry: number }, Match>(
    database,
    (value) => sql<Match>`
      select id, ${revisionColumn(value)}
      from entry_version where updated_at > ${value('since')} limit ${sql.lit(FEW_CHANGED)}`,
  )
  const nextChanged = prepareStatement<{ since: string; from: string; registry: number }, NextNameRow>(
    database,
    (value) => sql<NextNameRow>`
      select min(e.name) as name, ${revisionColumn(value)}
      from entry_version v join entry e on e.id = v.entry_id
      where v.updated_at > ${value('since')} and e.name >= ${value('from')}`,
  )

  return {
    byTerm: async (term: string, registry: number) => (await index(foldTerm(term), registry))?.matching(),
    byChange: async (since: string, registry: number) => collectFew(await changed({ since, registry }), FEW_CHANGED),
    async next({ registry, term, since, from }: NextQuery) {
      if (term !== undefined) return (await index(foldTerm(term), registry))?.next(from)
      return since === undefined ? undefined : readNextMatch(await nextChanged({ since, from, registry }))
    },
  }
}

interface Match {
  readonly id: number
  readonly revision: string
}

export interface FoundVersions {
  readonly ids: readonly number[]
  /** The revision of the requested registry in the same snapshot; undefined if nothing was found. */
  readonly revision: string | undefined
}

/** Returns matches that were read up to a limit; undefined if that was reached. */
const collectFew = (rows: readonly Match[], limit: number): FoundVersions | undefined =>
  rows.length < limit ? { ids: rows.map(({ id }) => id), revision: rows[0]?.revision } : undefined

/** The next matches: these few versions, or some from this name on. */
type NextMatch =
  | { readonly found: FoundVersions }
  | {
      readonly name: string | undefined
      readonly revision: string | undefined
    }

interface TermSearch {
  /** Finds the versions that have the term; undefined if there are many, or if the index can't find them. */
  matching(): Promise<FoundVersions | undefined>
  /** Finds these versions if they are few, or else the first name from `from` on that has such a version. */
  next(from: string): Promise<NextMatch>
}

/** Begins a search for a folded term; undefined if the index can't help. */
type TermIndex = (term: string, registry: number) => Promise<TermSearch | undefined>

interface NextNameRow {
  readonly name: string | null
  readonly revision: string
}

const readNextMatch = ([row]: readonly NextNameRow[]): NextMatch => ({
  name: row?.name ?? undefined,
  revision: row?.revision,
})

/** The most matches that are read one by one. With so many of 100,000 versions, a walk by name costs the same. */
const FEW_IN_SQLITE = 1_500
/** The most trigrams that begin with a short term. A term with more is found everywhere. */
const MOST_BEGINNINGS = 40
/**
 * The most trigrams of a term that are looked up, since each costs a walk through its list. The text is checked too.
 */
const SOME_TRIGRAMS = 3

interface SqliteValues {
  readonly registry: number
  readonly query: string
  readonly pattern: string
  readonly from: string
}

type SqlitePlaceholder = (name: 'query' | 'pattern') => RawBuilder<unknown>

/** Creates the search by the trigrams of FTS5; see migration 0002. */
function createSqliteIndex(database: Database): TermIndex {
  const beginning = prepareStatement<{ from: string; to: string }, { term: string }>(
    database,
    (value) => sql<{ term: string }>`
      select term from version_search_term where term >= ${value('from')} and term <= ${value('to')}
      limit ${sql.lit(MOST_BEGINNINGS)}`,
  )
  const found = (value: SqlitePlaceholder) => sql`
    s.version_search match ${value('query')} and v.id = s.rowid and v.search_text like ${value('pattern')} escape '\\'`
  const matching = prepareStatement<Omit<SqliteValues, 'from'>, Match>(
    database,
    (value) => sql<Match>`
      select v.id, ${revisionColumn(value)}
      from version_search s cross join entry_version v where ${found(value)} limit ${sql.lit(FEW_IN_SQLITE)}`,
  )
  const next = prepareStatement<SqliteValues, NextNameRow>(
    database,
    (value) => sql<NextNameRow>`
      select min(e.name) as name, ${revisionColumn(value)} from version_search s cross join entry_version v cross join entry e
      where ${found(value)} and e.id = v.entry_id and e.name >= ${value('from')}`,
  )

  async function buildQuery(term: string): Promise<string | undefined> {
    const parts = trigrams(term)
    const step = Math.ceil(parts.length / SOME_TRIGRAMS)
    const some = parts.toReversed().filter((_, index) => index % step === 0)
    if (some.length > 0) return buildMatch(some, ' AND ')
    const terms = (await beginning({ from: term, to: `${term}\u{10FFFF}` })).map((row) => row.term)
    if (terms.length === MOST_BEGINNINGS) return undefined
    return terms.length === 0 ? NOWHERE : buildMatch(terms, ' OR ')
  }

  return async function searchTerm(term, registry) {
    const query = await buildQuery(term)
    if (query === undefined) return undefined
    const values = { registry, query, pattern: likePattern(term) }
    return {
      matching: async () => collectFew(await matching(values), FEW_IN_SQLITE),
      next: async (from) => readNextMatch(await next({ ...values, from })),
    }
  }
}

/** A query without matches: no text has this character. */
const NOWHERE = '"\u{1}\u{1}\u{1}"'

/** Builds an FTS5 query of whole trigrams, each quoted. */
function buildMatch(parts: readonly string[], operator: string): string {
  return parts.map((part) => `"${part.replaceAll('"', '""')}"`).join(operator)
}

/** The most matches that are read one by one. Of more, a walk by name soon meets enough. */
const FEW_IN_POSTGRES = 500

interface PostgresValues {
  readonly registry: number
  /** A pattern for the indexed column. It finds all that `pattern` does, and maybe more. */
  readonly key: string
  readonly pattern: string
  readonly from: string
}

type PostgresPlaceholder<K extends keyof PostgresValues> = (name: K) => RawBuilder<unknown>

interface Matching {
  readonly ids: readonly number[] | null
  readonly revision: string
}

// The backslash is the default escape. If the query named an escape, PostgreSQL would rewrite the pattern for each row.
const inText = (value: PostgresPlaceholder<'pattern'>) => sql`v.search_text like ${value('pattern')}`
const inIndex = (value: PostgresPlaceholder<'key' | 'pattern'>) =>
  sql`v.search_key like ${value('key')} and ${inText(value)}`

const isFew = sql`count(*) < ${sql.lit(FEW_IN_POSTGRES)}`
/** Creates the search by trigrams of whole lines; see migration 0003. */
function createPostgresIndex(database: Database): TermIndex {
  const matching = prepareStatement<Omit<PostgresValues, 'from'>, Matching>(
    database,
    (value) => sql<Matching>`
      select case when ${isFew} then coalesce(array_agg(id), '{}') end as ids, ${revisionColumn(value)} from (
        select v.id from entry_version v where ${inIndex(value)} limit ${sql.lit(FEW_IN_POSTGRES)}) f`,
  )
  // PostgreSQL would read all names for a few thousand matches if this were a join.
  const next = prepareStatement<PostgresValues, Matching & NextNameRow>(
    database,
    (value) => sql<Matching & NextNameRow>`
      select case when ${isFew} then coalesce(array_agg(id), '{}') end as ids, ${revisionColumn(value)},
        case when not ${isFew} then (
          select min(e.name) from entry e where e.id = any(array_agg(f.entry_id)) and e.name >= ${value('from')}
        ) end as name
      from (select v.id, v.entry_id from entry_version v where ${inIndex(value)}) f`,
  )
  // For a term without trigrams, reading all texts is faster than walking the whole index.
  const nextInText = prepareStatement<Omit<PostgresValues, 'key'>, NextNameRow>(
    database,
    (value) => sql<NextNameRow>`
      select min(e.name) as name, ${revisionColumn(value)} from entry e
      where e.id = any(array(select v.entry_id from entry_version v where ${inText(value)}))
        and e.name >= ${value('from')}`,
  )

  return async function searchTerm(term, registry) {
    const key = joinWords(term)
    const values = { registry, key: keyPattern(key), pattern: likePattern(term) }
    const known = hasTrigram(key)
    return {
      matching: async () => (known ? readFew(await matching(values)) : undefined),
      async next(from) {
        if (!known) return readNextMatch(await nextInText({ ...values, from }))
        const rows = await next({ ...values, from })
        const few = readFew(rows)
        return few === undefined ? readNextMatch(rows) : { found: few }
      },
    }
  }
}

function readFew([row]: readonly Matching[]): FoundVersions | undefined {
  return row?.ids ? { ids: row.ids, revision: row.revision } : undefined
}

function joinWords(term: string): string {
  return Array.from(term, (character) => (SEPARATORS.includes(character) ? JOINT : character)).join('')
}

/** Builds a pattern of the first and last trigram, and of those over gaps between words, which are rarer than words. */
function keyPattern(key: string): string {
  const characters = Array.from(key)
  const last = characters.length - 3
  if (last < 4) return `%${key}%`
  const joints = [characters.indexOf(JOINT, 1), characters.lastIndexOf(JOINT, last + 1)].filter((at) => at > 0)
  const places = [0, ...joints.map((at) => at - 1), last]
  const isKept = (at: number) => places.some((place) => at >= place && at < place + 3)
  const kept = characters.map((character, at) => (isKept(at) ? character : '%')).join('')
  return `%${kept.replace(/%+/g, '%')}%`
}

/** Tells whether pg_trgm finds a trigram. It knows letters and digits only. */
function hasTrigram(key: string): boolean {
  return /[\p{L}\p{N}]{3}/u.test(key)
}
