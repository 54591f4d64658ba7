import type { KindDeclaration, ObjectMeta, ObjectOf } from '../../crds/define.ts'

/** Any Kubernetes object, as read from YAML or the API. */
export interface KubernetesObject {
  apiVersion: string
  kind: string
  metadata: Omit<ObjectMeta, 'namespace'> & { namespace?: string; ownerReferences?: OwnerReference[] }
  [field: string]: unknown
}

export interface OwnerReference {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export interface ObjectName {
  readonly kind: string
  readonly name: string
}

/** What the operator knows of a Secret: that it is there and which keys it has, never a value. */
export interface SecretPresence {
  /** By key, what changes whenever the value does, and tells nobody the value. */
  readonly keys: ReadonlyMap<string, string>
}

export interface ConfigMapContent {
  readonly data: Readonly<Record<string, string>>
}

/** What is known of a running workload: the live Deployment or StatefulSet and what the pods say on `/status`. */
export interface WorkloadObservation {
  /** Pods that should be there and pods that are ready, of whatever revision. */
  readonly replicas: number
  readonly readyReplicas: number
  /** What is still to come of the newest revision, as `kubectl rollout status` sees it; absent once it is rolled out. */
  readonly rollout?: string
  /** Why it isn't ready, where that is known: an image that can't be pulled, a crash, a taken port. */
  readonly reason?: string
  readonly message?: string
  /** Tools of one name in several backends that somebody has to tell apart, as the gateway's pods say; sorted. */
  readonly clashes?: readonly string[]
  /** How a gateway's backends are, as its pods say; by name. Absent until they have said it. */
  readonly backends?: readonly BackendObservation[]
  /** Why audit logs are not written, as the pods say; sorted. */
  readonly auditLog?: readonly string[]
  /** Its pods have told this operator of themselves: what they do not tell of is not so. */
  readonly reported?: true
  /** Entries of backends' lists that are left out, as the pods say; sorted. */
  readonly entries?: readonly string[]
  /** Why ready pods can't be asked for their status; absent while they can. */
  readonly unanswered?: string
  /** What Gateways say of its HTTPRoute; absent while there is none. */
  readonly route?: RouteObservation
}

/** How a backend of a gateway is: no times, only what holds until something changes. */
export interface BackendObservation {
  readonly name: string
  readonly status: 'ready' | 'degraded' | 'unavailable' | 'unauthenticated' | 'unknown'
  /** Revision of MCP that it speaks, once that is known. */
  readonly mcpRevision?: string
  readonly circuitBreakerState?: 'closed' | 'open' | 'half-open'
  /** What it has failed with last, while it isn't well. */
  readonly message?: string
}

/** How an HTTPRoute stands with the Gateways that it names. */
export interface RouteObservation {
  readonly gateways: number
  /** Gateways that carry it. */
  readonly accepted: number
  /** Why others don't. */
  readonly refusals: readonly string[]
}

/** How a source of a registry stands, as its pods say: no times, only what holds until something changes. */
export interface SourceObservation {
  readonly name: string
  readonly state: 'Waiting' | 'Synced' | 'Failed'
  readonly servers: number
  readonly skills: number
  /** Entries that were left out because they are not usable. */
  readonly leftOut: number
  readonly error?: { readonly code: string; readonly message: string }
}

/**
 * The world as one reconcile sees it: read-only, of one moment, indexed in both directions.
 * References never leave a namespace.
 */
export interface ClusterView {
  get<K extends KindDeclaration>(kind: K, namespace: string, name: string): ObjectOf<K> | undefined
  /** All objects of a kind in a namespace, by name. */
  list<K extends KindDeclaration>(kind: K, namespace: string): readonly ObjectOf<K>[]
  /** Who names this object, of all kinds, sorted by kind, then name; objects under deletion count until they are gone. */
  referrers(kind: KindDeclaration, namespace: string, name: string): readonly ObjectName[]
  secret(namespace: string, name: string): SecretPresence | undefined
  configMap(namespace: string, name: string): ConfigMapContent | undefined
  /** Whether an object of this name is known, and left out because it is itself wrong; only files tell that. */
  isWrong?(kind: string, namespace: string, name: string): boolean
  /** Absent offline and before the workload's first start. */
  observe(kind: string, namespace: string, name: string): WorkloadObservation | undefined
  /** The sources of an MCPRegistry, by name; absent offline and until its pods have reported. */
  sources(namespace: string, name: string): readonly SourceObservation[] | undefined
}

/** A view that can also be walked from end to end; what one reconcile sees must not depend on that. */
export interface WholeView extends ClusterView {
  /** Every object there is, by namespace, kind and name. */
  all(): readonly KubernetesObject[]
}
