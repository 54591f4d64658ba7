/** The sources of facts: a cluster, or the manifests that run on this machine. */
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'

/** Somebody who looks. Whatever is kept for them is kept under `id`, the digest of their credential. */
export interface Viewer {
  readonly id: string
  readonly name: string
  /** The credential for the cluster's API server; undefined where the place needs none. */
  readonly token?: string | undefined
  /** Namespaces that the viewer has typed, where they can't be listed. */
  readonly namespaces?: readonly string[]
}

/** The objects that a viewer may read. */
export interface World {
  readonly objects: ObjectIndex
  /** Namespaces that were read; empty if all were read at once. */
  readonly namespaces: readonly string[]
  /** Namespaces, or `kind` of all namespaces, that the viewer may not read. */
  readonly notReadable: readonly string[]
  /** Milliseconds since 1970. */
  readonly asOf: number
  /** True if lists were too long to read whole. */
  readonly cut: boolean
  /** The reason why these facts are old ones; undefined if they are fresh. */
  readonly stale?: string
  /** True if nobody knows which namespaces the viewer may read. */
  readonly needsNamespaces?: boolean
}

/** The answer of a pod's `/status`, or why there is none. */
export type Report =
  | { readonly status: Readonly<Record<string, unknown>>; readonly at: number }
  | { readonly missing: string; readonly right?: string }

export interface Places {
  readonly kind: 'cluster' | 'machine'
  /** The name of the cluster, or of the folder. */
  readonly title: string
  /** The API group of our kinds. */
  readonly group: () => string
  /** Returns what the viewer may read; throws a PlaceError if that fails and nothing was read before. */
  world(viewer: Viewer): Promise<World>
  /** Returns the reports of a workload's pods, from a cache of at most ten seconds. Never rejects. */
  reports(viewer: Viewer, workload: KubernetesObject): Promise<readonly Report[]>
  /** Returns the pods' definitions of tools, as `/definitions` has them. Never rejects. */
  definitions(viewer: Viewer, workload: KubernetesObject): Promise<Report>
  /**
   * Returns the pods' counters of tool calls, as `/usage` has them. `query`: what the path takes. `isByPerson`: it tells
   * of people, which takes a right of its own. Never rejects.
   */
  usage(viewer: Viewer, workload: KubernetesObject, query: string, isByPerson: boolean): Promise<readonly Report[]>
  /** Asks a pod `POST /explain`. Throws a PlaceError with the reason. */
  explain(viewer: Viewer, workload: KubernetesObject, question: object): Promise<unknown>
  /** Returns the base URL of the workload's public listener for requests of the console itself. */
  address(viewer: Viewer, workload: KubernetesObject): string | undefined
  /** Returns the URL that clients connect to, as far as it is known. */
  publicUrl(workload: KubernetesObject): string | undefined
  /** Returns the latest lines of the audit logs of the workload's pods, or why there are none. */
  audit(viewer: Viewer, workload: KubernetesObject): Promise<readonly string[] | string>
  /** Returns the file with an object's manifest, where that is known. */
  fileOf(object: KubernetesObject): string | undefined
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
