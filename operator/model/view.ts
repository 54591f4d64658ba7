import type { KindDeclaration, ObjectMeta, ObjectOf } from '../../crds/define.ts'

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

/** The operator's knowledge of a Secret: its existence and its keys, never a value. */
export interface SecretPresence {
  /** By key, a revision that changes with the value and does not reveal it. */
  readonly keys: ReadonlyMap<string, string>
}

export interface ConfigMapContent {
  readonly data: Readonly<Record<string, string>>
}

/** The observation of a running workload: the live Deployment or StatefulSet and the pods' `/status`. */
export interface WorkloadObservation {
  /** The desired number of pods and the number of ready pods, of any revision. */
  readonly replicas: number
  readonly readyReplicas: number
  /** The pending part of the newest revision's roll-out, as in `kubectl rollout status`; absent once it is complete. */
  readonly rollout?: string
  /** The reason why it isn't ready, if known: an image that can't be pulled, a crash, a taken port. */
  readonly reason?: string
  readonly message?: string
  /** Tools of one name in several backends that need a filter or override, as the gateway's pods report; sorted. */
  readonly clashes?: readonly string[]
  /** The state of a gateway's backends, as its pods report; by name. Absent until they have reported. */
  readonly backends?: readonly BackendObservation[]
  /** The reasons why audit logs are not written, as the pods report; sorted. */
  readonly auditLog?: readonly string[]
  /** Present once its pods have reported to this operator: then a problem that they don't report doesn't exist. */
  readonly reported?: true
  /** Entries of backends' lists that are left out, as the pods report; sorted. */
  readonly entries?: readonly string[]
  /** Trusted issuers whose keys can't be fetched, and those whose metadata name another issuer, as the pods report; sorted. */
  readonly issuerKeys?: readonly string[]
  readonly issuerNames?: readonly string[]
  /** The state of the definitions of pinned backends, as the pods report; by name. */
  readonly definitions?: readonly DefinitionsObservation[]
  /** The state of a gateway's catalog gate, as its pods report. */
  readonly gate?: GateObservation
  /** The reason why ready pods can't be asked for their status; absent while they can. */
  readonly unanswered?: string
  /** The state of its HTTPRoute, as Gateways report; absent while there is none. */
  readonly route?: RouteObservation
}

/** The state of a catalog gate, without times. `reason` is that of the condition CatalogGate. */
export interface GateObservation {
  readonly reason: 'AllApproved' | 'Reported' | 'MembersWithheld' | 'CatalogUnavailable' | 'CatalogStale'
  readonly message: string
}

/** The state of a gateway's backend, without times: only what holds until something changes. */
export interface BackendObservation {
  readonly name: string
  readonly status: 'ready' | 'degraded' | 'unavailable' | 'unauthenticated' | 'unknown'
  /** The revision of MCP that it speaks, once known. */
  readonly mcpRevision?: string
  readonly circuitBreakerState?: 'closed' | 'open' | 'half-open'
  /** Its last failure, while it is not healthy. */
  readonly message?: string
}

/**
 * The state of a backend's definitions beside its pins. It holds no text and no digest of a definition, which a backend
 * may change at any moment.
 */
export interface DefinitionsObservation {
  readonly name: string
  readonly approved: number
  readonly withheld: number
  /** The number of definitions that differ and are served nevertheless. */
  readonly reported: number
  /** The number of approved definitions that the backend does not show. */
  readonly missing: number
  /** The first of what is withheld or reported: its kind and its name, quoted, in ASCII. */
  readonly names: readonly string[]
}

/** The state of an HTTPRoute at the Gateways that it names. */
export interface RouteObservation {
  readonly gateways: number
  readonly accepted: number
  readonly refusals: readonly string[]
}

/** The state of a registry's source, as its pods report, without times: only what holds until something changes. */
export interface SourceObservation {
  readonly name: string
  readonly state: 'Waiting' | 'Synced' | 'Failed'
  readonly servers: number
  readonly skills: number
  /** The number of entries that were left out because they are unusable. */
  readonly leftOut: number
  readonly error?: { readonly code: string; readonly message: string }
}

/** The world as one reconcile sees it: read-only, at one moment. References never leave a namespace. */
export interface ClusterView {
  get<K extends KindDeclaration>(kind: K, namespace: string, name: string): ObjectOf<K> | undefined
  list<K extends KindDeclaration>(kind: K, namespace: string): readonly ObjectOf<K>[]
  /** Returns what names this object, sorted by kind, then name. Objects under deletion count until they are gone. */
  referrers(kind: KindDeclaration, namespace: string, name: string): readonly ObjectName[]
  secret(namespace: string, name: string): SecretPresence | undefined
  configMap(namespace: string, name: string): ConfigMapContent | undefined
  /** Tells whether an object of this name exists but was left out because it is invalid. Only files report that. */
  isWrong?(kind: string, namespace: string, name: string): boolean
  /** Absent offline and before the workload's first start. */
  observe(kind: string, namespace: string, name: string): WorkloadObservation | undefined
  /** Returns the sources of an MCPRegistry, by name; absent offline and until its pods have reported. */
  sources(namespace: string, name: string): readonly SourceObservation[] | undefined
}

/** A view that can also list everything. A reconcile must not depend on that. */
export interface WholeView extends ClusterView {
  all(): readonly KubernetesObject[]
}
