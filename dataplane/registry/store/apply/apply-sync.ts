import { randomUUID } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import { isPostgres, retryConflicts } from '../../../storage/sql.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import type { Database, RegistryTables } from '../database/schema.ts'
import { inChunks } from '../database/statement.ts'
import { NumberSet } from './number-set.ts'
import { refreshLatest, refreshListing, renewRevisions } from './refresh.ts'
import { enterStaged, stageVersions } from './stage-versions.ts'

interface PassEnd {
  readonly settingsHash: string
  readonly cursor: string
  /** True if the batches were all that the source has; false if they were changes. */
  readonly complete: boolean
  readonly problems: string
  readonly now: string
}

/**
 * Begins to write a pass over a source. Each batch is on the disk before the next. An earlier pass that is unfinished
 * fails when it continues. Throws if there is no such source.
 */
export async function stageSync(database: Database, name: string) {
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
  /** The ids of versions that the store had before and that the pass has too. */
  const seen = new NumberSet()

  return {
    /** Stages the changed versions of a batch on the disk. If a version comes twice, the later one counts. */
    add: (versions: readonly IncomingVersion[]) => stageVersions(database, source, { versions, seen, acquire }),
    /**
     * Makes all batches visible at once. Only differences are written. Versions that a complete pass did not have
     * become tombstones, for clients that mirror us. Returns true if anything was written.
     */
    finish: (end: PassEnd) =>
      transact(async (transaction) => {
        await lockFinish(transaction)
        await lockSynced(transaction, source)
        if (writes) await acquire(transaction)
        const { now } = end
        const touched = new NumberSet()
        // This must come first, since `seen` lacks the versions that are inserted below.
        if (end.complete) await tombstoneVanished(transaction, source, { now, seen, touched })
        await enterStaged(transaction, source, now, touched)
        await purgeTombstones(transaction, source, now, touched)
        if (touched.size > 0) {
          if (!writes) await acquire(transaction)
          await refreshTouched(transaction, source, touched)
        }
        return recordPass(transaction, source, end, touched.size > 0)
      }),
    async drop(): Promise<void> {
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

/** Writes a pass whose versions are all in memory. */
export async function applySync(
  database: Database,
  { source, versions, ...end }: PassEnd & { readonly source: string; readonly versions: readonly IncomingVersion[] },
): Promise<void> {
  const staging = await stageSync(database, source)
  await staging.add(versions)
  await staging.finish(end)
}

/** So few changed entries need no new statistics and no maintenance of the index. */
const FEW_CHANGES = 10

/**
 * Updates statistics and the search index, which PostgreSQL would do a minute later. Until then a search would take
 * many times as long.
 */
async function analyzeTables(database: Database, touched: number): Promise<void> {
  if (!isPostgres(database) || touched <= FEW_CHANGES) return
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

/** The number of an advisory lock that nothing else in the database uses. */
const FINISH_LOCK = 7_461_003

/** Lets one pass finish at a time: concurrent ones renew the same revisions and could deadlock. */
async function lockFinish(database: Database): Promise<void> {
  if (isPostgres(database)) await sql`select pg_advisory_xact_lock(${sql.lit(FINISH_LOCK)})`.execute(database)
}

/** Makes writers to a source wait for each other. SQLite has one writer anyway. */
export async function lockSource(database: Database, source: number): Promise<void> {
  if (isPostgres(database))
    await database.selectFrom('source').select('id').where('id', '=', source).forUpdate().execute()
}

/** Locks a source for a pass. If it was changed to a managed one, the pass must not remove its publications. */
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

interface SourcePass {
  readonly source: number
  readonly name: string
  readonly before: string | undefined
}

/** Returns the name of the pass that last wrote to a source. */
async function lastPass(database: Database, source: number): Promise<string | undefined> {
  const row = await database
    .selectFrom('lease')
    .select('holder')
    .where('name', '=', formatRow(source))
    .executeTakeFirst()
  return row?.holder
}

/**
 * Marks a pass as the last one that wrote; false if another has written since it began. Each writing transaction must
 * call it: a pass that stalled beyond its lease, or has old settings, would remove what the other pass wrote.
 */
async function acquirePass(database: Database, { source, name, before = name }: SourcePass): Promise<boolean> {
  const taken = await database
    .insertInto('lease')
    .values({ name: formatRow(source), holder: name, expires_at: 0 })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet({ holder: name }).where('lease.holder', 'in', [name, before]),
    )
    .returning('holder')
    .executeTakeFirst()
  return taken !== undefined
}

/** Removes the mark of the last pass. */
export async function forgetPasses(database: Database, source: number): Promise<void> {
  await database.deleteFrom('lease').where('name', '=', formatRow(source)).execute()
}

const formatRow = (source: number) => `pass ${source}`

/** A version that left its source is shown for this time to clients that ask for deleted or changed versions. */
const TOMBSTONE_MS = 30 * 24 * 60 * 60 * 1000

/** The most entries of a source that one statement reads. */
const ENTRIES_AT_ONCE = 1_000

/** Makes tombstones of versions that left the source, and adds their entries to `touched`. */
async function tombstoneVanished(
  database: Database,
  source: number,
  { now, seen, touched }: { readonly now: string; readonly seen: NumberSet; readonly touched: NumberSet },
): Promise<void> {
  let last: Pick<RegistryTables['entry'], 'type' | 'name'> | undefined = { type: 'server', name: '' }
  while (last !== undefined) {
    const entries = await database
      .selectFrom('entry')
      .select(['id', 'type', 'name'])
      .where('source_id', '=', source)
      .where(sql<boolean>`(type, name) > (${last.type}, ${last.name})`)
      .orderBy('type')
      .orderBy('name')
      .limit(ENTRIES_AT_ONCE)
      .execute()
    last = entries.at(-1)
    await inChunks(entries, async (chunk) => {
      const entryIds = chunk.map(({ id }) => id)
      const present = await database
        .selectFrom('entry_version')
        .select(['id', 'entry_id'])
        .where('entry_id', 'in', entryIds)
        .where('gone_at', 'is', null)
        .execute()
      const vanished = present.filter(({ id }) => !seen.has(id))
      for (const { entry_id } of vanished) touched.add(entry_id)
      const vanishedIds = vanished.map(({ id }) => id)
      await inChunks(vanishedIds, (ids) =>
        database
          .updateTable('entry_version')
          .set({ status: 'deleted', status_message: null, status_changed_at: now, updated_at: now, gone_at: now })
          .where('id', 'in', ids)
          .execute(),
      )
    })
  }
}

/** Removes old tombstones and entries without versions, and adds the entries to `touched`. */
async function purgeTombstones(database: Database, source: number, now: string, touched: NumberSet): Promise<void> {
  const before = new Date(Date.parse(now) - TOMBSTONE_MS).toISOString()
  for (;;) {
    const old = await database
      .selectFrom('entry_version as v')
      .innerJoin('entry as e', 'e.id', 'v.entry_id')
      .select(['v.id', 'v.entry_id', 'v.document_id'])
      .where('v.gone_at', '<', before)
      .where('e.source_id', '=', source)
      .limit(ENTRIES_AT_ONCE)
      .execute()
    await inChunks(old, async (rows) => {
      const columns = <K extends 'id' | 'document_id' | 'entry_id'>(name: K) => rows.map((row) => row[name])
      await database.deleteFrom('entry_version').where('id', 'in', columns('id')).execute()
      await database.deleteFrom('document').where('id', 'in', columns('document_id')).execute()
      await sql`
        delete from entry where id in (${sql.join(columns('entry_id'))}) and not exists (
          select 1 from entry_version v where v.entry_id = entry.id)`.execute(database)
    })
    for (const { entry_id } of old) touched.add(entry_id)
    if (old.length < ENTRIES_AT_ONCE) return
  }
}
