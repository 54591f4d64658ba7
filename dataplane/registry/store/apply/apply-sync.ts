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

/** What a pass over a source ends with. */
interface PassEnd {
  readonly settingsHash: string
  /** The cursor of what was read, for the next pass. */
  readonly cursor: string
  /** Whether the batches were all that the source holds; else they were what has changed. */
  readonly complete: boolean
  /** JSON list of what was left out. */
  readonly problems: string
  /** UTC with milliseconds. */
  readonly now: string
}

/** A pass over a source that is being written. */
interface Staging {
  /**
   * Takes a batch: what is in the store as it is costs nothing, the rest is staged on the disk. Of two that are the
   * same version the later counts: an upstream may change while it is paged through.
   */
  add(versions: readonly IncomingVersion[]): Promise<void>
  /**
   * Puts all batches in force at once: whoever reads sees the state before or after, and a process that is killed leaves
   * the state before. Writes only what differs. What a complete pass did not bring becomes a tombstone, so that those who
   * mirror us by `updated_since` learn of it. Tells whether anything was written.
   */
  finish(end: PassEnd): Promise<boolean>
  /** Removes what a pass has staged that can't be finished. */
  drop(): Promise<void>
}

type Database = Kysely<RegistryTables>

/**
 * Begins to write a pass over a source. Memory does not grow with the documents: each batch is on the disk before the
 * next. What an earlier pass staged and did not finish is dropped; should it go on, it fails. Throws where there is no
 * such source.
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
  /** Numbers of versions that the store has and that the pass has met. */
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
        // First: what comes in now was not in the store when it was met.
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

/** Brings what follows from entries of a source into line with what was written to them. */
async function refreshTouched(database: Database, source: number, touched: NumberSet): Promise<void> {
  for (const entries of touched.chunks(ENTRIES_AT_ONCE)) {
    await refreshLatest(database, entries)
    await refreshListing(database, { entries })
  }
  await renewRevisions(database, [source])
  await analyzeTables(database, touched.size)
}

/** The same for a source that is at hand as a whole. */
export async function applySync(
  database: Database,
  { source, versions, ...end }: PassEnd & { readonly source: string; readonly versions: readonly IncomingVersion[] },
): Promise<void> {
  const staging = await stageSync(database, source)
  await staging.add(versions)
  await staging.finish(end)
}

/** Below so many changed entries neither statistics nor index are worth the trouble. */
const MANY = 10

/**
 * What PostgreSQL would do by itself a minute later; until then a search costs many times as much: statistics that are of
 * another catalog lead to plans that read everything, and what the search index has not taken in is read from end to end.
 */
async function analyzeTables(database: Database, touched: number): Promise<void> {
  if (!isPostgres(database) || touched <= MANY) return
  await sql`select gin_clean_pending_list('entry_version_search')`.execute(database)
  const { rows } = await sql<{
    known: number
  }>`select reltuples as known from pg_class where oid = 'entry'::regclass`.execute(database)
  if (touched * 5 > (rows[0]?.known ?? 0)) await sql`analyze entry, entry_version, listing`.execute(database)
}

/** Removes what an earlier pass has staged; true where that was any version. */
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

/** Number of our advisory lock; any that nothing else in this database uses. */
const SWITCH_LOCK = 7_461_003

/**
 * Sources of one registry renew the same revisions and settle the same names: switching over together they would wait
 * for each other in a ring. Reading and staging, which takes the time, goes on side by side.
 */
async function lockSwitchOver(database: Database): Promise<void> {
  if (isPostgres(database)) await sql`select pg_advisory_xact_lock(${sql.lit(SWITCH_LOCK)})`.execute(database)
}

/** Those who write to one source do so one after the other; on SQLite there is one writer anyway. */
export async function lockSource(database: Database, source: number): Promise<void> {
  if (isPostgres(database))
    await database.selectFrom('source').select('id').where('id', '=', source).forUpdate().execute()
}

/** The same for a pass. What is published meanwhile to a source that was set otherwise is not a pass's to bury. */
async function lockSynced(database: Database, source: number): Promise<void> {
  await lockSource(database, source)
  const { config } = await database
    .selectFrom('source')
    .select('config')
    .where('id', '=', source)
    .executeTakeFirstOrThrow()
  if ('managed' in JSON.parse(config)) throw new Error('the source is published to')
}

/** Records a pass; true where that wrote anything. A pass that found everything as it was writes nothing. */
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
