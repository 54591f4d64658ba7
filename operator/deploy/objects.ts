import type { KindDeclaration } from '../../crds/define.ts'
import { childKinds } from '../cluster/kubernetes/resource.ts'
import { OPERATOR_LEASE_ROLE, OPERATOR_NAME, OPERATOR_REVISIONS } from '../render/network/network.ts'
import type { PolicyRule } from '../render/rights.ts'

const READ = ['get', 'list', 'watch']

function byGroup(resources: readonly { group: string; plural: string }[]): [string, string[]][] {
  const groups = new Map<string, string[]>()
  for (const { group, plural } of resources) groups.set(group, [...(groups.get(group) ?? []), plural])
  return [...groups]
}

/**
 * Returns the operator's rights in the namespaces that it manages, without wildcard, `escalate` and `bind`: to give a
 * pod a Role, the operator must hold the same rights, which are the last rules.
 */
function buildOperatorRules(kinds: readonly KindDeclaration[], group: string): PolicyRule[] {
  const plurals = kinds.map(({ plural }) => plural)
  return [
    // `patch` sets our finalizer by server-side apply.
    { apiGroups: [group], resources: plurals, verbs: [...READ, 'patch'] },
    { apiGroups: [group], resources: plurals.map((plural) => `${plural}/status`), verbs: ['patch'] },
    // The admission plugin OwnerReferencesPermissionEnforcement requires this for owner references.
    { apiGroups: [group], resources: plurals.map((plural) => `${plural}/finalizers`), verbs: ['update'] },
    ...byGroup(childKinds).map(([apiGroup, resources]) => ({
      apiGroups: [apiGroup],
      resources,
      verbs: [...READ, 'create', 'patch', 'delete'],
    })),
    // Secrets are watched by metadata. Only a referenced one is read, for the presence of its keys.
    { apiGroups: [''], resources: ['secrets'], verbs: READ },
    // `patch` sets the annotation that makes the kubelet update a mounted configuration.
    { apiGroups: [''], resources: ['pods'], verbs: [...READ, 'patch'] },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] },
    // Only Events say why the pod of a StatefulSet is refused.
    { apiGroups: [''], resources: ['events'], verbs: ['list'] },
    // Tells whether a namespace is being deleted. In a Role this covers its own namespace only.
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get'] },
    // Passed on to the sidecar of a stdio server.
    { apiGroups: [''], resources: ['pods/attach'], verbs: ['create', 'get'] },
  ]
}

/** Lets an operator for all namespaces watch by metadata which of them are being deleted. */
const namespacesRule: PolicyRule = { apiGroups: [''], resources: ['namespaces'], verbs: ['list', 'watch'] }

/**
 * Returns the operator's rights on its own ClusterRole and ClusterRoleBinding, which it keeps until it has released
 * what it holds. It can't extend its rights, but can give them to others.
 */
const buildOwnRightsRule = (name: string): PolicyRule => ({
  apiGroups: ['rbac.authorization.k8s.io'],
  resources: ['clusterroles', 'clusterrolebindings'],
  resourceNames: [name],
  verbs: ['get', 'patch'],
})

/**
 * Returns the operator's rights in its own namespace: leader election, reading its own image and whether it is being
 * removed, keeping its rights until then.
 */
const leaseRules: readonly PolicyRule[] = [
  { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update'] },
  { apiGroups: [''], resources: ['namespaces', 'pods'], verbs: ['get'] },
  { apiGroups: ['apps'], resources: ['deployments'], verbs: ['get'] },
  { apiGroups: [''], resources: ['secrets'], resourceNames: [OPERATOR_REVISIONS], verbs: ['get', 'patch'] },
  { apiGroups: [''], resources: ['serviceaccounts'], resourceNames: [OPERATOR_NAME], verbs: ['get', 'patch'] },
  {
    apiGroups: ['rbac.authorization.k8s.io'],
    resources: ['roles', 'rolebindings'],
    resourceNames: [OPERATOR_LEASE_ROLE],
    verbs: ['get', 'patch'],
  },
]

const NAME = OPERATOR_NAME
const RBAC = 'rbac.authorization.k8s.io'

export interface Installation {
  readonly group: string
  /** The name of the Lease, and of roles and bindings; see `operatorName`. */
  readonly name: string
  readonly namespace: string
  readonly image: string
  readonly replicas: number | string
  readonly args: readonly string[]
  readonly resources: object | string
  readonly runAsUser: object
  readonly more?: Readonly<Record<'account' | 'podMetadata' | 'podLabels' | 'pod' | 'container', object>> & {
    readonly env: readonly (object | string)[]
    readonly ports: readonly (object | string)[]
  }
}

export const labels = { 'app.kubernetes.io/name': NAME, 'app.kubernetes.io/part-of': 'portico' }
export const metadata = (name: string, namespace?: string) => ({
  name,
  ...(namespace !== undefined && { namespace }),
  labels,
})

export const DEFAULT_RESOURCES = { limits: { memory: '512Mi' }, requests: { cpu: '50m', memory: '192Mi' } }
export const DEFAULT_USER = 65_532
export const DEFAULT_REPLICAS = 2
/** The security context of our containers, as the restricted Pod Security Standard wants it. */
export const RESTRICTED = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  readOnlyRootFilesystem: true,
}

