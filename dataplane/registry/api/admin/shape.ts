import type { SyncState } from '../../sources/format/source.ts'
import type { EntryRecord, RegistryRecord, SourceRecord } from '../../store/database/records.ts'

/** The admin API's view of the records in the store. */

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
