import { createHash } from 'node:crypto'
import type { MCPServer } from '../../../crds/index.ts'
import { type Listeners, sidecarListeners } from '../network/network.ts'
import { canonicalQuantity } from '../object/canonical.ts'
import { serverContainerName } from '../object/object.ts'

/** The folder of all mounts that the data plane reads. Standalone keeps the same folders in its state directory. */
export const MOUNT_ROOT = '/etc/portico'

/** Readable by owner and group (the pod's fsGroup), by nobody else. */
const FILE_MODE = 0o440

/** The folders of mounted Secrets and ConfigMaps, by what is mounted. */
const FOLDERS = { secret: 'secrets', ca: 'ca', source: 'sources' } as const

interface VolumeSource {
  readonly volume: string
  readonly type: keyof typeof FOLDERS
  readonly object: string
  readonly keys: Set<string>
  /** True if all users of the file can do without it: the pod starts and keeps running whether or not it exists. */
  isOptional: boolean
}

/**
 * The files that a data plane needs, collected while its configuration is built, and mounted as whole volumes (a
 * `subPath` mount is never updated). Paths are relative to the configuration file's folder.
 */
export interface Mounts {
  secretFile(name: string, key: string): string
  /** Mounts a CA bundle. With `optional` the pod has the file whenever the bundle exists. */
  caFile(configMap: string, key: string, options?: { readonly optional: boolean }): string
  sourceFile(configMap: string, key: string): string
  /** Mounts a token of the pod's own service account for another audience. */
  audienceToken(name: string, audience: string): string
  /** Mounts the pod's own token for the API server, or the cluster's CA. */
  clusterFile(name: 'token' | 'ca.crt'): string
  volumes(): readonly object[]
  volumeMounts(): readonly object[]
}

const isLabel = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

/** The folder in which a data plane writes its state. */
export const STATE_PATH = '/var/lib/portico'
export const STATE_VOLUME = 'portico-state'

export const stateMount = { name: STATE_VOLUME, mountPath: STATE_PATH }
export const stateEnvironment = [{ name: 'PORTICO_STATE_DIR', value: STATE_PATH }]

/** Builds a volume's name, which is a DNS label. An object's name may be longer and contain dots. */
function formatVolumeName(prefix: string, name: string): string {
  const plain = `${prefix}-${name}`
  if (plain.length <= 63 && isLabel.test(name)) return plain
  return `${prefix}-${createHash('sha256').update(name).digest('hex').slice(0, 16)}`
}

const byVolume = (a: VolumeSource, b: VolumeSource) => (a.volume < b.volume ? -1 : 1)

/** The lifetime of a projected token. The kubelet renews it, and its readers read it again each time. */
const TOKEN_SECONDS = 3600

