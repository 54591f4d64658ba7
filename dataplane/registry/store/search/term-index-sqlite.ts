import { type Kysely, type RawBuilder, sql } from 'kysely'
import { likePattern, trigrams } from '../../catalog/search-text.ts'
import { revisionColumn } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import { prepareStatement } from '../database/statement.ts'
import { type NextNameRow, readNextMatch, type TermIndex } from './term-index.ts'

/** The most matches that are read one by one: with this many of 100,000 a walk by name costs the same. */
const FEW = 1_500
/** The most trigrams that begin with a short term; a term with more is found everywhere. */
const MOST_BEGINNINGS = 40
/** The most trigrams of a term that are looked up, since each costs a walk through its list. The text decides. */
const SOME_TRIGRAMS = 3

interface Values {
  readonly registry: number
  readonly query: string
  readonly pattern: string
  readonly from: string
}

type Placeholder = (name: 'query' | 'pattern') => RawBuilder<unknown>

interface Match {
  readonly id: number
  readonly revision: string
}

/** Creates an index over the trigrams of FTS5; see migration 0002. */
export function sqliteIndex(database: Kysely<RegistryTables>): TermIndex {
  const beginning = prepareStatement<RegistryTables, { from: string; to: string }, { term: string }>(
    database,
    (value) => sql<{ term: string }>`
      select term from version_search_term where term >= ${value('from')} and term <= ${value('to')}
      limit ${sql.lit(MOST_BEGINNINGS)}`,
  )
  const found = (value: Placeholder) => sql`
    s.version_search match ${value('query')} and v.id = s.rowid and v.search_text like ${value('pattern')} escape '\\'`
  const matching = prepareStatement<RegistryTables, Omit<Values, 'from'>, Match>(
    database,
    (value) => sql<Match>`
      select v.id, ${revisionColumn(value)}
      from version_search s cross join entry_version v where ${found(value)} limit ${sql.lit(FEW)}`,
  )
  const next = prepareStatement<RegistryTables, Values, NextNameRow>(
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
      async matching() {
        const rows = await matching(values)
        return rows.length < FEW ? { ids: rows.map(({ id }) => id), revision: rows[0]?.revision } : undefined
      },
      next: async (from) => readNextMatch(await next({ ...values, from })),
    }
  }
}

/** No text has this character. */
const NOWHERE = '"\u{1}\u{1}\u{1}"'

/** Builds an FTS5 query of whole trigrams, each quoted. */
function buildMatch(parts: readonly string[], operator: string): string {
  return parts.map((part) => `"${part.replaceAll('"', '""')}"`).join(operator)
}
