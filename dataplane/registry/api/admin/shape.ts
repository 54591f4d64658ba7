import type { SyncState } from '../../sources/format/source.ts'
import type { EntryRecord, RegistryRecord, SourceRecord } from '../../store/database/records.ts'

/** What the admin API shows of what the store holds. */

export function sourceShape(source: SourceRecord, sync: SyncState | undefined): object {
  const { name, config, claims, origin, createdAt, updatedAt } = source
  return {
    name,
    ...config,
    claims,
    origin,
    createdAt,
    updatedAt,
    ...(sync !== undefined && { sync: syncShape(sync) }),
  }
}

/** A source by itself, with the entries that its syncs left out: how many, and why the first of them. */
export function sourceDetail(source: SourceRecord, sync: SyncState | undefined): object {
  const { leftOut, problems } = sync ?? {}
  return { ...sourceShape(source, sync), ...(sync !== undefined && { leftOut, problems }) }
}

export function syncShape(sync: SyncState): object {
  const { state, lastAttempt, lastSuccess, nextRun, attempts, error, servers, skills } = sync
  return { state, lastAttempt, lastSuccess, nextRun, attempts, error, servers, skills }
}

export function registryShape({ name, sources, claims, origin, createdAt, updatedAt }: RegistryRecord): object {
  return { name, sources, claims, origin, createdAt, updatedAt }
}

export function entryShape({ type, name, claims, versions }: EntryRecord): object {
  return {
    type,
    name,
    claims,
    versions: versions.map(({ version, title, description, createdAt, updatedAt }) => ({
      version,
      ...(title !== null && { title }),
      ...(description !== null && { description }),
      createdAt,
      updatedAt,
    })),
  }
}
