import { type Listeners, sidecarListeners } from '../network/service.ts'
import { canonicalQuantity } from '../object/canonical.ts'
import { serverContainerName } from '../object/object.ts'
import { apiAccessVolume, MOUNT_ROOT } from './mounts.ts'

const restricted = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
}

const OWN_USER = 65_532
/** The default user of an MCP server's container, unless its template sets one. */
const SERVER_USER = 1000

export const podSecurityContext = {
  fsGroup: OWN_USER,
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
}

const ownSecurityContext = { ...restricted, readOnlyRootFilesystem: true, runAsGroup: OWN_USER, runAsUser: OWN_USER }

/** The root file system is writable, because most images expect that. */
const serverSecurityContext = { ...restricted, runAsUser: SERVER_USER }

type Secured = { readonly securityContext?: object }

/** Removes the users and groups of a pod and its containers. OpenShift, which assigns them, refuses others. */
export function withoutUsers(spec: Record<string, unknown>): Record<string, unknown> {
  const freed = <T extends Secured>(secured: T): T => {
    const {
      runAsUser: _,
      runAsGroup: __,
      fsGroup: ___,
      ...rest
    } = (secured.securityContext ?? {}) as Record<string, unknown>
    return { ...secured, securityContext: rest }
  }
  const lists = ['initContainers', 'containers'].flatMap((list) => {
    const containers = spec[list] as readonly Secured[] | undefined
    return containers ? [[list, containers.map(freed)] as const] : []
  })
  return { ...freed(spec as Secured), ...Object.fromEntries(lists) }
}

/**
 * Seconds between the notice of a pod's termination and its end. A server with our proxy beside it has the same time,
 * by a hook that asks the proxy.
 */
export const GRACE_SECONDS = 30

/**
 * Before a server is told to end, this hook asks the proxy beside it to have its clients leave. The proxy, a native
 * sidecar, is told last. If a pod template replaces the hook, the proxy learns of the end by its own.
 */
const drainHook = (proxy: Listeners) => ({
  preStop: { httpGet: { path: '/pre-stop', port: proxy.admin, scheme: 'HTTP' } },
})

const probe = (path: string, periodSeconds: number, failureThreshold: number) => ({
  failureThreshold,
  httpGet: { path, port: 'admin', scheme: 'HTTP' },
  periodSeconds,
  successThreshold: 1,
  timeoutSeconds: 2,
})

interface DataPlaneOptions {
  readonly container: string
  readonly role: 'gateway' | 'registry'
  readonly image: string
  readonly listeners: Listeners
  readonly resources: object
  readonly env: readonly object[]
  readonly volumeMounts: readonly object[]
  /** True for a native sidecar: an init container that keeps running (Kubernetes 1.29). */
  readonly sidecar: boolean
}

/** Builds our container. It reads its mounted configuration, listens, and has probes on its admin listener. */
export function dataPlaneContainer(options: DataPlaneOptions): Record<string, unknown> {
  const { role, listeners } = options
  return {
    name: options.container,
    image: options.image,
    args: [
      'serve',
      role,
      '--config',
      `${MOUNT_ROOT}/config/${role}.yaml`,
      '--listen',
      `:${listeners.listen}`,
      '--admin-listen',
      `:${listeners.admin}`,
      ...(options.sidecar ? ['--pre-stop'] : []),
    ],
    ...(options.env.length === 0 ? {} : { env: options.env }),
    ports: [
      { name: role === 'registry' ? 'http' : 'mcp', containerPort: listeners.listen, protocol: 'TCP' },
      { name: 'admin', containerPort: listeners.admin, protocol: 'TCP' },
    ],
    ...(options.sidecar ? { restartPolicy: 'Always', lifecycle: drainHook(listeners) } : {}),
    startupProbe: probe('/healthz', 1, 60),
    livenessProbe: probe('/healthz', 10, 3),
    readinessProbe: probe('/readyz', 5, 2),
    resources: options.resources,
    securityContext: ownSecurityContext,
    volumeMounts: options.volumeMounts,
  }
}

/** Tells whether an image is named by its digest (OCI distribution specification), and so always the same. */
export const isPinned = (image: string): boolean => /@[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-f]{32,}$/.test(image)

export interface Resources {
  readonly requests?: Readonly<Record<string, string>>
  readonly limits?: Readonly<Record<string, string>>
}

