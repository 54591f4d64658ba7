import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { RegistryTables } from './schema.ts'

/** Returns the same text for equal sets of claims, whatever their order. */
export function canonicalClaims(claims: ClaimsMap): string {
  return JSON.stringify(Object.fromEntries(Object.entries(claims).sort(([one], [other]) => (one < other ? -1 : 1))))
}

const CLAIMS_LOCK = 7_461_002

/** Returns the number of each set, by its canonical text, and writes new ones. */
export async function internClaims(
  database: Kysely<RegistryTables>,
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
    // The lock makes numbers visible in their order: who has read up to one has read all before it.
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

export async function internOne(database: Kysely<RegistryTables>, claims: ClaimsMap): Promise<number> {
  return (await internClaims(database, [claims])).get(canonicalClaims(claims)) as number
}
