/** The optional console in a pod: it holds no right and no token of its own, and shows what each viewer may read. */
import type { KindDeclaration } from '../../crds/define.ts'
import type { PolicyRule } from '../render/rights.ts'
import { type Installation, labels, RESTRICTED } from './objects.ts'

export const CONSOLE_NAME = 'portico-console'
export const VIEWER_ROLE = 'portico-viewer'
export const USAGE_VIEWER_ROLE = 'portico-usage-viewer'

export const CONSOLE_RESOURCES = { limits: { memory: '512Mi' }, requests: { cpu: '20m', memory: '128Mi' } }
export const CONSOLE_CONFIG = { login: { token: {} }, publicUrl: 'http://127.0.0.1:4480' }

const PORT = 4480
const FOLDER = '/etc/portico'

const selector = { 'app.kubernetes.io/name': CONSOLE_NAME }
export const consoleLabels = { ...labels, ...selector }
const metadata = (name: string, namespace: string) => ({ name, namespace, labels: consoleLabels })

/** The peer of `--admin-from` for the console's pods; the kubelet puts in the operator's own namespace. */
export const CONSOLE_PEER = `$(POD_NAMESPACE)/app.kubernetes.io/name=${CONSOLE_NAME}`

interface ConsolePod extends Pick<Installation, 'namespace' | 'image' | 'replicas' | 'resources' | 'runAsUser'> {
  readonly secretName: string
  readonly more?: Readonly<Record<'podMetadata' | 'pod' | 'container', object>>
}

/** Returns the ConfigMap with the console's configuration file. */
export const buildConsoleConfigMap = (namespace: string, text: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: metadata(CONSOLE_NAME, namespace),
  data: { 'console.yaml': text },
})

const probe = (path: string) => ({ httpGet: { path, port: PORT }, periodSeconds: 10, timeoutSeconds: 5 })

/** Returns ServiceAccount, Deployment, Service and NetworkPolicy. The account has no Role, and the pod no token. */
export function buildConsoleObjects(pod: ConsolePod): readonly object[] {
  const { namespace, image, replicas, resources, runAsUser, secretName, more } = pod
  const folders = [
    ['config', 'console', { configMap: { name: CONSOLE_NAME } }],
    ['ca', 'ca', { configMap: { name: 'kube-root-ca.crt' } }],
    ['secrets', 'secrets', { secret: { secretName, optional: true } }],
  ] as const
  const container = {
    name: 'console',
    image,
    ...more?.container,
    args: ['console', '--config', `${FOLDER}/console/console.yaml`],
    ports: [{ name: 'http', containerPort: PORT, protocol: 'TCP' }],
    livenessProbe: probe('/healthz'),
    readinessProbe: probe('/readyz'),
    resources,
    securityContext: RESTRICTED,
    volumeMounts: folders.map(([name, folder]) => ({ name, mountPath: `${FOLDER}/${folder}`, readOnly: true })),
  }
  return [
    {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: metadata(CONSOLE_NAME, namespace),
      automountServiceAccountToken: false,
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: metadata(CONSOLE_NAME, namespace),
      spec: {
        replicas,
        selector: { matchLabels: selector },
        template: {
          metadata: { ...more?.podMetadata, labels: consoleLabels },
          spec: {
            serviceAccountName: CONSOLE_NAME,
            automountServiceAccountToken: false,
            enableServiceLinks: false,
            ...more?.pod,
            securityContext: { runAsNonRoot: true, ...runAsUser, seccompProfile: { type: 'RuntimeDefault' } },
            containers: [container],
            volumes: folders.map(([name, , source]) => ({ name, ...source })),
          },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: metadata(CONSOLE_NAME, namespace),
      spec: { selector, ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: PORT }] },
    },
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: metadata(CONSOLE_NAME, namespace),
      spec: {
        podSelector: { matchLabels: selector },
        policyTypes: ['Ingress'],
        ingress: [{ ports: [{ protocol: 'TCP', port: PORT }] }],
      },
    },
  ]
}

/** The label by which Kubernetes adds a role's rules to one of its own (`view`, `edit`, `admin`). */
const addedTo = (role: string) => [`rbac.authorization.k8s.io/aggregate-to-${role}`, 'true'] as const

const role = (name: string, more: Readonly<Record<string, string>>, rules: readonly PolicyRule[]) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name, labels: { ...consoleLabels, ...more } },
  rules,
})

/**
 * Returns sample ClusterRoles for viewers. `live`, `explain` and `usage` are subresources that no API serves: the
 * console asks by them who may see reports of pods, explanations, and usage by person. `view` includes the first two.
 */
export function buildViewerRoles(
  kinds: readonly KindDeclaration[],
  group: string,
  names = { viewer: VIEWER_ROLE, usageViewer: USAGE_VIEWER_ROLE },
): readonly object[] {
  const plurals = kinds.map(({ plural }) => plural)
  const below = (part: string) => plurals.map((plural) => `${plural}/${part}`)
  return [
    role(names.viewer, Object.fromEntries(['view', 'edit', 'admin'].map(addedTo)), [
      { apiGroups: [group], resources: plurals, verbs: ['get', 'list', 'watch'] },
      { apiGroups: [group], resources: below('live'), verbs: ['get'] },
      { apiGroups: [group], resources: below('explain'), verbs: ['create'] },
    ]),
    role(names.usageViewer, {}, [{ apiGroups: [group], resources: below('usage'), verbs: ['get'] }]),
  ]
}