/**
 * Memory is limited, CPU is not: a CPU limit only adds latency. Measured on Node 24 with 500 tools, private memory: 70
 * MiB idle and 85 under load, with 20 policies 94 and 110 (resident 140 and 173, including mapped files).
 */
export const resourceDefaults = {
  server: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
  sidecar: { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '256Mi' } },
  gateway: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
  registry: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
} as const satisfies Record<string, Resources>

/**
 * Renders requests and limits of a container. If a resource (cpu, memory) is set at all, neither of its defaults
 * applies: a request above a default limit would be refused. Quantities are returned in canonical form. An invalid
 * quantity is added to `problems`.
 */
export function renderResources(set: Resources | undefined, defaults: Resources, problems: string[]): Resources {
  const named = new Set([...Object.keys(set?.requests ?? {}), ...Object.keys(set?.limits ?? {})])
  const side = (part: 'requests' | 'limits') => {
    const merged: Record<string, string> = {}
    for (const [resource, value] of Object.entries(defaults[part] ?? {}))
      if (!named.has(resource)) merged[resource] = value
    for (const [resource, value] of Object.entries(set?.[part] ?? {})) {
      const canonical = canonicalQuantity(value)
      if (canonical === undefined) problems.push(`${part}.${resource}: ${JSON.stringify(value)} is not a quantity`)
      else merged[resource] = canonical
    }
    const keys = Object.keys(merged).sort()
    return keys.length === 0 ? {} : { [part]: Object.fromEntries(keys.map((key) => [key, merged[key]])) }
  }
  return { ...side('limits'), ...side('requests') }
}

interface ServerOptions {
  readonly image: string
  readonly args?: readonly string[] | undefined
  readonly env?: readonly { readonly name: string; readonly value: string }[] | undefined
  /** Variables whose values are in Secrets. */
  readonly secrets?:
    | readonly { readonly name: string; readonly key: string; readonly targetEnvName?: string | undefined }[]
    | undefined
  /** The port on which it listens; absent for a stdio server. */
  readonly port?: number | undefined
  readonly resources: Resources
  /** True if the server uses a ServiceAccount that was chosen for it, and gets the token of that account. */
  readonly apiAccess: boolean
}

const API_VOLUME = 'api-access'
const API_PATH = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Returns the variables of a listening server. Servers differ in the variable for the port: each gets both. */
export const listening = (port: number) => [
  { name: 'PORT', value: String(port) },
  { name: 'MCP_PORT', value: String(port) },
  { name: 'HOST', value: '127.0.0.1' },
]

/**
 * Builds the environment in the given order, because `$(NAME)` refers to earlier variables only. A later variable of
 * the same name wins: the user's values take precedence over ours.
 */
function environment(options: ServerOptions) {
  const fromSecrets = (options.secrets ?? []).map(({ name, key, targetEnvName }) => ({
    name: targetEnvName ?? key,
    valueFrom: { secretKeyRef: { name, key } },
  }))
  const given = options.port === undefined ? [] : listening(options.port)
  const variables = new Map<string, object>()
  for (const variable of [...given, ...(options.env ?? []).map(({ name, value }) => ({ name, value })), ...fromSecrets])
    variables.set(variable.name, variable)
  return [...variables.values()]
}

/** Builds the user's container and the volumes that only it mounts. */
export function serverContainer(options: ServerOptions): { readonly container: object; readonly volumes: object[] } {
  const { port, apiAccess } = options
  const env = environment(options)
  const container = {
    name: serverContainerName,
    image: options.image,
    ...(options.args?.length ? { args: options.args } : {}),
    ...(env.length === 0 ? {} : { env }),
    ...(port === undefined
      ? { stdin: true, stdinOnce: true }
      : { ports: [{ name: 'server', containerPort: port, protocol: 'TCP' }] }),
    lifecycle: drainHook(sidecarListeners),
    resources: options.resources,
    securityContext: serverSecurityContext,
    volumeMounts: [
      { name: 'tmp', mountPath: '/tmp' },
      ...(apiAccess ? [{ name: API_VOLUME, mountPath: API_PATH, readOnly: true }] : []),
    ],
  }
  const volumes = [
    { name: 'tmp', emptyDir: {} },
    ...(apiAccess ? [apiAccessVolume(API_VOLUME, { namespace: true })] : []),
  ]
  return { container, volumes }
}
