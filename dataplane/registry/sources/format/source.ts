import type { SourceConfig } from '../../../config/registry.ts'
import type { Catalog } from './catalog-reader.ts'
import type { KeptClones } from './kept-clones.ts'
import type { Problem } from './read-entry.ts'

export type SourceLocation =
  | { readonly kind: 'file'; readonly path: string }
  | ({ readonly kind: 'url'; readonly url: string; readonly timeoutMs: number } & Reach)
  | { readonly kind: 'inline'; readonly text: string }
  | ({
      readonly kind: 'api'
      readonly endpoint: string
      readonly timeoutMs: number
      readonly headersFile?: string
      readonly headers?: readonly { readonly name: string; readonly valueFile: string }[]
    } & Reach)
  | ({
      readonly kind: 'git'
      readonly repository: string
      /** `HEAD`, or a full name: `refs/heads/main`. Absent with `commit`. */
      readonly ref?: string
      readonly commit?: string
      readonly path: string
      readonly auth?: { readonly username: string; readonly passwordFile: string }
    } & Reach)
  | {
      readonly kind: 'kubernetes'
      /** The API group of the kinds, and the prefix of the annotations. */
      readonly group: string
      readonly namespaces: readonly string[]
      readonly server: string
      readonly tokenFile: string
      readonly caFile: string
    }

interface Reach {
  /** Restricts the source to public addresses, since a caller of the API created it. */
  readonly publicOnly: boolean
}

export type LocationOf<K extends SourceLocation['kind']> = Extract<SourceLocation, { kind: K }>

export interface SyncedSource {
  readonly name: string
  readonly location: SourceLocation
  readonly filter?: SourceConfig['filter'] | undefined
  /** The most bytes that it may have. A larger source fails, and its earlier content stays. */
  readonly maxBytes: number
}

export interface Pass {
  readonly source: string
  /** The cursor of the last pass. Undefined if there is none, or if everything is to be read again. */
  readonly cursor: string | undefined
  /** True if the store has skills of the source. */
  readonly holdsSkills: boolean
  readonly maxBytes: number
  held(): Promise<{ readonly bytes: number; readonly entries: number }>
  /** A folder where a reader may keep files while it runs. */
  readonly stateDirectory: string
  readonly clones: KeptClones
  readonly signal: AbortSignal
  /** The resources that a reader opens. They are closed at the end of the pass. */
  readonly parts: AsyncDisposableStack
}

export interface Content {
  /** True if the batches are all that the source holds. Otherwise they are the changes. */
  readonly complete: boolean
  /** The batches, read once. Memory holds one at a time. */
  readonly batches: AsyncIterable<Catalog> | Iterable<Catalog>
  /** Returns the cursor for the next pass. It is called after the last batch. */
  cursor(): string
}

/** Unchanged entries under another cursor: a commit that leaves our file as it was. */
interface SameContent {
  readonly newCursor: string
}

/** Reads the changes. It throws a SourceError, and so may the batches. */
export type ReadChange = () => Promise<Content | SameContent>

/** Polls a source. Undefined if nothing has changed since the cursor, which must be cheap. Throws a SourceError. */
export type PollSource<P extends SourceLocation = SourceLocation> = (
  location: P,
  pass: Pass,
) => Promise<ReadChange | undefined>

export interface SyncResult {
  /** True if there was anything to apply. */
  readonly changed: boolean
  readonly servers: number
  readonly skills: number
  /** The entries that were left out. */
  readonly problems: readonly Problem[]
}

/** The state of a source's syncs. Times are UTC with milliseconds; null if there is none yet. */
export interface SyncState {
  readonly state: 'waiting' | 'running' | 'ok' | 'failed'
  /** True once a first attempt has ended. */
  readonly tried: boolean
  readonly lastAttempt: string | null
  readonly lastSuccess: string | null
  readonly nextRun: string | null
  /** The attempts since the last success; 0 after one. */
  readonly attempts: number
  readonly error: { readonly code: string; readonly message: string } | null
  readonly servers: number
  readonly skills: number
  /** The number of entries that were left out, and the first of them. */
  readonly leftOut: number
  readonly problems: readonly Problem[]
}