/** Builds the volume with the API server's CA, this pod's token for it and, for client libraries, the namespace. */
const buildApiAccessVolume = (name: string, options: { readonly namespace: boolean }) => ({
  name,
  projected: {
    defaultMode: FILE_MODE,
    sources: [
      { serviceAccountToken: { expirationSeconds: TOKEN_SECONDS, path: 'token' } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      ...(options.namespace
        ? [
            {
              downwardAPI: {
                items: [{ fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' }, path: 'namespace' }],
              },
            },
          ]
        : []),
    ],
  },
})

const buildAudienceVolume = (name: string, audience: string) => ({
  name: formatVolumeName('portico-token', name),
  projected: {
    defaultMode: FILE_MODE,
    sources: [{ serviceAccountToken: { audience, expirationSeconds: TOKEN_SECONDS, path: 'token' } }],
  },
})

export const CLUSTER_VOLUME = 'portico-cluster'

/** Starts with only the configuration's own ConfigMap, which is mounted whole at `config/`. */
export function startMounts(configMap: string): Mounts {
  const sources = new Map<string, VolumeSource>()
  const audiences = new Map<string, string>()
  let cluster = false

  const file = (type: VolumeSource['type'], object: string, key: string, isOptional = false) => {
    const volume = formatVolumeName(`portico-${type}`, object)
    let source = sources.get(volume)
    if (!source) sources.set(volume, (source = { volume, type, object, keys: new Set(), isOptional: true }))
    source.keys.add(key)
    source.isOptional &&= isOptional
    return `../${FOLDERS[type]}/${object}/${key}`
  }

  return {
    secretFile: (object, key) => file('secret', object, key),
    caFile: (object, key, { optional } = { optional: false }) => file('ca', object, key, optional),
    sourceFile: (object, key) => file('source', object, key),
    audienceToken(name, audience) {
      audiences.set(name, audience)
      return `../tokens/${name}/token`
    },
    clusterFile(name) {
      cluster = true
      return `../cluster/${name}`
    },
    volumes: () => [
      { name: 'portico-config', configMap: { name: configMap, defaultMode: FILE_MODE } },
      ...(cluster ? [buildApiAccessVolume(CLUSTER_VOLUME, { namespace: false })] : []),
      ...[...audiences].map(([name, audience]) => buildAudienceVolume(name, audience)),
      ...[...sources.values()].sort(byVolume).map(({ volume, type, object, keys, isOptional }) => {
        const items = [...keys].sort().map((key) => ({ key, path: key }))
        const content = { defaultMode: FILE_MODE, items, ...(isOptional ? { optional: true } : {}) }
        return type === 'secret'
          ? { name: volume, secret: { secretName: object, ...content } }
          : { name: volume, configMap: { name: object, ...content } }
      }),
    ],
    volumeMounts: () => [
      { name: 'portico-config', mountPath: `${MOUNT_ROOT}/config`, readOnly: true },
      ...(cluster ? [{ name: CLUSTER_VOLUME, mountPath: `${MOUNT_ROOT}/cluster`, readOnly: true }] : []),
      ...[...audiences.keys()].map((name) => ({
        name: formatVolumeName('portico-token', name),
        mountPath: `${MOUNT_ROOT}/tokens/${name}`,
        readOnly: true,
      })),
      ...[...sources.values()].sort(byVolume).map(({ volume: name, type, object }) => ({
        name,
        mountPath: `${MOUNT_ROOT}/${FOLDERS[type]}/${object}`,
        readOnly: true,
      })),
    ],
  }
}

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
export function withoutUsers(spec: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const dropUsers = <T extends Secured>(secured: T): T => {
    const {
      runAsUser: _,
      runAsGroup: __,
      fsGroup: ___,
      ...rest
    } = (secured.securityContext ?? {}) as Record<string, unknown>
    return { ...secured, securityContext: rest }
  }
  return mapContainers(dropUsers(spec), dropUsers<Secured>)
}

/** Returns a pod's spec with `change` applied to each container. */
export const mapContainers = <T extends object>(
  spec: Readonly<Record<string, unknown>>,
  change: (container: T) => T,
): Record<string, unknown> => ({
  ...spec,
  ...Object.fromEntries(
    ['initContainers', 'containers'].flatMap((list) => {
      const containers = spec[list] as readonly T[] | undefined
      return containers ? [[list, containers.map(change)]] : []
    }),
  ),
})

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
export function buildDataPlaneContainer(options: DataPlaneOptions): Record<string, unknown> {
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

const API_VOLUME = 'api-access'
const API_PATH = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Returns the variables of a listening server. Servers differ in the variable for the port: each gets both. */
export const buildListenVariables = (port: number) => [
  { name: 'PORT', value: String(port) },
  { name: 'MCP_PORT', value: String(port) },
  { name: 'HOST', value: '127.0.0.1' },
]

/**
 * Builds the environment in the given order, because `$(NAME)` refers to earlier variables only. A later variable of
 * the same name wins: the user's values take precedence over ours.
 */
function buildServerEnvironment({ env = [], secrets = [] }: MCPServer['spec'], port: number | undefined) {
  const fromSecrets = secrets.map(({ name, key, targetEnvName }) => ({
    name: targetEnvName ?? key,
    valueFrom: { secretKeyRef: { name, key } },
  }))
  const given = port === undefined ? [] : buildListenVariables(port)
  const variables = new Map<string, object>()
  for (const variable of [...given, ...env.map(({ name, value }) => ({ name, value })), ...fromSecrets])
    variables.set(variable.name, variable)
  return [...variables.values()]
}

/**
 * Builds the user's container and the volumes that only it mounts. `port`: the port on which it listens, undefined for a
 * stdio server.
 */
export function buildServerContainer(
  spec: MCPServer['spec'],
  port: number | undefined,
  resources: Resources,
): { readonly container: object; readonly volumes: object[] } {
  const env = buildServerEnvironment(spec, port)
  // A server with a ServiceAccount that was chosen for it gets the token of that account.
  const apiAccess = spec.serviceAccount !== undefined
  const container = {
    name: serverContainerName,
    image: spec.image,
    ...(spec.args?.length ? { args: spec.args } : {}),
    ...(env.length === 0 ? {} : { env }),
    ...(port === undefined
      ? { stdin: true, stdinOnce: true }
      : { ports: [{ name: 'server', containerPort: port, protocol: 'TCP' }] }),
    lifecycle: drainHook(sidecarListeners),
    resources,
    securityContext: serverSecurityContext,
    volumeMounts: [
      { name: 'tmp', mountPath: '/tmp' },
      ...(apiAccess ? [{ name: API_VOLUME, mountPath: API_PATH, readOnly: true }] : []),
    ],
  }
  const volumes = [
    { name: 'tmp', emptyDir: {} },
    ...(apiAccess ? [buildApiAccessVolume(API_VOLUME, { namespace: true })] : []),
  ]
  return { container, volumes }
}
