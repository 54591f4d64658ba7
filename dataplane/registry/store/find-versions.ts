import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import { foldTerm, likePattern, trigrams } from '../catalog/search-text.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'

/**
 * As many matches are looked at one by one. Where there are more, walking by name soon meets enough of them: with this
 * many of 100,000 both ways cost the same.
 */
const FEW = 1_500
/** Trigrams that begin with a short term; one of so many beginnings is found everywhere. */
const MOST_BEGINNINGS = 40
/** So many trigrams of a term are looked up, each of which costs a walk through its list; the text decides. */
const SOME_TRIGRAMS = 3

/** Finds versions by an index, over all registries. Undefined: there are many, or the index can't tell. */
export interface FindVersions {
  /** Versions that may have the term. */
  byTerm(term: string): Promise<readonly number[] | undefined>
  /** Versions that changed later. */
  byChange(since: string): Promise<readonly number[] | undefined>
  /**
   * The first name from `from` on that has a version with this term, or one that changed later. Undefined: there is none;
   * null: the index can't tell.
   */
  nextName(term: string | undefined, since: string | undefined, from: string): Promise<string | undefined | null>
}

export function createFindVersions(database: Kysely<RegistryTables>): FindVersions {
  const changed = prepareStatement<RegistryTables, { since: string }, Found>(
    database,
    (value) => sql<Found>`select id from entry_version where updated_at > ${value('since')} limit ${sql.lit(FEW)}`,
  )
  const index = isPostgres(database) ? postgresIndex(database) : sqliteIndex(database)
  const nextChanged = prepareStatement<RegistryTables, { since: string; from: string }, Next>(
    database,
    (value) => sql<Next>`
      select min(e.name) as name from entry_version v join entry e on e.id = v.entry_id
      where v.updated_at > ${value('since')} and e.name >= ${value('from')}`,
  )

  return {
    async byTerm(term) {
      const values = await index.valuesOf(foldTerm(term))
      return values && few(await index.matching(values))
    },
    byChange: async (since) => few(await changed({ since })),
    async nextName(term, since, from) {
      if (term === undefined) return since === undefined ? null : nameOf(await nextChanged({ since, from }))
      const values = await index.valuesOf(foldTerm(term))
      return values === undefined ? null : nameOf(await index.next({ ...values, from }))
    },
  }
}

interface Found {
  readonly id: number
}
interface Next {
  readonly name: string | null
}

const few = (rows: readonly Found[]) => (rows.length < FEW ? rows.map(({ id }) => id) : undefined)
const nameOf = ([row]: readonly Next[]) => row?.name ?? undefined

interface TermValues {
  /** What the index is asked. */
  readonly query: string
  /** What the text is held against. */
  readonly pattern: string
}

/** How a database finds a folded term. */
interface TermIndex {
  /** Undefined where the index can't find it. */
  valuesOf(term: string): Promise<TermValues | undefined>
  matching(values: TermValues): Promise<readonly Found[]>
  next(values: TermValues & { readonly from: string }): Promise<readonly Next[]>
}

function postgresIndex(database: Kysely<RegistryTables>): TermIndex {
  const found = (pattern: RawBuilder<string>) => sql`v.search_text like ${pattern} escape '\\'`
  return {
    // pg_trgm knows words of letters and digits alone; a shorter run is in no trigram.
    async valuesOf(term) {
      return /[\p{L}\p{N}]{3}/u.test(term) ? { query: '', pattern: likePattern(term) } : undefined
    },
    matching: prepareStatement<RegistryTables, TermValues, Found>(
      database,
      (value) => sql<Found>`select v.id from entry_version v where ${found(value('pattern'))} limit ${sql.lit(FEW)}`,
    ),
    next: prepareStatement<RegistryTables, TermValues & { from: string }, Next>(
      database,
      (value) => sql<Next>`
        select min(e.name) as name from entry_version v join entry e on e.id = v.entry_id
        where ${found(value('pattern'))} and e.name >= ${value('from')}`,
    ),
  }
}

function sqliteIndex(database: Kysely<RegistryTables>): TermIndex {
  const beginning = prepareStatement<RegistryTables, { from: string; to: string }, { term: string }>(
    database,
    (value) => sql<{ term: string }>`
      select term from version_search_term where term >= ${value('from')} and term <= ${value('to')}
      limit ${sql.lit(MOST_BEGINNINGS)}`,
  )
  const found = (query: RawBuilder<string>, pattern: RawBuilder<string>) => sql`
    s.version_search match ${query} and v.id = s.rowid and v.search_text like ${pattern} escape '\\'`

  return {
    async valuesOf(term) {
      const pattern = likePattern(term)
      const parts = trigrams(term)
      if (parts.length > 0) {
        const step = Math.ceil(parts.length / SOME_TRIGRAMS)
        return {
          query: matchOf(
            parts.toReversed().filter((_, index) => index % step === 0),
            ' AND ',
          ),
          pattern,
        }
      }
      const terms = (await beginning({ from: term, to: `${term}\u{10FFFF}` })).map((row) => row.term)
      if (terms.length === MOST_BEGINNINGS) return undefined
      return { query: terms.length === 0 ? NOWHERE : matchOf(terms, ' OR '), pattern }
    },
    matching: prepareStatement<RegistryTables, TermValues, Found>(
      database,
      (value) => sql<Found>`
        select v.id from version_search s cross join entry_version v
        where ${found(value('query'), value('pattern'))} limit ${sql.lit(FEW)}`,
    ),
    next: prepareStatement<RegistryTables, TermValues & { from: string }, Next>(
      database,
      (value) => sql<Next>`
        select min(e.name) as name from version_search s cross join entry_version v cross join entry e
        where ${found(value('query'), value('pattern'))} and e.id = v.entry_id and e.name >= ${value('from')}`,
    ),
  }
}

/** No text has this character. */
const NOWHERE = '"\u{1}\u{1}\u{1}"'

/** An FTS5 query of whole trigrams, each quoted. */
function matchOf(parts: readonly string[], operator: string): string {
  return parts.map((part) => `"${part.replaceAll('"', '""')}"`).join(operator)
}
