import type { Listeners } from '../network/listeners.ts'
import { MOUNT_ROOT } from './mounts.ts'

/** Restricted profile of the Pod Security Standards, for every container that we render. */
const restricted = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
}

/** User and group of our own image. */
const OWN_USER = 65_532
/** User of an MCP server's container where its template says nothing else. */
const SERVER_USER = 1000

export const podSecurityContext = {
  fsGroup: OWN_USER,
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
}

const ownSecurityContext = { ...restricted, readOnlyRootFilesystem: true, runAsGroup: OWN_USER, runAsUser: OWN_USER }

/** Servers write where they like in their own file system: most images expect to. */
export const serverSecurityContext = { ...restricted, runAsUser: SERVER_USER }

type Secured = { readonly securityContext?: object }

/**
 * The spec of a pod without the users and groups that it and its containers have here: clusters that allot them from a
 * range of each namespace (OpenShift) refuse any other.
 */
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

/** Seconds between the news that a pod goes and its SIGTERM: load balancers and kube-proxies learn of it meanwhile. */
const DRAIN_SECONDS = 5
/** Seconds for the drain and what is still being answered. */
export const GRACE_SECONDS = 30

export const drainHook = { preStop: { sleep: { seconds: DRAIN_SECONDS } } }

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
  /** Native sidecar: an init container that stays (Kubernetes 1.29). */
  readonly sidecar: boolean
}

/** Our container: reads its mounted configuration, listens, is probed on its admin listener. */
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
    ],
    ...(options.env.length === 0 ? {} : { env: options.env }),
    ports: [
      { name: role === 'registry' ? 'http' : 'mcp', containerPort: listeners.listen, protocol: 'TCP' },
      { name: 'admin', containerPort: listeners.admin, protocol: 'TCP' },
    ],
    ...(options.sidecar ? { restartPolicy: 'Always' } : { lifecycle: drainHook }),
    startupProbe: probe('/healthz', 1, 60),
    livenessProbe: probe('/healthz', 10, 3),
    readinessProbe: probe('/readyz', 5, 2),
    resources: options.resources,
    securityContext: ownSecurityContext,
    volumeMounts: options.volumeMounts,
  }
}
