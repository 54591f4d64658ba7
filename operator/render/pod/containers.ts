import type { Listeners } from '../network/listeners.ts'
import { MOUNT_ROOT } from './mounts.ts'

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
export const serverSecurityContext = { ...restricted, runAsUser: SERVER_USER }

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
export const drainHook = (proxy: Listeners) => ({
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
