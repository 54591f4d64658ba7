import { type RawBuilder, sql } from 'kysely'
import { isPostgres, retryConflicts } from '../../../storage/sql.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { allocateIds } from '../database/allocate-ids.ts'
import { canonicalClaims, internClaims } from '../database/claims-sets.ts'
import type { Database, RegistryTables } from '../database/schema.ts'
import { inChunks } from '../database/statement.ts'
import { deriveColumns } from '../database/version-columns.ts'
import type { NumberSet } from './number-set.ts'

type Columns = ReturnType<typeof deriveColumns>

interface Batch {
  readonly versions: readonly IncomingVersion[]
  readonly seen: NumberSet
  readonly acquire: (transaction: Database) => Promise<void>
}

/** The most staged versions that one statement inserts. SQLite has a copy of them in memory meanwhile. */
const ENTERED_AT_ONCE = 2_000
/** After so many new entries PostgreSQL gets new statistics. */
const FRESH = 200

type Key = Pick<RegistryTables['staged_version'], 'type' | 'name' | 'precedence'>

interface Part {
  readonly now: string
  /** A condition on the staged versions `s`. */
  readonly part: RawBuilder<unknown>
  readonly touched: NumberSet
  readonly onFresh: (entries: number) => Promise<void>
}

/** Stages versions that differ from the store, and adds to `seen` the ids of those that the store has. */
export function stageVersions(database: Database, source: number, { versions, seen, acquire }: Batch): Promise<void> {
  // Concurrent syncs conflict on the counters of ids.
  return inChunks(versions, (chunk) =>
    retryConflicts(() =>
      database.transaction().execute(async (transaction) => {
        const rows = new Map<string, { readonly incoming: IncomingVersion; readonly columns: Columns }>()
        for (const incoming of chunk) {
          const columns = deriveColumns(incoming)
          rows.set(formatKey(columns), { incoming, columns })
        }
        const names = [...new Set(chunk.map(({ name }) => name))]
        const known = await loadKnown(transaction, source, names)
        const outdated = (await loadStaged(transaction, source, names)).filter((row) => rows.has(formatKey(row)))
        const fresh = [...rows].flatMap(([key, row]) => {
          const before = known.get(key)
          if (before !== undefined) seen.add(before.id)
          const same = before?.gone_at === null && before.content_hash === row.columns.content_hash
          return same ? [] : row
        })
        if (fresh.length + outdated.length === 0) return
        await acquire(transaction)
        await unstage(transaction, source, outdated)
        if (fresh.length === 0) return

        const { document: documents } = await allocateIds(transaction, { document: fresh.length })
        const sets = await internClaims(
          transaction,
          fresh.flatMap(({ incoming: { claims } }) => (claims === undefined ? [] : [claims])),
        )
        await transaction
          .insertInto('document')
          .values(
            fresh.map(({ incoming: { document } }, index) => ({
              id: documents[index] as number,
              source_id: source,
              text: document,
            })),
          )
          .execute()
        await transaction
          .insertInto('staged_version')
          .values(
            fresh.map(({ incoming: { claims }, columns }, index) => ({
              source_id: source,
              ...columns,
              claims_set: claims === undefined ? null : (sets.get(canonicalClaims(claims)) as number),
              document_id: documents[index] as number,
            })),
          )
          .execute()
      }),
    ),
  )
}

const formatKey = ({ type, name, precedence }: { type: string; name: string; precedence: string }) =>
  `${type} ${name} ${precedence}`

async function loadKnown(database: Database, source: number, names: readonly string[]) {
  const rows = await database
    .selectFrom('entry as e')
    .innerJoin('entry_version as v', 'v.entry_id', 'e.id')
    .select(['e.type', 'e.name', 'v.id', 'v.precedence', 'v.content_hash', 'v.gone_at'])
    .where('e.source_id', '=', source)
    .where('e.type', 'in', ['server', 'skill'])
    .where('e.name', 'in', names)
    .execute()
  return new Map(rows.map((row) => [formatKey(row), row]))
}

function loadStaged(database: Database, source: number, names: readonly string[]) {
  return database
    .selectFrom('staged_version')
    .select(['type', 'name', 'precedence', 'document_id'])
    .where('source_id', '=', source)
    .where('type', 'in', ['server', 'skill'])
    .where('name', 'in', names)
    .execute()
}

/** Removes the rows that an earlier batch staged for the same versions. */
async function unstage(database: Database, source: number, rows: readonly { readonly document_id: number }[]) {
  for (const { document_id } of rows) {
    await database.deleteFrom('document').where('id', '=', document_id).execute()
    await database
      .deleteFrom('staged_version')
      .where('document_id', '=', document_id)
      .where('source_id', '=', source)
      .execute()
  }
}

