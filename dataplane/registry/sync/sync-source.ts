import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { IncomingVersion } from '../catalog/entry.ts'
import { describeTwin } from '../sources/format/catalog-reader.ts'
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
import { addCursor, SourceError } from '../sources/format/source-error.ts'
import { pollGit } from '../sources/git/poll-git.ts'
import { pollApi } from '../sources/http/poll-api.ts'
import { pollUrl } from '../sources/http/poll-url.ts'
import { pollKubernetes } from '../sources/kubernetes/poll.ts'
import { pollFile, pollInline } from '../sources/poll-file.ts'
import { stageSync } from '../store/apply/apply-sync.ts'
import type { Database } from '../store/database/schema.ts'
import { inChunks } from '../store/database/statement.ts'
import { hashSettings, writeSyncMarker } from './quarantine.ts'

interface SyncOptions {
  readonly full: boolean
  readonly stateDirectory: string
  readonly clones: KeptClones
  readonly failedContents: ReturnType<typeof createFailedContents>
  readonly signal: AbortSignal
  /** Runs work that only one replica may do at a time for this source. */
  readonly runAlone: <T>(work: () => Promise<T>) => Promise<T>
}

/** Must be incremented when the same bytes are read differently, so that unchanged sources are read again. */
const READER_REVISION = 5

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
 * Polls a source, and reads and writes its content if that or the settings have changed. Content that could not be read
 * is not read again before it changes, except in a full pass. Throws a SourceError; the store then keeps what it has.
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
  { full, stateDirectory, clones, failedContents, signal, runAlone }: SyncOptions,
): Promise<SyncResult> {
  const settingsHash = hash('sha256', JSON.stringify([READER_REVISION, source.location, source.filter]), 'base64url')
  const before = await readApplied(database, source.name)
  const applied = before?.settings_hash === settingsHash ? (before.content_hash ?? undefined) : undefined
  const failed = full ? undefined : failedContents.find(source)
  const cursor = full ? undefined : (failed?.cursor ?? applied)

  await using parts = new AsyncDisposableStack()
  const poll = pollers[source.location.kind] as PollSource
  const holdsSkills = (before?.skills ?? 0) > 0
  const { name, maxBytes } = source
  const readHeld = () => countHeld(database, name)
  const pass = { source: name, cursor, holdsSkills, maxBytes, held: readHeld, stateDirectory, clones, signal, parts }
  const readChange = await poll(source.location, pass)
  if (readChange === undefined) {
    if (failed !== undefined) throw failed.error
    return buildResult(before, false)
  }

  const changed = await runAlone(async () => {
    const now = await readApplied(database, source.name)
    // Another replica has just written it.
    if (!full && (now?.content_hash !== before?.content_hash || now?.settings_hash !== before?.settings_hash))
      return false
    using _ = writeSyncMarker(stateDirectory, source)
    const content = await readChange()
    if (!('newCursor' in content)) {
      // A pass over changes tells nothing about the other entries, so their problems stay.
      const before = content.complete ? [] : readProblems(now)
      return await apply(database, source, { settingsHash, content, before, signal })
    }
    if (failed !== undefined) throw addCursor(failed.error, content.newCursor)
    const row = { content_hash: content.newCursor }
    await writeToStore(database.updateTable('source').set(row).where('name', '=', source.name).execute())
    return false
  })
  return buildResult(await readApplied(database, source.name), changed)
}

interface ReadContent {
  readonly settingsHash: string
  readonly content: Content
  /** The problems of earlier passes, which stay. */
  readonly before: readonly Problem[]
  readonly signal: AbortSignal
}

/** Writes the content of a source, batch by batch; true if anything has changed. */
async function apply(
  database: Database,
  { name, filter }: SyncedSource,
  { settingsHash, content, before, signal }: ReadContent,
): Promise<boolean> {
  signal.throwIfAborted()
  const staging = await writeToStore(stageSync(database, name))
  try {
    const wanted = createFilter(filter)
    const problems = [...before]
    const known = new Set(before.map(formatProblem))
    for await (const batch of content.batches) {
      signal.throwIfAborted()
      const versions = await filterInTurns(batch.versions, wanted)
      await writeToStore(staging.add(versions))
      // In a complete pass the reader has seen all names.
      const twins = content.complete ? [] : await writeToStore(findTwins(database, name, versions))
      const added = [...batch.problems, ...twins].filter((problem) => !known.has(formatProblem(problem)))
      for (const problem of added) known.add(formatProblem(problem))
      problems.push(...added.slice(0, MOST_PROBLEMS - problems.length))
    }
    signal.throwIfAborted()
    const { complete } = content
    const now = new Date().toISOString()
    return await writeToStore(
      staging.finish({ settingsHash, cursor: content.cursor(), complete, problems: JSON.stringify(problems), now }),
    )
  } catch (error) {
    await staging.drop().catch(() => {
      // The next pass drops the staged rows first.
    })
    throw error
  }
}

/** Reports new names that differ only by case from one that the source has. */
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
        told.set(`${type} ${name}`, { pointer: `/${type}s`, message: describeTwin(name), served: true })
    }
  })
  return [...told.values()]
}

const formatProblem = ({ pointer, message }: Problem) => `${pointer} ${message}`

/** Filtering may take long, so other work of the thread gets a turn after this time. */
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

async function writeToStore<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw new SourceError('store_failed', `the store can’t write it: ${(error as Error).message}`, { cause: error })
  }
}

async function countHeld(database: Database, source: string) {
  const { rows } = await sql<{ bytes: number; entries: number }>`
    select coalesce(sum(octet_length(d.text)), 0) as bytes, count(*) as entries
    from document d join source s on s.id = d.source_id where s.name = ${source}`.execute(database)
  return rows[0] ?? { bytes: 0, entries: 0 }
}

type Applied = Awaited<ReturnType<typeof readApplied>>

function readApplied(database: Database, source: string) {
  return database
    .selectFrom('source')
    .select(['settings_hash', 'content_hash', 'servers', 'skills', 'problems'])
    .where('name', '=', source)
    .executeTakeFirst()
}

function buildResult(applied: Applied, changed: boolean): SyncResult {
  if (applied === undefined) throw new SourceError('store_failed', 'the source is no longer configured')
  const { servers, skills } = applied
  return { changed, servers, skills, problems: readProblems(applied) }
}

function readProblems(applied: Applied): readonly Problem[] {
  return JSON.parse(applied?.problems ?? '[]') as Problem[]
}

interface FailedContent {
  readonly cursor: string
  readonly error: SourceError
  readonly settings: string
}

const MOST_FAILED = 4096

/** Keeps the last content of each source that could not be read. It is not fetched again before it changes. */
export function createFailedContents() {
  const failed = new Map<string, FailedContent>()
  return {
    find(source: SyncedSource): FailedContent | undefined {
      const found = failed.get(source.name)
      return found?.settings === hashSettings(source) ? found : undefined
    },
    /** Records the end of a sync, with its error if it failed. */
    note(source: SyncedSource, error?: unknown): void {
      // Other errors tell nothing about the content.
      if (error !== undefined && !(error instanceof SourceError && error.cursor !== undefined)) return
      failed.delete(source.name)
      if (error === undefined) return
      const [oldest] = failed.keys()
      if (failed.size >= MOST_FAILED && oldest !== undefined) failed.delete(oldest)
      failed.set(source.name, { cursor: error.cursor as string, error, settings: hashSettings(source) })
    },
  }
}