const buildBinding = (kind: string, name: string, installation: Installation, namespace?: string) => ({
  apiVersion: `${RBAC}/v1`,
  kind: `${kind}Binding`,
  metadata: metadata(name, namespace),
  roleRef: { apiGroup: RBAC, kind, name },
  subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: installation.namespace }],
})

export const buildRole = (
  name: string,
  rules: readonly PolicyRule[],
  installation: Installation,
  namespace: string,
) => [
  { apiVersion: `${RBAC}/v1`, kind: 'Role', metadata: metadata(name, namespace), rules },
  buildBinding('Role', name, installation, namespace),
]

export const buildClusterRole = (name: string, rules: readonly PolicyRule[], installation: Installation) => [
  { apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata: metadata(name), rules },
  buildBinding('ClusterRole', name, installation),
]

export const buildNamespace = (name: string) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: metadata(name) })

export const buildServiceAccount = ({ namespace, more }: Installation) => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { ...metadata(NAME, namespace), ...more?.account },
})

export const buildClusterRights = (kinds: readonly KindDeclaration[], installation: Installation) =>
  buildClusterRole(
    installation.name,
    [...buildOperatorRules(kinds, installation.group), namespacesRule, buildOwnRightsRule(installation.name)],
    installation,
  )

export const buildNamespaceRights = (
  kinds: readonly KindDeclaration[],
  installation: Installation,
  namespace: string,
) => buildRole(installation.name, buildOperatorRules(kinds, installation.group), installation, namespace)

/** Returns the operator's rights in its own namespace, and its Secret, which it fills itself. */
export const buildLeaseRights = (installation: Installation) => [
  { apiVersion: 'v1', kind: 'Secret', metadata: metadata(OPERATOR_REVISIONS, installation.namespace), type: 'Opaque' },
  ...buildRole(OPERATOR_LEASE_ROLE, leaseRules, installation, installation.namespace),
]

/** Makes a probe. On a busy node an answer may take longer than Kubernetes' default of one second. */
const probe = (path: string, periodSeconds: number) => ({
  httpGet: { path, port: 'health' },
  periodSeconds,
  timeoutSeconds: 5,
})
const buildFieldVariable = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } })

/** Returns a Deployment of replicas, one of which leads, under the restricted Pod Security Standard. */
export function buildDeployment({ group, namespace, image, replicas, args, resources, runAsUser, more }: Installation) {
  const container = {
    name: 'operator',
    image,
    ...more?.container,
    args: ['operator', '--leader-elect', '--api-group', group, ...args],
    env: [
      buildFieldVariable('POD_NAMESPACE', 'metadata.namespace'),
      buildFieldVariable('POD_NAME', 'metadata.name'),
      ...(more ? more.env : []),
    ],
    ports: [
      { name: 'health', containerPort: 8081, protocol: 'TCP' },
      { name: 'metrics', containerPort: 8080, protocol: 'TCP' },
      ...(more ? more.ports : []),
    ],
    livenessProbe: probe('/healthz', 10),
    readinessProbe: probe('/readyz', 5),
    resources,
    securityContext: RESTRICTED,
  }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadata(NAME, namespace),
    spec: {
      replicas,
      selector: { matchLabels: { 'app.kubernetes.io/name': NAME } },
      template: {
        metadata: { ...more?.podMetadata, labels: { ...labels, ...more?.podLabels } },
        spec: {
          serviceAccountName: NAME,
          terminationGracePeriodSeconds: 20,
          ...more?.pod,
          securityContext: { runAsNonRoot: true, ...runAsUser, seccompProfile: { type: 'RuntimeDefault' } },
          containers: [container],
        },
      },
    },
  }
}
