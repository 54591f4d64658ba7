/** The sources of facts: a cluster, or the manifests that run on this machine. */
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import type { ObjectId } from './object-id.ts'

/** A viewer. Everything that is stored for a viewer is stored under `id`, the digest of the credential. */
export interface Viewer {
  readonly id: string
  readonly name: string
  /** The credential for the cluster's API server; undefined where the place needs none. */
  readonly token?: string | undefined
  /** The namespaces that the viewer has entered, if the console can't list them. */
  readonly namespaces?: readonly string[]
}

/** The objects that a viewer may read. */
export interface World {
  readonly objects: ObjectIndex
  /** The namespaces that were read; empty if all namespaces were read at once. */
  readonly namespaces: readonly string[]
  /** The namespaces that the viewer may not read, or the kinds that the viewer may not read in any namespace. */
  readonly notReadable: readonly string[]
  /** Milliseconds since 1970. */
  readonly asOf: number
  /** True if lists were too long to read completely. */
  readonly cut: boolean
  /** The reason why these facts are not current; undefined if they are. */
  readonly stale?: string
  /** True if the console can't find out which namespaces the viewer may read. */
  readonly needsNamespaces?: boolean
}

/** The answer of a pod's `/status`, or the reason why there is none. */
export type Report =
  | { readonly status: Readonly<Record<string, unknown>> }
  | { readonly missing: string; readonly right?: string }

/**
 * Something that is wrong with a file of manifests. Where it is not known which object it is about, the kind is `File`
 * and the name is the file's path.
 */
export interface FileProblem extends ObjectId {
  readonly reason: string
  /** Names the file and the line. */
  readonly message: string
  readonly severity: 'error' | 'warning' | 'note'
}

export interface Places {
  readonly kind: 'cluster' | 'machine'
  /** The name of the cluster, or of the folder. */
  readonly title: string
  /** Returns the objects that the viewer may read. Throws a PlaceError if that fails and nothing was read before. */
  world(viewer: Viewer): Promise<World>
  /** Returns what the viewer has read before, marked as old; undefined if nothing was. */
  lastWorld(viewer: Viewer): World | undefined
  /** Returns the reports of a workload's pods, at most ten seconds old. It never rejects. */
  reports(viewer: Viewer, workload: KubernetesObject): Promise<readonly Report[]>
  /** Returns the pods' definitions of tools, as in `/definitions`. It never rejects. */
  definitions(viewer: Viewer, workload: KubernetesObject): Promise<Report>
  /**
   * Returns the pods' counters of tool calls, as in `/usage`. `query`: the query of that path. `isByPerson`: the
   * counters name people, which requires a separate right. It never rejects.
   */
  usage(viewer: Viewer, workload: KubernetesObject, query: string, isByPerson: boolean): Promise<readonly Report[]>
  /** Returns the right that a viewer lacks for `explain`, as a `kubectl auth can-i` line. It never rejects. */
  missingExplainRight(viewer: Viewer, workload: KubernetesObject): Promise<string | undefined>
  /** Asks a pod `POST /explain`. Throws a PlaceError with the reason. */
  explain(viewer: Viewer, workload: KubernetesObject, question: object): Promise<unknown>
  /** Returns the base URL of the workload's public listener, for requests by the console itself. */
  address(viewer: Viewer, workload: KubernetesObject): string | undefined
  /** Returns the URL that clients connect to, if it is known. */
  publicUrl(workload: KubernetesObject): string | undefined
  /** Returns the latest lines of the audit logs of the workload's pods, or the reason why there are none. */
  audit(viewer: Viewer, workload: KubernetesObject): Promise<readonly string[] | string>
  /** Returns the file that contains an object's manifest, if it is known. */
  fileOf(object: KubernetesObject): string | undefined
  /** Returns what is wrong with the files of the manifests; a cluster has none. */
  fileProblems(): readonly FileProblem[]
  close(): Promise<void>
}

/** A failure to read a place, with the text for the viewer. */
export class PlaceError extends Error {
  override readonly name = 'PlaceError'
  readonly kind: 'refused' | 'forbidden' | 'away'
  /** Seconds. */
  readonly retryAfter: number | undefined

  constructor(kind: PlaceError['kind'], message: string, retryAfter?: number) {
    super(message)
    this.kind = kind
    this.retryAfter = retryAfter
  }
}
