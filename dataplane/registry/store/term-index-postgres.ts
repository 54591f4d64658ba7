import { type Kysely, type RawBuilder, sql } from 'kysely'
import { likePattern } from '../catalog/search-text.ts'
import { JOINT, SEPARATORS } from './migrations/0003-search-key.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'
import { type Next, nameOf, type TermIndex } from './term-index.ts'

/** As many matches are looked at one by one: where there are more, what lies behind the first of them is soon met. */
const FEW = 500

interface Values {
  /** Of the column that is indexed; finds at least what `pattern` does. */
  readonly key: string
  readonly pattern: string
}

type Condition = (value: (name: keyof Values) => RawBuilder<unknown>) => RawBuilder<unknown>

const inText: Condition = (value) => sql`v.search_text like ${value('pattern')} escape '\\'`
const indexed: Condition = (value) => sql`v.search_key like ${value('key')} and ${inText(value)}`

/** Trigrams of whole lines; see migration 0003. */
export function postgresIndex(database: Kysely<RegistryTables>): TermIndex {
  const matching = prepareStatement<RegistryTables, Values, { ids: readonly number[] | null }>(
    database,
    (value) => sql<{ ids: readonly number[] | null }>`
      select case when count(*) < ${sql.lit(FEW)} then coalesce(array_agg(id), '{}') end as ids from (
        select v.id from entry_version v where ${indexed(value)} limit ${sql.lit(FEW)}) f`,
  )
  const nextOf = (condition: Condition) =>
    prepareStatement<RegistryTables, Values & { readonly from: string }, Next>(
      database,
      // As a list: joined, all names would be read for a few thousand.
      (value) => sql<Next>`
        select min(e.name) as name from entry e
        where e.id = any(array(select distinct v.entry_id from entry_version v where ${condition(value)}))
          and e.name >= ${value('from')}`,
    )
  const next = nextOf(indexed)
  // To read all texts once is better than to walk the whole index.
  const nextInText = nextOf(inText)

  return async function searchTerm(term) {
    const key = joined(term)
    const values = { key: keyPattern(key), pattern: likePattern(term) }
    const known = hasTrigram(key)
    return {
      async matching() {
        if (!known) return undefined
        const [row] = await matching(values)
        return row?.ids ?? undefined
      },
      next: async (from) => nameOf(await (known ? next : nextInText)({ ...values, from })),
    }
  }
}

/** The term as the indexed column has it. */
function joined(term: string): string {
  return Array.from(term, (character) => (SEPARATORS.includes(character) ? JOINT : character)).join('')
}

/**
 * Finds some of the term's trigrams, in their order: how it begins and ends, and a word's last letter with the next one's
 * first, since fewer texts have two words in a row than either.
 */
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

/** pg_trgm knows letters and digits alone. */
function hasTrigram(key: string): boolean {
  return /[\p{L}\p{N}]{3}/u.test(key)
}
