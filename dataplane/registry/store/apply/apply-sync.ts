import { randomUUID } from 'node:crypto'
import { type Kysely, sql, type Transaction } from 'kysely'
import { isPostgres, retryConflicts } from '../../../storage/sql.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import type { RegistryTables } from '../database/schema.ts'
import { NumberSet } from './number-set.ts'
import { acquirePass, lastPass } from './pass.ts'
import { refreshLatest, refreshListing, renewRevisions } from './refresh.ts'
import { enterStaged, stageVersions } from './stage-versions.ts'
import { ENTRIES_AT_ONCE, purgeTombstones, tombstoneVanished } from './tombstones.ts'

interface PassEnd {
  readonly settingsHash: string
  readonly cursor: string
  /** True if the batches were all that the source holds. Otherwise they were the changes. */
  readonly complete: boolean
  readonly problems: string
  readonly now: string
}

interface Staging {
  /** Takes a batch: changed versions are staged on the disk. If a version comes twice, the later one counts. */
  add(versions: readonly IncomingVersion[]): Promise<void>
  /**
   * Puts all batches in force at once. Only differences are written. Versions that a complete pass did not bring become
   * tombstones, for clients who mirror us. Tells whether anything was written.
   */
  finish(end: PassEnd): Promise<boolean>
  drop(): Promise<void>
}

type Database = Kysely<RegistryTables>

/**
 * Begins to write a pass over a source, each batch on the disk before the next. An earlier unfinished pass fails if it
 * continues. Throws if there is no such source.
 */
export async function stageSync(database: Database, name: string): Promise<Staging> {
  const { id: source } = await database
    .selectFrom('source')
    .select('id')
    .where('name', '=', name)
    .executeTakeFirstOrThrow()
  const transact = <T>(work: (transaction: Transaction<RegistryTables>) => Promise<T>) =>
    retryConflicts(() => database.transaction().execute(work))
  const pass = { source, name: randomUUID(), before: await lastPass(database, source) }
  let writes = false
  const acquire = async (transaction: Database) => {
    writes = true
    if (!(await acquirePass(transaction, pass))) throw new Error('another pass over the source was faster')
  }
  await transact(async (transaction) => {
    if (await dropStaged(transaction, source)) await acquire(transaction)
  })
  /** The numbers of versions that are in the store and in the pass. */
  const seen = new NumberSet()

  return {
    add: (versions) => stageVersions(database, source, { versions, seen, acquire }),
    finish: (end) =>
      transact(async (transaction) => {
        await lockSwitchOver(transaction)
        await lockSynced(transaction, source)
        if (writes) await acquire(transaction)
        const { now } = end
        const touched = new NumberSet()
        // This comes first: `seen` has no versions that are inserted below.
        if (end.complete) await tombstoneVanished(transaction, source, { now, seen, touched })
        await enterStaged(transaction, source, now, touched)
        await purgeTombstones(transaction, source, now, touched)
        if (touched.size > 0) {
          if (!writes) await acquire(transaction)
          await refreshTouched(transaction, source, touched)
        }
        return recordPass(transaction, source, end, touched.size > 0)
      }),
    async drop() {
      if (!writes) return
      await transact(async (transaction) => {
        if (await acquirePass(transaction, pass)) await dropStaged(transaction, source)
      })
    },
  }
}

/** Updates the derived rows of the entries that were written. */
async function refreshTouched(database: Database, source: number, touched: NumberSet): Promise<void> {
  for (const entries of touched.chunks(ENTRIES_AT_ONCE)) {
    await refreshLatest(database, entries)
    await refreshListing(database, { entries })
  }
  await renewRevisions(database, [source])
  await analyzeTables(database, touched.size)
}

/** Applies a source that is in memory as a whole. */
export async function applySync(
  database: Database,
  { source, versions, ...end }: PassEnd & { readonly source: string; readonly versions: readonly IncomingVersion[] },
): Promise<void> {
  const staging = await stageSync(database, source)
  await staging.add(versions)
  await staging.finish(end)
}

/** Fewer changed entries are not worth new statistics and index maintenance. */
const MANY = 10

/**
 * Does at once what PostgreSQL would do a minute later: until then outdated statistics and the unprocessed search index
 * make a search many times as expensive.
 */
async function analyzeTables(database: Database, touched: number): Promise<void> {
  if (!isPostgres(database) || touched <= MANY) return
  await sql`select gin_clean_pending_list('entry_version_search')`.execute(database)
  const { rows } = await sql<{
    known: number
  }>`select reltuples as known from pg_class where oid = 'entry'::regclass`.execute(database)
  if (touched * 5 > (rows[0]?.known ?? 0)) await sql`analyze entry, entry_version, listing`.execute(database)
}

async function dropStaged(database: Database, source: number): Promise<boolean> {
  await sql`
    delete from document where id in (
      select document_id from staged_version where source_id = ${source} and document_id is not null)`.execute(database)
  const { numDeletedRows } = await database
    .deleteFrom('staged_version')
    .where('source_id', '=', source)
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}

/** The number of our advisory lock; nothing else in this database uses it. */
const SWITCH_LOCK = 7_461_003

/** Lets one source switch over at a time: concurrent switches renew the same revisions and could deadlock. */
async function lockSwitchOver(database: Database): Promise<void> {
  if (isPostgres(database)) await sql`select pg_advisory_xact_lock(${sql.lit(SWITCH_LOCK)})`.execute(database)
}

/** Serializes writers to one source; SQLite has a single writer anyway. */
export async function lockSource(database: Database, source: number): Promise<void> {
  if (isPostgres(database))
    await database.selectFrom('source').select('id').where('id', '=', source).forUpdate().execute()
}

/** Locks a source for a pass: if its settings have changed, the pass must not remove later publications. */
async function lockSynced(database: Database, source: number): Promise<void> {
  await lockSource(database, source)
  const { config } = await database
    .selectFrom('source')
    .select('config')
    .where('id', '=', source)
    .executeTakeFirstOrThrow()
  if ('managed' in JSON.parse(config)) throw new Error('the source is published to')
}

async function recordPass(
  database: Database,
  source: number,
  { settingsHash, cursor, problems }: PassEnd,
  changed: boolean,
): Promise<boolean> {
  const count = (type: string) => sql<number>`(
    select count(*) from entry e where e.source_id = source.id and e.type = ${type} and e.living = 1)`
  const { numUpdatedRows } = await database
    .updateTable('source')
    .set({
      settings_hash: settingsHash,
      content_hash: cursor,
      problems,
      servers: count('server'),
      skills: count('skill'),
    })
    .where('id', '=', source)
    .$if(!changed, (query) =>
      query.where(
        sql<boolean>`(settings_hash is distinct from ${settingsHash} or content_hash is distinct from ${cursor}
          or problems <> ${problems})`,
      ),
    )
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}
