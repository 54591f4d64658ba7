import { isLoopback } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { buildCatalog } from '../aggregation/catalog.ts'
import { buildPromptResourceCatalog, findPageUri, findPlace } from '../aggregation/prompt-resource-catalog.ts'
import { readShape } from '../aggregation/shape.ts'
import type { UriNames } from '../aggregation/uri-names.ts'
import type { Backend } from '../backends/backend/backend.ts'

/**
 * One caller's view of the backends: the shared view or, if some backend uses the caller's credential, the caller's
 * own. All access to backends for a caller goes through it.
 */
export interface View extends Catalogs {
  readonly backends: readonly Backend[]
  /** True if every backend has been asked for its lists, with or without success. */
  readonly allListed: boolean
  /** Resolves when every backend has returned its lists, or has taken too long. */
  firstLists(): Promise<void>
  /** The missing backends that make lists fail. */
  readonly missing: readonly Backend[]
  backendNamed(name: string): Backend | undefined
}

/** A resource at a backend of a view. */
export interface ResourceAt {
  readonly backend: Backend
  /** The backend's own URI of the resource. */
  readonly own: string
  /** The mapping of the backend's URIs to those that clients know; undefined if they are equal. */
  readonly names: UriNames | undefined
}

/** Finds the backend of a resource in this view; undefined if no backend is known to have it. */
export function resourceIn(view: View, uri: string): ResourceAt | undefined {
  const place = findPlace(view.promptsAndResources, uri)
  const backend = place === undefined ? undefined : view.backendNamed(place.backend)
  if (place === undefined || backend === undefined) return undefined
  return { backend, own: place.uri, names: view.promptsAndResources.names?.get(backend.name) }
}

/** Returns the backends that have never listed their tools and may have a tool of this name. */
export const unlistedBackendsFor = (
  config: GatewayConfig,
  backends: readonly Backend[],
  name: string,
): readonly Backend[] =>
  backends.filter((backend) => {
    if (backend.tools !== undefined) return false
    const { prefix, filter, hidden } = readShape(config, backend.name)
    return !hidden && name.startsWith(prefix) && (filter === undefined || filter.has(name.slice(prefix.length)))
  })

/**
 * Builds the catalogs of these backends together, because a tool's page depends on which backend has which resource.
 * Withheld composite tools are left out.
 */
export function buildCatalogs(
  config: GatewayConfig,
  backends: readonly Backend[],
  isWithheld?: (workflow: Workflow) => boolean,
): Catalogs {
  const promptsAndResources = buildPromptResourceCatalog(config, backends)
  const page = (backend: string, uri: string) => findPageUri(promptsAndResources, backend, uri)
  const catalog = buildCatalog(config, backends, page, isWithheld)
  return { catalog, promptsAndResources }
}

/**
 * Tells whether this is a proxy that has never reached its server. Its tools are then unknown, which differs from none.
 */
const isNeverReached = ({ role }: GatewayConfig, backends: readonly Backend[]): boolean =>
  role === 'proxy' && backends.every(({ silent }) => silent)

/**
 * Tells whether a proxy waits for the server in its own pod, which starts later. Without this wait a rollout would send
 * callers to a pod that can't serve them yet. A remote server that can't be reached does not affect readiness.
 */
export function isWaitingForServer(config: GatewayConfig, backends: readonly Backend[]): boolean {
  const inThisPod = ({ url }: Backend) => url.protocol === 'stdio:' || isLoopback(url)
  return isNeverReached(config, backends) && backends.every(inThisPod)
}

/**
 * Returns the missing backends that make lists fail: nothing can be shown, or a part is missing and partial lists are
 * not allowed. A backend that waits for its caller's login at a provider does not count, because others serve without
 * it.
 */
export function missingBackends(config: GatewayConfig, backends: readonly Backend[]): readonly Backend[] {
  if (isNeverReached(config, backends)) return backends
  if (config.failureHandling?.partialFailureMode !== 'fail') return []
  return backends.filter(
    ({ tools, health, caller }) => caller?.link === undefined && (tools === undefined || health.state === 'unhealthy'),
  )
}
