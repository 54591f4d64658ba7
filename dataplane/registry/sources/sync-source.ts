import { hash } from 'node:crypto'
import type { Kysely } from 'kysely'
import { stageSync } from '../store/apply-sync.ts'
import type { RegistryTables } from '../store/schema.ts'
import { createFilter } from './filter.ts'
import { readKubernetes } from './kubernetes/read.ts'
import { readApi } from './read-api.ts'
import type { Problem } from './read-entry.ts'
import { readFile } from './read-file.ts'
import { readGit } from './read-git.ts'
import { readInline } from './read-inline.ts'
import { readUrl } from './read-url.ts'
import type { Place, PlaceOf, ReadSource, Source, Synced } from './source.ts'
import { SourceError } from './source-error.ts'

export interface SyncOptions {
  /** Reads everything again, whatever the last pass left behind. */
  readonly full: boolean
  readonly stateDirectory: string
  readonly signal: AbortSignal
}

/** Goes up when the same bytes would be read differently: they are then read again though they did not change. */
const READER_REVISION = 1

/** Of what was left out so many are kept, to be told. */
const MOST_PROBLEMS = 1000

const readers: { readonly [K in Place['kind']]: ReadSource<PlaceOf<K>> } = {
  file: readFile,
  url: readUrl,
  inline: readInline,
  git: readGit,
  api: readApi,
  kubernetes: readKubernetes,
}

/**
 * Reads a source and applies it to the store. What has not changed since it was applied, under the same settings, is
 * neither parsed nor written. Throws a SourceError; the store then holds what it held.
 */
export async function syncSource(
  database: Kysely<RegistryTables>,
  source: Source,
  { full, stateDirectory, signal }: SyncOptions,
): Promise<Synced> {
  const settingsHash = hash('sha256', JSON.stringify([READER_REVISION, source.place, source.filter]), 'base64url')
  const before = await lastApplied(database, source.name)
  const mark = !full && before?.settings_hash === settingsHash ? (before.content_hash ?? undefined) : undefined

  const read = readers[source.place.kind] as ReadSource
  const content = await read(source.place, { source: source.name, mark, stateDirectory, signal })
  if (content === undefined) return outcome(before, false)

  const staging = await stored(stageSync(database, source.name))
  const wanted = createFilter(source.filter)
  const problems: Problem[] = []
  for await (const batch of content.batches) {
    if (signal.aborted) throw new SourceError('stopped', 'the sync was stopped')
    await stored(staging.add(batch.versions.filter(wanted)))
    problems.push(...batch.problems.slice(0, MOST_PROBLEMS - problems.length))
  }
  if (signal.aborted) throw new SourceError('stopped', 'the sync was stopped')
  await stored(
    staging.finish({
      settingsHash,
      mark: content.mark(),
      complete: content.complete,
      problems: JSON.stringify(problems),
      now: new Date().toISOString(),
    }),
  )
  return outcome(await lastApplied(database, source.name), true)
}

async function stored<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw new SourceError('store_failed', `the store did not take it: ${(error as Error).message}`, { cause: error })
  }
}

/** What the last pass over a source has brought. */
export async function lastOutcome(database: Kysely<RegistryTables>, source: string): Promise<Synced> {
  return outcome(await lastApplied(database, source), false)
}

type Applied = Awaited<ReturnType<typeof lastApplied>>

function lastApplied(database: Kysely<RegistryTables>, source: string) {
  return database
    .selectFrom('source')
    .select(['settings_hash', 'content_hash', 'servers', 'skills', 'problems'])
    .where('name', '=', source)
    .executeTakeFirst()
}

function outcome(applied: Applied, changed: boolean): Synced {
  if (applied === undefined) throw new SourceError('store_failed', 'the source is no longer configured')
  const { servers, skills, problems } = applied
  return { changed, servers, skills, problems: JSON.parse(problems) as Problem[] }
}
