import { sql } from 'kysely'
import { findKind, MOST_NAMED, type SourceKind } from '../../../config/registry.ts'
import type { ClaimsMap } from '../../../identity/claims.ts'
import { isPostgres } from '../../../storage/sql.ts'
import { dropSource, writeRegistry, writeSource } from '../apply/apply-settings.ts'
import { canonicalClaims } from '../database/claims-sets.ts'
import type { AdminWriter } from '../database/records.ts'
import type { Database, Origin } from '../database/schema.ts'

type Argument<K extends keyof AdminWriter> = Parameters<AdminWriter[K]>[0]
type Outcome<K extends keyof AdminWriter> = ReturnType<AdminWriter[K]>

/** Creates or changes a source of the API. As the other functions here, it must be called in a transaction. */
export async function putSource(database: Database, change: Argument<'putSource'>): Outcome<'putSource'> {
  const before = await lockAndRead(database, 'source', change.name)
  const refusal = findRefusal(before, change)
  if (refusal !== undefined) return refusal
  if (before?.kind !== undefined && before.kind !== findKind(change.config)) return 'changed'
  if (!(await isWithinBounds(database, 'source', change.name, { ...change.config }))) return 'too_many'
  await writeSource(database, change, 'api', change.at)
  return 'done'
}

export async function removeSource(
  database: Database,
  { name, expect }: Argument<'removeSource'>,
): Outcome<'removeSource'> {
  // The lock decides: either a registry that takes the source is visible here, or it finds that the source is gone.
  const before = await lockAndRead(database, 'source', name)
  if (before?.origin !== 'api') return 'not_found'
  if (!isExpected(before, expect)) return 'changed'
  const user = await database
    .selectFrom('registry_source')
    .select('registry_id')
    .where('source_id', '=', before.id)
    .executeTakeFirst()
  if (user !== undefined) return 'in_use'
  await dropSource(database, before.id)
  return 'done'
}

export async function putRegistry(database: Database, change: Argument<'putRegistry'>): Outcome<'putRegistry'> {
  const before = await lockAndRead(database, 'registry', change.name)
  const refusal = findRefusal(before, change)
  if (refusal !== undefined) return refusal
  for (const [index, name] of change.sources.entries()) {
    const source = await lockAndRead(database, 'source', name)
    if (source === undefined) return 'no_source'
    if (!isExpected(source, change.expectSources?.[index])) return 'changed'
  }
  if (!(await isWithinBounds(database, 'registry', change.name, {}))) return 'too_many'
  await writeRegistry(database, change, 'api', change.at)
  return 'done'
}

export async function removeRegistry(
  database: Database,
  { name, expect }: Argument<'removeRegistry'>,
): Outcome<'removeRegistry'> {
  const before = await lockAndRead(database, 'registry', name)
  if (before?.origin !== 'api') return 'not_found'
  if (!isExpected(before, expect)) return 'changed'
  await database.deleteFrom('registry').where('id', '=', before.id).execute()
  return 'done'
}

/** The most bytes of settings of all sources of the API, since they are kept in memory. */
const MOST_SETTINGS_BYTES = 8 * 1024 * 1024

/** Tells whether the API may have one more source or registry, with these settings. */
async function isWithinBounds(
  database: Database,
  table: 'source' | 'registry',
  name: string,
  config: object,
): Promise<boolean> {
  const bytes = table === 'source' ? sql`coalesce(sum(octet_length(config)), 0)` : sql`0`
  const { rows } = await sql<{ others: number; bytes: number }>`
    select cast(count(*) as integer) as others, cast(${bytes} as integer) as bytes
    from ${sql.table(table)} where origin = 'api' and name <> ${name}`.execute(database)
  const [{ others, bytes: held }] = rows as [{ others: number; bytes: number }]
  return others < MOST_NAMED && held + Buffer.byteLength(JSON.stringify(config)) <= MOST_SETTINGS_BYTES
}

interface StoredSetting {
  readonly id: number
  readonly origin: Origin
  readonly claims: string
  readonly kind: SourceKind | undefined
}

/** Finds the source or registry of this name, and locks it until the transaction ends. */
async function lockAndRead(
  database: Database,
  table: 'source' | 'registry',
  name: string,
): Promise<StoredSetting | undefined> {
  // This waits for a change of another transaction, whose result is then read.
  if (isPostgres(database)) await database.selectFrom(table).select('id').where('name', '=', name).forUpdate().execute()
  const config = table === 'source' ? sql`t.config` : sql`null`
  const { rows } = await sql<Omit<StoredSetting, 'kind'> & { config: string | null }>`
    select t.id, t.origin, c.claims, ${config} as config
    from ${sql.table(table)} t join claims_set c on c.id = t.claims_set where t.name = ${name}`.execute(database)
  const [row] = rows
  return row && { ...row, kind: row.config === null ? undefined : findKind(JSON.parse(row.config)) }
}

const isExpected = ({ claims }: StoredSetting, expect: ClaimsMap | undefined) =>
  expect === undefined || claims === canonicalClaims(expect)

/** Returns the reason to refuse a change; undefined if it is allowed. Only the file changes what it has created. */
function findRefusal(before: StoredSetting | undefined, { create, expect }: { create: boolean; expect?: ClaimsMap }) {
  if (create) return before === undefined ? undefined : 'taken'
  if (before === undefined) return 'not_found'
  if (before.origin !== 'api') return 'taken'
  return isExpected(before, expect) ? undefined : 'changed'
}
