import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import type { IncomingVersion } from '../catalog/entry.ts'
import { twinMessage } from '../sources/format/catalog-reader.ts'
import { createFilter } from '../sources/format/filter.ts'
import type { KeptClones } from '../sources/format/kept-clones.ts'
import type { Problem } from '../sources/format/read-entry.ts'
import type {
  Content,
  LocationOf,
  PollSource,
  SourceLocation,
  SyncedSource,
  SyncResult,
} from '../sources/format/source.ts'
import { ofContent, SourceError } from '../sources/format/source-error.ts'
import { pollGit } from '../sources/git/poll-git.ts'
import { pollApi } from '../sources/http/poll-api.ts'
import { pollUrl } from '../sources/http/poll-url.ts'
import { pollKubernetes } from '../sources/kubernetes/poll.ts'
import { pollFile, pollInline } from '../sources/poll-file.ts'
import { stageSync } from '../store/apply/apply-sync.ts'
import type { RegistryTables } from '../store/database/schema.ts'
import { inChunks } from '../store/database/statement.ts'
import type { FailedContents } from './failed-contents.ts'
import { writeSyncMarker } from './sync-markers.ts'

interface SyncOptions {
  readonly full: boolean
  readonly stateDirectory: string
  readonly clones: KeptClones
  readonly failedContents: FailedContents
  readonly signal: AbortSignal
  /** Runs work on this source that only one replica may do at a time, and waits for another that does it. */
  readonly alone: <T>(work: () => Promise<T>) => Promise<T>
}

type Database = Kysely<RegistryTables>

/** Incremented when the same bytes would be read differently: they are then read again although they did not change. */
const READER_REVISION = 5

/** The most problems of a source that are kept, the first ones. */
const MOST_PROBLEMS = 1000

const pollers: { readonly [K in SourceLocation['kind']]: PollSource<LocationOf<K>> } = {
  file: pollFile,
  url: pollUrl,
  inline: pollInline,
  git: pollGit,
  api: pollApi,
  kubernetes: pollKubernetes,
}

/**
 * Polls a source, and reads and applies its content if that or the settings have changed. Unreadable content is not
 * read again while it stays, except in a full pass. Throws a SourceError; the store then keeps its content.
 */
export async function syncSource(database: Database, source: SyncedSource, options: SyncOptions): Promise<SyncResult> {
  try {
    const result = await syncChanged(database, source, options)
    options.failedContents.note(source)
    return result
  } catch (error) {
    options.failedContents.note(source, error)
    throw error
  }
}

async function syncChanged(
  database: Database,
  source: SyncedSource,
  { full, stateDirectory, clones, failedContents, signal, alone }: SyncOptions,
): Promise<SyncResult> {
  const settingsHash = hash('sha256', JSON.stringify([READER_REVISION, source.location, source.filter]), 'base64url')
  const before = await lastApplied(database, source.name)
  const applied = before?.settings_hash === settingsHash ? (before.content_hash ?? undefined) : undefined
  const failed = full ? undefined : failedContents.of(source)
  const cursor = full ? undefined : (failed?.cursor ?? applied)

  await using parts = new AsyncDisposableStack()
  const poll = pollers[source.location.kind] as PollSource
  const holdsSkills = (before?.skills ?? 0) > 0
  const { name, maxBytes } = source
  const held = () => bytesHeld(database, name)
  const pass = { source: name, cursor, holdsSkills, maxBytes, held, stateDirectory, clones, signal, parts }
  const readChange = await poll(source.location, pass)
  if (readChange === undefined) {
    if (failed !== undefined) throw failed.error
    return outcome(before, false)
  }

  const changed = await alone(async () => {
    const now = await lastApplied(database, source.name)
    // Another replica was faster.
    if (!full && (now?.content_hash !== before?.content_hash || now?.settings_hash !== before?.settings_hash))
      return false
    using _ = writeSyncMarker(stateDirectory, source)
    const content = await readChange()
    if (!('newCursor' in content)) {
      // A pass over changes tells nothing about left-out entries of the rest.
      const before = content.complete ? [] : readProblems(now)
      return await apply(database, source, { settingsHash, content, before, signal })
    }
    if (failed !== undefined) throw ofContent(failed.error, content.newCursor)
    await stored(recordCursor(database, source.name, content.newCursor))
    return false
  })
  return outcome(await lastApplied(database, source.name), changed)
}

interface ReadContent {
  readonly settingsHash: string
  readonly content: Content
  /** The problems of earlier passes, which stay. */
  readonly before: readonly Problem[]
  readonly signal: AbortSignal
}

