/**
 * Kubernetes objects as tests read them: the fields of all kinds in one type. No field is optional and lists have a first
 * item, so that a test that reads a missing one fails.
 */

type NonEmpty<T> = [T, ...T[]]
type Texts = Record<string, string>

export interface LiveMetadata {
  name: string
  namespace: string
  uid: string
  generation: number
  resourceVersion: string
  creationTimestamp: string
  deletionTimestamp: string
  labels: Texts
  annotations: Texts
  finalizers: string[]
  ownerReferences: NonEmpty<{ kind: string; name: string; uid: string; controller: boolean }>
}

/** An item of a status's `conditions`. */
export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

export interface LiveContainer {
  name: string
  image: string
  imagePullPolicy: string
  args: string[]
  env: { name: string; value: string }[]
  ports: NonEmpty<{ name: string; containerPort: number; protocol: string }>
  resources: { limits: Texts; requests: Texts }
  securityContext: { runAsUser: number; allowPrivilegeEscalation: boolean }
  volumeMounts: { name: string; mountPath: string }[]
}

export interface LiveVolume {
  name: string
  emptyDir: object
  configMap: { name: string; optional: boolean }
  secret: { secretName: string }
}

export interface LivePodTemplate {
  metadata: LiveMetadata
  spec: {
    [field: string]: unknown
    containers: NonEmpty<LiveContainer>
    initContainers: NonEmpty<LiveContainer>
    volumes: LiveVolume[]
    imagePullSecrets: { name: string }[]
    securityContext: object
  }
}

interface Peer {
  namespaceSelector: { matchLabels: Texts }
}

export interface LiveSpec {
  [field: string]: unknown
  replicas: number
  template: LivePodTemplate
  ports: NonEmpty<{ name: string; port: number; targetPort: string }>
  policyTypes: string[]
  podSelector: { matchLabels: Texts }
  ingress: { from: Peer[]; ports: object[] }[]
  egress: unknown
  selector: { matchLabels: Texts }
  strategy: { type: string }
  /** Fields of an HTTPRoute. */
  parentRefs: NonEmpty<{ namespace: string }>
  rules: NonEmpty<{ backendRefs: NonEmpty<{ name: string }> }>
  /** Fields of a CustomResourceDefinition. */
  versions: NonEmpty<{ name: string; schema: object }>
  /** Fields of our kinds. */
  authzConfig: { inline: { policies: string[] } }
}

interface Named {
  kind: string
  name: string
}

export interface LiveStatus {
  [field: string]: unknown
  phase: string
  message: string
  observedGeneration: number
  availableReplicas: number
  conditions: Condition[]
  configHash: string
  configHashTime: string
  referencingWorkloads: Named[]
  servers: string[]
  remoteProxies: string[]
  url: string
  discoveredBackends: NonEmpty<LiveBackend>
  sources: NonEmpty<LiveSource>
}

interface LiveBackend {
  name: string
  status: string
  message: string
  mcpRevision: string
  authConfigRef: unknown
  authType: unknown
}

interface LiveSource {
  name: string
  state: string
  servers: number
  skills: number
  leftOut: number
  lastTransitionTime: string
  error: { code: string }
}

export interface LiveObject {
  [field: string]: unknown
  apiVersion: string
  kind: string
  metadata: LiveMetadata
  spec: LiveSpec
  status: LiveStatus
  data: Texts
  /** Fields of a Role. */
  rules: NonEmpty<{ apiGroups: NonEmpty<string>; resources: string[]; verbs: string[]; resourceNames: string[] }>
  /** Fields of a binding. */
  subjects: NonEmpty<Named & { namespace: string }>
  /** Fields of a ValidatingWebhookConfiguration. */
  webhooks: NonEmpty<LiveWebhook>
  /** Fields of an Event: `regarding` in `events.k8s.io`, `involvedObject` in the core group. */
  type: string
  reason: string
  regarding?: Named
  involvedObject?: Named
  reportingController: string
  reportingComponent: string
}

interface LiveWebhook {
  name: string
  failurePolicy: string
  clientConfig: { service: { namespace: string; path: string; port: number }; caBundle: string }
  namespaceSelector: { matchExpressions: NonEmpty<{ values: string[] }> }
  objectSelector: { matchExpressions: NonEmpty<object> }
  rules: NonEmpty<{ apiGroups: string[] }>
}
