import { hash } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { SourceConfig } from '../../config/registry.ts'
import { applySync } from '../store/apply-sync.ts'
import type { RegistryTables } from '../store/schema.ts'
import { createFilter } from './filter.ts'
import { parseCatalog } from './parse.ts'
import type { Problem } from './read-entry.ts'
import { readRegistryFile } from './read-file.ts'
import { SourceError } from './source-error.ts'

/** A source that is a file on this machine. */
export interface FileSource {
  readonly name: string
  /** Absolute. */
  readonly path: string
  readonly filter?: SourceConfig['filter'] | undefined
}

/** What a sync has found. */
export interface Synced {
  /** Whether there was anything to apply. */
  readonly changed: boolean
  /** Names of either type that the source has. */
  readonly servers: number
  readonly skills: number
  /** What was left out. */
  readonly problems: readonly Problem[]
}

/** Goes up when the same bytes would be read differently: they are then read again though they did not change. */
const READER_REVISION = 1

/**
 * Reads a file and applies it to the store. Bytes that were applied before, under the same settings, are neither parsed
 * nor written. Throws a SourceError; the store then holds what it held.
 */
export async function syncFile(database: Kysely<RegistryTables>, source: FileSource): Promise<Synced> {
  const { bytes, contentHash } = await readRegistryFile(source.path)
  const settingsHash = hash('sha256', JSON.stringify([READER_REVISION, source.filter ?? null]), 'base64url')

  const before = await lastApplied(database, source.name)
  if (before?.content_hash === contentHash && before.settings_hash === settingsHash) return outcome(before, false)

  const { versions, problems } = parseCatalog(bytes)
  try {
    await applySync(database, {
      source: source.name,
      settingsHash,
      contentHash,
      versions: versions.filter(createFilter(source.filter)),
      problems: JSON.stringify(problems),
      now: new Date().toISOString(),
    })
    return outcome(await lastApplied(database, source.name), true)
  } catch (error) {
    throw new SourceError('store_failed', `the store did not take it: ${(error as Error).message}`)
  }
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
