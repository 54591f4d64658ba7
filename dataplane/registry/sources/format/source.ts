import type { SourceConfig } from '../../../config/registry.ts'
import type { Catalog } from './catalog-reader.ts'
import type { KeptClones } from './kept-clones.ts'
import type { Problem } from './read-entry.ts'

/** Where a source's entries come from. Paths are absolute; secrets stay in their files. */
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
      /** `HEAD`, or in full: `refs/heads/main`. With `commit`, none. */
      readonly ref?: string
      readonly commit?: string
      readonly path: string
      readonly auth?: { readonly username: string; readonly passwordFile: string }
    } & Reach)
  | {
      readonly kind: 'kubernetes'
      /** API group of the kinds, and prefix of the annotations. */
      readonly group: string
      readonly namespaces: readonly string[]
      readonly server: string
      readonly tokenFile: string
      readonly caFile: string
    }

interface Reach {
  /** Held to public addresses: the source was created by a caller of the API, who may not reach into the network of this server. */
  readonly publicOnly: boolean
}

export type LocationOf<K extends SourceLocation['kind']> = Extract<SourceLocation, { kind: K }>

/** A source that is synced. */
export interface SyncedSource {
  readonly name: string
  readonly location: SourceLocation
  readonly filter?: SourceConfig['filter'] | undefined
  /** Bytes that it may have; one that has more fails, and what it brought before stays. */
  readonly maxBytes: number
}

/** A pass over a source, for the reader of its kind. */
export interface Pass {
  /** Name of the source. */
  readonly source: string
  /**
   * The cursor of the pass before. Undefined where there was none, where the source is read otherwise since, and where
   * everything is to be read again.
   */
  readonly cursor: string | undefined
  /** Whether the store has skills of the source. */
  readonly holdsSkills: boolean
  /** Bytes that the source may have. */
  readonly maxBytes: number
  /** What the store has of the source: bytes of documents, and versions. */
  held(): Promise<{ readonly bytes: number; readonly entries: number }>
  /** A reader may keep files there while it runs. */
  readonly stateDirectory: string
  /** What was fetched of git repositories. */
  readonly clones: KeptClones
  readonly signal: AbortSignal
  /** What a reader opens and what ends with the pass. */
  readonly parts: AsyncDisposableStack
}

/** What a pass has found. */
export interface Content {
  /** Whether the batches are all that the source holds; else they are what has changed. */
  readonly complete: boolean
  /** Asked for once. Memory holds one at a time. */
  readonly batches: AsyncIterable<Catalog> | Iterable<Catalog>
  /** The cursor for the next pass; asked for after the last batch. */
  cursor(): string
}

/** The entries are the same, under another cursor: a commit that leaves our file as it was. */
interface SameContent {
  readonly newCursor: string
}

/** Reads what has changed. Throws a SourceError, from the batches too. */
export type ReadChange = () => Promise<Content | SameContent>

/**
 * Polls a source. Undefined where nothing has changed since the cursor; that must be cheap, and nothing is parsed for
 * it. Throws a SourceError.
 */
export type PollSource<P extends SourceLocation = SourceLocation> = (
  location: P,
  pass: Pass,
) => Promise<ReadChange | undefined>

/** What a sync has come to. */
export interface SyncResult {
  /** Whether there was anything to apply. */
  readonly changed: boolean
  /** Names of either type that the source has. */
  readonly servers: number
  readonly skills: number
  /** What was left out. */
  readonly problems: readonly Problem[]
}

/** How the syncs of a source stand. Times are UTC with milliseconds; null where there is none yet. */
export interface SyncState {
  readonly state: 'waiting' | 'running' | 'ok' | 'failed'
  /** Whether a first attempt has ended. */
  readonly tried: boolean
  readonly lastAttempt: string | null
  readonly lastSuccess: string | null
  readonly nextRun: string | null
  /** Attempts since the last success; 0 after one. */
  readonly attempts: number
  readonly error: { readonly code: string; readonly message: string } | null
  readonly servers: number
  readonly skills: number
  /** How many entries were left out, and the first of them. */
  readonly leftOut: number
  readonly problems: readonly Problem[]
}
