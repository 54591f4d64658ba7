import type { SourceConfig } from '../../config/registry.ts'
import type { Catalog } from './parse.ts'
import type { Problem } from './read-entry.ts'

/** Where a source's entries come from. Paths are absolute; secrets stay in their files. */
export type Place =
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

export interface Reach {
  /** Held to public addresses: the source was created by a caller of the API, who may not make us look around here. */
  readonly publicOnly: boolean
}

export type PlaceOf<K extends Place['kind']> = Extract<Place, { kind: K }>

/** A source that is synced. */
export interface Source {
  readonly name: string
  readonly place: Place
  readonly filter?: SourceConfig['filter'] | undefined
}

/** A pass over a source, for the reader of its kind. */
export interface Pass {
  /** Name of the source. */
  readonly source: string
  /**
   * What the pass before left behind. Undefined where there was none, where the source is read otherwise since, and where
   * everything is to be read again.
   */
  readonly mark: string | undefined
  /** A reader may keep files there while it runs. */
  readonly stateDirectory: string
  readonly signal: AbortSignal
}

/** What a pass has found; undefined where nothing has changed since the mark. */
export interface Content {
  /** Whether the batches are all that the source holds; else they are what has changed. */
  readonly complete: boolean
  readonly batches: AsyncIterable<Catalog> | Iterable<Catalog>
  /** The mark for the next pass; asked for after the last batch. */
  mark(): string
}

/** Reads a source. Throws a SourceError, from the batches too. */
export type ReadSource<P extends Place = Place> = (place: P, pass: Pass) => Promise<Content | undefined>

/** What a sync has come to. */
export interface Synced {
  /** Whether there was anything to apply. */
  readonly changed: boolean
  /** Names of either type that the source has. */
  readonly servers: number
  readonly skills: number
  /** What was left out. */
  readonly problems: readonly Problem[]
}