/**
 * Moves staged versions into the tables, part by part, and adds their entries to `touched`. Meanwhile PostgreSQL gets
 * new statistics: by the old ones it read a whole part for each version, which took 50 s for 10,000 versions and more
 * than 400 s for 100,000 (65 s with new ones).
 */
export async function enterStaged(database: Database, source: number, now: string, touched: NumberSet): Promise<void> {
  let behind: Key = { type: 'server', name: '', precedence: '' }
  let isFirst = true
  let fresh = 0
  let analyzeAt = FRESH
  const onFresh = async (entries: number) => {
    fresh += entries
    if (fresh < analyzeAt || !isPostgres(database)) return
    await sql`analyze entry, entry_version`.execute(database)
    analyzeAt = fresh * 4
  }
  for (;;) {
    const isBehind = sql<boolean>`${listColumns('s')} > ${formatValues(behind)}`
    const end = await database
      .selectFrom('staged_version as s')
      .select(['type', 'name', 'precedence'])
      .where('source_id', '=', source)
      .where(isBehind)
      .orderBy('type')
      .orderBy('name')
      .orderBy('precedence')
      .offset(ENTERED_AT_ONCE - 1)
      .limit(1)
      .executeTakeFirst()
    if (isFirst && end !== undefined && isPostgres(database))
      await sql`analyze staged_version, document`.execute(database)
    isFirst = false
    const part = end === undefined ? isBehind : sql`${isBehind} and ${listColumns('s')} <= ${formatValues(end)}`
    await enterPart(database, source, { now, part, touched, onFresh })
    if (end === undefined) break
    behind = end
  }
  await database.deleteFrom('staged_version').where('source_id', '=', source).execute()
}

const listColumns = (table: string) =>
  sql`(${sql.join(['type', 'name', 'precedence'].map((column) => sql.ref(`${table}.${column}`)))})`
const formatValues = ({ type, name, precedence }: Key) => sql`(${type}, ${name}, ${precedence})`

async function enterPart(database: Database, source: number, { now, part, touched, onFresh }: Part): Promise<void> {
  const mine = sql`s.source_id = ${source} and ${part}`
  const { numAffectedRows } = await sql`
    insert into entry (source_id, type, name, claims_set)
    select s.source_id, s.type, s.name, coalesce(min(s.claims_set), (select claims_set from source where id = ${source}))
    from staged_version s where ${mine} and not exists (
      select 1 from entry e where e.source_id = s.source_id and e.type = s.type and e.name = s.name)
    group by s.source_id, s.type, s.name order by s.type, s.name`.execute(database)
  await onFresh(Number(numAffectedRows ?? 0))
  await sql`
    update entry set claims_set = s.claims_set from staged_version s
    where ${mine} and ${sameEntry(sql`entry`)} and s.claims_set is not null and entry.claims_set <> s.claims_set`.execute(
    database,
  )
  await sql`
    delete from document where id in (
      select v.document_id from staged_version s join entry e on ${sameEntry(sql`e`)}
        join entry_version v on v.entry_id = e.id and v.precedence = s.precedence where ${mine})`.execute(database)
  // Times that the source does not give stay as they are.
  await sql`
    update entry_version set
      status = s.status, status_message = s.status_message,
      status_changed_at = coalesce(s.status_changed_at,
        case when entry_version.status = s.status then entry_version.status_changed_at else ${now} end),
      published_at = coalesce(s.published_at, entry_version.published_at), updated_at = ${now}, gone_at = null,
      title = s.title, description = s.description, search_text = s.search_text, content_hash = s.content_hash,
      other_meta = s.other_meta, document_id = s.document_id, bytes = s.bytes
    from staged_version s join entry e on ${sameEntry(sql`e`)}
    where ${mine} and entry_version.entry_id = e.id and entry_version.precedence = s.precedence`.execute(database)
  await sql`
    insert into entry_version (entry_id, version, precedence, status, status_message, status_changed_at, published_at,
      updated_at, title, description, search_text, content_hash, other_meta, document_id, bytes)
    select e.id, s.version, s.precedence, s.status, s.status_message,
      coalesce(s.status_changed_at, s.published_at, ${now}), coalesce(s.published_at, ${now}),
      ${now}, s.title, s.description, s.search_text, s.content_hash, s.other_meta, s.document_id, s.bytes
    from staged_version s join entry e on ${sameEntry(sql`e`)}
    where ${mine} and not exists (
      select 1 from entry_version v where v.entry_id = e.id and v.precedence = s.precedence)
    order by s.type, s.name, s.precedence`.execute(database)

  const { rows } = await sql<{ id: number }>`
    select distinct e.id from staged_version s join entry e on ${sameEntry(sql`e`)} where ${mine}`.execute(database)
  for (const { id } of rows) touched.add(id)
}

function sameEntry(entry: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`${entry}.source_id = s.source_id and ${entry}.type = s.type and ${entry}.name = s.name`
}
