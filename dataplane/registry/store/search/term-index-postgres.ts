import { type Kysely, type RawBuilder, sql } from 'kysely'
import { likePattern } from '../../catalog/search-text.ts'
import { JOINT, SEPARATORS } from '../database/migrations/0003-search-key.ts'
import { revisionColumn } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import { prepareStatement } from '../database/statement.ts'
import { type FoundVersions, type NextNameRow, readNextMatch, type TermIndex } from './term-index.ts'

/** The most matches that are read one by one. If there are more, a walk by name soon meets them. */
const FEW = 500

interface Values {
  readonly registry: number
  /** A pattern for the indexed column; it finds at least what `pattern` does. */
  readonly key: string
  readonly pattern: string
  readonly from: string
}

type Placeholder<K extends keyof Values> = (name: K) => RawBuilder<unknown>

interface Matching {
  readonly ids: readonly number[] | null
  readonly revision: string
}

// The backslash is the default escape. PostgreSQL would search the pattern row by row for any other one that is named.
const inText = (value: Placeholder<'pattern'>) => sql`v.search_text like ${value('pattern')}`
const indexed = (value: Placeholder<'key' | 'pattern'>) => sql`v.search_key like ${value('key')} and ${inText(value)}`

const isFew = sql`count(*) < ${sql.lit(FEW)}`
/** Creates an index over trigrams of whole lines; see migration 0003. */
export function postgresIndex(database: Kysely<RegistryTables>): TermIndex {
  const matching = prepareStatement<RegistryTables, Omit<Values, 'from'>, Matching>(
    database,
    (value) => sql<Matching>`
      select case when ${isFew} then coalesce(array_agg(id), '{}') end as ids, ${revisionColumn(value)} from (
        select v.id from entry_version v where ${indexed(value)} limit ${sql.lit(FEW)}) f`,
  )
  // Names are found by a list of numbers: a join would read all of them for a few thousand.
  const next = prepareStatement<RegistryTables, Values, Matching & NextNameRow>(
    database,
    (value) => sql<Matching & NextNameRow>`
      select case when ${isFew} then coalesce(array_agg(id), '{}') end as ids, ${revisionColumn(value)},
        case when not ${isFew} then (
          select min(e.name) from entry e where e.id = any(array_agg(f.entry_id)) and e.name >= ${value('from')}
        ) end as name
      from (select v.id, v.entry_id from entry_version v where ${indexed(value)}) f`,
  )
  // Reading all texts once is better than walking the whole index.
  const nextInText = prepareStatement<RegistryTables, Omit<Values, 'key'>, NextNameRow>(
    database,
    (value) => sql<NextNameRow>`
      select min(e.name) as name, ${revisionColumn(value)} from entry e
      where e.id = any(array(select v.entry_id from entry_version v where ${inText(value)}))
        and e.name >= ${value('from')}`,
  )

  return async function searchTerm(term, registry) {
    const key = joined(term)
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

function joined(term: string): string {
  return Array.from(term, (character) => (SEPARATORS.includes(character) ? JOINT : character)).join('')
}

/** Builds a pattern from some trigrams: beginning, end, and joints between words, which are rarer than words. */
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

/** Tells whether pg_trgm finds a trigram, since it knows letters and digits alone. */
function hasTrigram(key: string): boolean {
  return /[\p{L}\p{N}]{3}/u.test(key)
}
