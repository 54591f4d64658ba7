import { isLoopback } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { buildCatalog } from '../aggregation/catalog.ts'
import { buildPromptResourceCatalog, pageOf, placeOf } from '../aggregation/prompt-resource-catalog.ts'
import { shapeOf } from '../aggregation/shape.ts'
import type { UriNames } from '../aggregation/uri-names.ts'
import type { Backend } from '../backends/backend/backend.ts'

/**
 * One caller's view of the backends, and the only way to them: the shared view, or the caller's own if some backend
 * gets a credential of the caller.
 */
export interface View extends Catalogs {
  readonly backends: readonly Backend[]
  /** Tells whether every backend has been asked for its lists, with or without success. */
  readonly allListed: boolean
  /** Settles when every backend has given its lists, or its time is over. */
  firstLists(): Promise<void>
  /** The missing backends because of which lists fail now. */
  readonly missing: readonly Backend[]
  backendNamed(name: string): Backend | undefined
}

/** A resource at a backend of a view. */
export interface ResourceAt {
  readonly backend: Backend
  /** The backend's own URI. */
  readonly own: string
  /** The backend's other URIs as clients know them; undefined if they are the same. */
  readonly names: UriNames | undefined
}

/** Finds the backend that has a resource in this view; undefined if none is known to have it. */
export function resourceIn(view: View, uri: string): ResourceAt | undefined {
  const place = placeOf(view.promptsAndResources, uri)
  const backend = place === undefined ? undefined : view.backendNamed(place.backend)
  if (place === undefined || backend === undefined) return undefined
  return { backend, own: place.uri, names: view.promptsAndResources.names?.get(backend.name) }
}

/** Returns the backends that have never listed their tools and may have one of this name. */
export const unlistedBackendsFor = (
  config: GatewayConfig,
  backends: readonly Backend[],
  name: string,
): readonly Backend[] =>
  backends.filter((backend) => {
    if (backend.tools !== undefined) return false
    const { prefix, filter, hidden } = shapeOf(config, backend.name)
    return !hidden && name.startsWith(prefix) && (filter === undefined || filter.has(name.slice(prefix.length)))
  })

/**
 * Builds the catalogs of these backends together: a tool's page depends on which backend has which resource. Composite
 * tools that are withheld are left out.
 */
export function buildCatalogs(
  config: GatewayConfig,
  backends: readonly Backend[],
  isWithheld?: (workflow: Workflow) => boolean,
): Catalogs {
  const promptsAndResources = buildPromptResourceCatalog(config, backends)
  const page = (backend: string, uri: string) => pageOf(promptsAndResources, backend, uri)
  const catalog = buildCatalog(config, backends, page, isWithheld)
  return { catalog, promptsAndResources }
}

/** Tells whether this is a proxy whose server was never reached: its tools are unknown, which differs from none. */
const isNeverReached = ({ role }: GatewayConfig, backends: readonly Backend[]): boolean =>
  role === 'proxy' && backends.every(({ silent }) => silent)

/**
 * Tells whether a proxy waits for the server in its own pod, which starts after it: without that a rollout would send
 * callers to a pod that can't serve them yet. An unreachable remote server does not affect readiness.
 */
export function isWaitingForServer(config: GatewayConfig, backends: readonly Backend[]): boolean {
  const inThisPod = ({ url }: Backend) => url.protocol === 'stdio:' || isLoopback(url)
  return isNeverReached(config, backends) && backends.every(inThisPod)
}

/**
 * Returns the backends because of which lists fail now: there is nothing to show, or a part is missing and partial
 * lists are not allowed. A backend that waits for its caller to log in at a provider does not count: others serve
 * without it.
 */
export function missingBackends(config: GatewayConfig, backends: readonly Backend[]): readonly Backend[] {
  if (isNeverReached(config, backends)) return backends
  if (config.failureHandling?.partialFailureMode !== 'fail') return []
  return backends.filter(
    ({ tools, health, caller }) => caller?.link === undefined && (tools === undefined || health.state === 'unhealthy'),
  )
}
