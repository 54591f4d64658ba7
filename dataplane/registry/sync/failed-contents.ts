import type { SyncedSource } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import { hashSettings } from './sync-markers.ts'

/** The last unreadable content of each source. It is not fetched again while it stays. */
export interface FailedContents {
  of(source: SyncedSource): FailedContent | undefined
  /** Records the end of a sync; `error` is absent if it succeeded. */
  note(source: SyncedSource, error?: unknown): void
}

export interface FailedContent {
  readonly cursor: string
  readonly error: SourceError
}

const MOST = 4096

export function createFailedContents(): FailedContents {
  const failed = new Map<string, FailedContent & { readonly settings: string }>()
  return {
    of(source) {
      const found = failed.get(source.name)
      return found?.settings === hashSettings(source) ? found : undefined
    },
    note(source, error) {
      // A source that can't be reached tells nothing new about its content.
      if (error !== undefined && !(error instanceof SourceError && error.cursor !== undefined)) return
      failed.delete(source.name)
      if (error === undefined) return
      const [oldest] = failed.keys()
      if (failed.size >= MOST && oldest !== undefined) failed.delete(oldest)
      failed.set(source.name, { cursor: error.cursor as string, error, settings: hashSettings(source) })
    },
  }
}
