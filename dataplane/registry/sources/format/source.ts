import { resolve } from 'node:path'
import { parseTimer } from '../../../../crds/settings/duration.ts'
import { API_SERVER } from '../../../../crds/settings/gateway/defaults.ts'
import { SERVICE_ACCOUNT_TOKEN } from '../../../config/check/token-path.ts'
import { API_TIMEOUT, FILE_TIMEOUT, REGISTRY_FILE, type SourceConfig } from '../../../config/registry.ts'
import type { RegistryStatus } from '../../../config/status.ts'
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
  /** True if the source may reach public addresses only, since a caller of the API created it. */
  readonly publicOnly: boolean
}

export type LocationOf<K extends SourceLocation['kind']> = Extract<SourceLocation, { kind: K }>

const API_GROUP = 'portico.dev'
/** The API server in a pod, with the pod's token and the cluster's CA. */
const IN_CLUSTER = {
  url: API_SERVER,
  tokenFile: SERVICE_ACCOUNT_TOKEN,
  caFile: '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt',
}

export interface LocationOptions {
  readonly directory: string
  readonly publicOnly: boolean
}

/** Resolves the location of a source; undefined for a managed one. `directory` is the folder of the configuration. */
export function resolveLocation(
  { git, api, file, kubernetes }: SourceConfig,
  { directory, publicOnly }: LocationOptions,
): SourceLocation | undefined {
  if (git !== undefined) {
    const { repository, branch, tag, commit, path = REGISTRY_FILE, auth } = git
    return {
      kind: 'git',
      repository,
      ...(commit === undefined ? { ref: buildRef(branch, tag) } : { commit }),
      path,
      publicOnly,
      ...(auth && { auth: { ...auth, passwordFile: resolve(directory, auth.passwordFile) } }),
    }
  }
  if (api !== undefined) {
    const { endpoint, timeout = API_TIMEOUT, headersFile, headers } = api
    return {
      kind: 'api',
      endpoint,
      timeoutMs: parseTimer(timeout),
      publicOnly,
      ...(headersFile !== undefined && { headersFile: resolve(directory, headersFile) }),
      ...(headers && {
        headers: headers.map(({ name, valueFile }) => ({ name, valueFile: resolve(directory, valueFile) })),
      }),
    }
  }
  if (file?.path !== undefined) return { kind: 'file', path: resolve(directory, file.path) }
  if (file?.url !== undefined)
    return { kind: 'url', url: file.url, timeoutMs: parseTimer(file.timeout ?? FILE_TIMEOUT), publicOnly }
  if (file?.data !== undefined) return { kind: 'inline', text: file.data }
  if (kubernetes !== undefined) {
    const { apiServer, group = API_GROUP, namespaces } = kubernetes
    const { url, tokenFile, caFile } = apiServer ?? IN_CLUSTER
    return {
      kind: 'kubernetes',
      group,
      namespaces,
      server: url,
      tokenFile: resolve(directory, tokenFile),
      caFile: resolve(directory, caFile),
    }
  }
  return undefined
}

function buildRef(branch: string | undefined, tag: string | undefined): string {
  if (branch !== undefined) return `refs/heads/${branch}`
  return tag === undefined ? 'HEAD' : `refs/tags/${tag}`
}

export interface SyncedSource {
  readonly name: string
  readonly location: SourceLocation
  readonly filter?: SourceConfig['filter'] | undefined
  /** The most bytes that it may have. A larger source fails, and keeps its earlier content. */
  readonly maxBytes: number
}

/** One pass over a source, for its reader. */
export interface Pass {
  readonly source: string
  /** The cursor of the last pass; undefined if there is none, or if everything must be read again. */
  readonly cursor: string | undefined
  /** True if the store has skills of the source. */
  readonly holdsSkills: boolean
  readonly maxBytes: number
  /** Returns what the store has of the source. */
  held(): Promise<{ readonly bytes: number; readonly entries: number }>
  readonly stateDirectory: string
  readonly clones: KeptClones
  readonly signal: AbortSignal
  /** The resources of the reader. They are closed at the end of the pass. */
  readonly parts: AsyncDisposableStack
}

export interface Content {
  /** True if the batches are all that the source has; false if they are the changes since the cursor. */
  readonly complete: boolean
  /** The batches. They can be read once, and memory holds one at a time. */
  readonly batches: AsyncIterable<Catalog> | Iterable<Catalog>
  /** Returns the cursor for the next pass, once all batches have been read. */
  cursor(): string
}

/** The same entries under a new cursor, such as those of a commit that did not change the file. */
interface SameContent {
  readonly newCursor: string
}

/** Reads the content. Throws a SourceError, also from the batches. */
export type ReadChange = () => Promise<Content | SameContent>

/** Polls a source. Returns undefined, cheaply, if nothing has changed since the cursor. Throws a SourceError. */
export type PollSource<P extends SourceLocation = SourceLocation> = (
  location: P,
  pass: Pass,
) => Promise<ReadChange | undefined>

export interface SyncResult {
  /** True if the pass has changed the store. */
  readonly changed: boolean
  readonly servers: number
  readonly skills: number
  /** The entries that were left out or are odd. */
  readonly problems: readonly Problem[]
}

/** The state of a source's syncs. Times are in UTC with milliseconds, and null before the first. */
export interface SyncState extends Omit<RegistryStatus['sources'][number], 'name'> {
  /** The attempts since the last success; 0 after one. */
  readonly attempts: number
  readonly problems: readonly Problem[]
}
