import type { SyncedSource } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import { settingsOf } from './sync-markers.ts'

/** Contents that could not be read, the last one of each source: they are not fetched again while they stay. */
export interface FailedContents {
  /** What a source failed with as it is set now; undefined where it did not fail by its content. */
  of(source: SyncedSource): FailedContent | undefined
  /** Notes how a sync ended; `error` is absent where it went well. */
  note(source: SyncedSource, error?: unknown): void
}

export interface FailedContent {
  readonly cursor: string
  readonly error: SourceError
}

/** Sources that are kept, those that failed last. */
const MOST = 4096

export function createFailedContents(): FailedContents {
  const failed = new Map<string, FailedContent & { readonly settings: string }>()
  return {
    of(source) {
      const found = failed.get(source.name)
      return found?.settings === settingsOf(source) ? found : undefined
    },
    note(source, error) {
      // Of a source that can't be reached nothing new is known.
      if (error !== undefined && !(error instanceof SourceError && error.cursor !== undefined)) return
      failed.delete(source.name)
      if (error === undefined) return
      const [oldest] = failed.keys()
      if (failed.size >= MOST && oldest !== undefined) failed.delete(oldest)
      failed.set(source.name, { cursor: error.cursor as string, error, settings: settingsOf(source) })
    },
  }
}
