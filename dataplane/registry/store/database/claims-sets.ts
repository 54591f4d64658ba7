import { sql } from 'kysely'
import type { ClaimsMap } from '../../../identity/claims.ts'
import { isPostgres } from '../../../storage/sql.ts'
import type { Database } from './schema.ts'

/** Returns the same text for equal sets of claims, whatever their order. */
export function canonicalClaims(claims: ClaimsMap): string {
  return JSON.stringify(Object.fromEntries(Object.entries(claims).sort(([one], [other]) => (one < other ? -1 : 1))))
}

const CLAIMS_LOCK = 7_461_002

/** Returns the ids of sets by their canonical texts, and stores new sets. `before` has ids that are known already. */
export async function internClaims(
  database: Database,
  sets: Iterable<ClaimsMap>,
  before: ReadonlyMap<string, number> = new Map(),
): Promise<ReadonlyMap<string, number>> {
  const texts = [...new Set(Array.from(sets, canonicalClaims))]
  const known = new Map(before)
  const load = async () => {
    const missing = texts.filter((text) => !known.has(text))
    if (missing.length === 0) return missing
    const rows = await database.selectFrom('claims_set').selectAll().where('claims', 'in', missing).execute()
    for (const { id, claims } of rows) known.set(claims, id)
    return missing.filter((text) => !known.has(text))
  }
  const fresh = await load()
  if (fresh.length > 0) {
    // With the lock, ids become visible in their order: a reader that has one has all smaller ones.
    if (isPostgres(database)) await sql`select pg_advisory_xact_lock(${CLAIMS_LOCK})`.execute(database)
    await database
      .insertInto('claims_set')
      .values(fresh.map((claims) => ({ claims })))
      // Another replica may have written the set first.
      .onConflict((conflict) => conflict.column('claims').doNothing())
      .execute()
    await load()
  }
  return known
}

/** Returns the id of a set, and stores a new set. */
export async function internOne(database: Database, claims: ClaimsMap): Promise<number> {
  return (await internClaims(database, [claims])).get(canonicalClaims(claims)) as number
}