/** Writes a source's content to the store, batch by batch; true if anything was written. */
async function apply(
  database: Database,
  { name, filter }: SyncedSource,
  { settingsHash, content, before, signal }: ReadContent,
): Promise<boolean> {
  if (signal.aborted) throw stopped()
  const staging = await stored(stageSync(database, name))
  try {
    const wanted = createFilter(filter)
    const problems = [...before]
    const known = new Set(before.map(formatKey))
    for await (const batch of content.batches) {
      if (signal.aborted) throw stopped()
      const versions = await filterInTurns(batch.versions, wanted)
      await stored(staging.add(versions))
      // A complete pass has met all names itself.
      const twins = content.complete ? [] : await stored(findTwins(database, name, versions))
      const added = [...batch.problems, ...twins].filter((problem) => !known.has(formatKey(problem)))
      for (const problem of added) known.add(formatKey(problem))
      problems.push(...added.slice(0, MOST_PROBLEMS - problems.length))
    }
    if (signal.aborted) throw stopped()
    const { complete } = content
    const now = new Date().toISOString()
    return await stored(
      staging.finish({ settingsHash, cursor: content.cursor(), complete, problems: JSON.stringify(problems), now }),
    )
  } catch (error) {
    await staging.drop().catch(() => {
      // The next pass begins with dropping the staged rows.
    })
    throw error
  }
}

/** Reports names that differ by case alone from one that the source has already. */
async function findTwins(
  database: Database,
  source: string,
  versions: readonly IncomingVersion[],
): Promise<readonly Problem[]> {
  const told = new Map<string, Problem>()
  await inChunks(versions, async (chunk) => {
    const folded = [...new Set(chunk.map(({ name }) => name.toLowerCase()))]
    const { rows } = await sql<Pick<IncomingVersion, 'type' | 'name'>>`
      select e.type, e.name from entry e join source s on s.id = e.source_id
      where s.name = ${source} and e.living = 1 and lower(e.name) in (${sql.join(folded)})`.execute(database)
    for (const { type, name } of chunk) {
      const hasTwin = rows.some(
        (held) => held.type === type && held.name !== name && held.name.toLowerCase() === name.toLowerCase(),
      )
      const isHeld = rows.some((held) => held.type === type && held.name === name)
      if (hasTwin && !isHeld)
        told.set(`${type} ${name}`, { pointer: `/${type}s`, message: twinMessage(name), served: true })
    }
  })
  return [...told.values()]
}

const formatKey = ({ pointer, message }: Problem) => `${pointer} ${message}`

/** A filter may have hundreds of patterns, so other syncs and publications get a turn meanwhile. */
const YIELD_MS = 20

async function filterInTurns<T>(items: readonly T[], wanted: (item: T) => boolean): Promise<T[]> {
  const kept: T[] = []
  let begun = performance.now()
  for (const item of items) {
    if (wanted(item)) kept.push(item)
    if (performance.now() - begun < YIELD_MS) continue
    await setImmediate()
    begun = performance.now()
  }
  return kept
}

const stopped = () => new SourceError('stopped', 'the sync was stopped')

async function stored<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw new SourceError('store_failed', `the store can’t write it: ${(error as Error).message}`, { cause: error })
  }
}

async function recordCursor(database: Database, source: string, cursor: string): Promise<void> {
  await database.updateTable('source').set({ content_hash: cursor }).where('name', '=', source).execute()
}

async function bytesHeld(database: Database, source: string) {
  const { rows } = await sql<{ bytes: number; entries: number }>`
    select coalesce(sum(octet_length(d.text)), 0) as bytes, count(*) as entries
    from document d join source s on s.id = d.source_id where s.name = ${source}`.execute(database)
  return rows[0] ?? { bytes: 0, entries: 0 }
}

type Applied = Awaited<ReturnType<typeof lastApplied>>

function lastApplied(database: Database, source: string) {
  return database
    .selectFrom('source')
    .select(['settings_hash', 'content_hash', 'servers', 'skills', 'problems'])
    .where('name', '=', source)
    .executeTakeFirst()
}

function outcome(applied: Applied, changed: boolean): SyncResult {
  if (applied === undefined) throw new SourceError('store_failed', 'the source is no longer configured')
  const { servers, skills } = applied
  return { changed, servers, skills, problems: readProblems(applied) }
}

function readProblems(applied: Applied): readonly Problem[] {
  return JSON.parse(applied?.problems ?? '[]') as Problem[]
}
