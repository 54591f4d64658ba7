import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import { foldTerm, likePattern, trigrams } from '../catalog/search-text.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'
import { unindexedText } from './version-columns.ts'

/**
 * As many matches are looked at one by one. Where there are more, walking by name soon meets enough of them: with this
 * many of 100,000 both ways cost the same.
 */
const FEW = 1_500
/** Trigrams that begin with a short term; one of so many beginnings is found everywhere. */
const MOST_BEGINNINGS = 40
/** So many trigrams of a term are looked up, each of which costs a walk through its list; the text decides. */
const SOME_TRIGRAMS = 3

/** Finds versions by an index, over all registries. Undefined: there are many, or the index can't tell which. */
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
      const search = await index(foldTerm(term))
      const found = await search?.matching()
      return found && few(found)
    },
    byChange: async (since) => few(await changed({ since })),
    async nextName(term, since, from) {
      if (term === undefined) return since === undefined ? null : nameOf(await nextChanged({ since, from }))
      const search = await index(foldTerm(term))
      return search === undefined ? null : nameOf(await search.next(from))
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

/** A term that is looked for by an index. */
interface TermSearch {
  /** Undefined where the index can't find it. */
  matching(): Promise<readonly Found[]> | undefined
  next(from: string): Promise<readonly Next[]>
}

/** How a database finds a folded term; undefined where its index is of no use. */
type TermIndex = (term: string) => Promise<TermSearch | undefined>

type WithName<V> = V & { readonly from: string }

function postgresIndex(database: Kysely<RegistryTables>): TermIndex {
  const ofWord = postgresStatements(database, (value) => sql`v.search_text like ${value('pattern')} escape '\\'`)
  const ofWords = postgresStatements(
    database,
    (value) => sql`
      v.search_text like ${value('one')} and v.search_text like ${value('other')}
      and ${unindexedText} like ${value('pattern')} escape '\\'`,
  )

  return async function searchTerm(term) {
    const pattern = likePattern(term)
    const words = term.match(/[\p{L}\p{N}]{3,}/gu) ?? []
    if (words.length < 2) {
      const search = ofWord({ pattern, one: '', other: '' })
      // To read all texts once is still less than to walk through all entries.
      return hasTrigram(term) ? search : { ...search, matching: () => undefined }
    }
    // It would walk through the list of each trigram of each word: how two of them begin tells about as much.
    const [one, other] = words.toSorted((a, b) => b.length - a.length).map((word) => `%${trigrams(word)[0]}%`)
    return ofWords({ pattern, one: one as string, other: other as string })
  }
}

/** pg_trgm knows words of letters and digits alone, with two blanks before and one behind. */
function hasTrigram(term: string): boolean {
  return /[\p{L}\p{N}]{3}|[\p{L}\p{N}]{2}[^\p{L}\p{N}]|[^\p{L}\p{N}][\p{L}\p{N}]/u.test(term)
}

interface PostgresTerm {
  /** The whole term. */
  readonly pattern: string
  /** Parts of it. */
  readonly one: string
  readonly other: string
}

function postgresStatements(
  database: Kysely<RegistryTables>,
  found: (value: (name: keyof PostgresTerm) => RawBuilder<unknown>) => RawBuilder<unknown>,
): (term: PostgresTerm) => TermSearch {
  // A rare term is best found by the index, a common one by reading on.
  const replan = { replan: true }
  const matching = prepareStatement<RegistryTables, PostgresTerm, Found>(
    database,
    (value) => sql<Found>`select v.id from entry_version v where ${found(value)} limit ${sql.lit(FEW)}`,
    replan,
  )
  // As a list: joined, all names would be read for a few thousand.
  const next = prepareStatement<RegistryTables, WithName<PostgresTerm>, Next>(
    database,
    (value) => sql<Next>`
      select min(e.name) as name from entry e
      where e.id = any(array(select distinct v.entry_id from entry_version v where ${found(value)}))
        and e.name >= ${value('from')}`,
    replan,
  )
  return (term) => ({ matching: () => matching(term), next: (from) => next({ ...term, from }) })
}

function sqliteIndex(database: Kysely<RegistryTables>): TermIndex {
  interface Values {
    /** What the index is asked. */
    readonly query: string
    /** What the text is held against. */
    readonly pattern: string
  }
  const beginning = prepareStatement<RegistryTables, { from: string; to: string }, { term: string }>(
    database,
    (value) => sql<{ term: string }>`
      select term from version_search_term where term >= ${value('from')} and term <= ${value('to')}
      limit ${sql.lit(MOST_BEGINNINGS)}`,
  )
  const found = (value: (name: keyof Values) => RawBuilder<unknown>) => sql`
    s.version_search match ${value('query')} and v.id = s.rowid and v.search_text like ${value('pattern')} escape '\\'`
  const matching = prepareStatement<RegistryTables, Values, Found>(
    database,
    (value) => sql<Found>`
      select v.id from version_search s cross join entry_version v where ${found(value)} limit ${sql.lit(FEW)}`,
  )
  const next = prepareStatement<RegistryTables, WithName<Values>, Next>(
    database,
    (value) => sql<Next>`
      select min(e.name) as name from version_search s cross join entry_version v cross join entry e
      where ${found(value)} and e.id = v.entry_id and e.name >= ${value('from')}`,
  )

  async function queryOf(term: string): Promise<string | undefined> {
    const parts = trigrams(term)
    const step = Math.ceil(parts.length / SOME_TRIGRAMS)
    const some = parts.toReversed().filter((_, index) => index % step === 0)
    if (some.length > 0) return matchOf(some, ' AND ')
    const terms = (await beginning({ from: term, to: `${term}\u{10FFFF}` })).map((row) => row.term)
    if (terms.length === MOST_BEGINNINGS) return undefined
    return terms.length === 0 ? NOWHERE : matchOf(terms, ' OR ')
  }

  return async function searchTerm(term) {
    const query = await queryOf(term)
    if (query === undefined) return undefined
    const values = { query, pattern: likePattern(term) }
    return { matching: () => matching(values), next: (from) => next({ ...values, from }) }
  }
}

/** No text has this character. */
const NOWHERE = '"\u{1}\u{1}\u{1}"'

/** An FTS5 query of whole trigrams, each quoted. */
function matchOf(parts: readonly string[], operator: string): string {
  return parts.map((part) => `"${part.replaceAll('"', '""')}"`).join(operator)
}
