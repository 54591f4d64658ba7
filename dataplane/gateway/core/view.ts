import { isLoopback } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { buildCatalog } from '../aggregation/catalog.ts'
import { buildPromptResourceCatalog, holderOf } from '../aggregation/prompt-resource-catalog.ts'
import { shapeOf } from '../aggregation/shape.ts'
import type { Backend } from '../backends/backend/backend.ts'

/**
 * What one caller sees of the backends, and the only way to it: the same for all callers, or the caller's own where
 * some backend gets a credential of the caller.
 */
export interface View extends Catalogs {
  readonly backends: readonly Backend[]
  /** Whether every backend has been asked for its lists, with or without success. */
  readonly allListed: boolean
  /** Settles when every backend has given its lists, or has had its time. */
  firstLists(): Promise<void>
  /** The backends for want of which lists fail now. */
  readonly missing: readonly Backend[]
  backendNamed(name: string): Backend | undefined
}

/** The backend that has a resource, for whoever has this view; undefined where none is known to. */
export function backendOfUri(view: View, uri: string): Backend | undefined {
  const name = holderOf(view.promptsAndResources, uri)
  return name === undefined ? undefined : view.backendNamed(name)
}

/** The backends that have never listed their tools and could have one of this name. */
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

/** The catalogs of these backends: whose page a tool may have depends on who has which resource. */
export function buildCatalogs(config: GatewayConfig, backends: readonly Backend[]): Catalogs {
  const promptsAndResources = buildPromptResourceCatalog(config, backends)
  const catalog = buildCatalog(config, backends, (uri) => holderOf(promptsAndResources, uri))
  return { catalog, promptsAndResources }
}

/** Whether this is a proxy whose server has never been reached: nothing is known of its tools, not even that it has none. */
const isNeverReached = ({ role }: GatewayConfig, backends: readonly Backend[]): boolean =>
  role === 'proxy' && backends.every(({ silent }) => silent)

/**
 * Whether a proxy waits for the server in its own pod, which starts after it: a rollout would send callers to a pod that
 * can't serve them yet. A remote server that is away makes nobody unready.
 */
export function isWaitingForServer(config: GatewayConfig, backends: readonly Backend[]): boolean {
  const inThisPod = ({ url }: Backend) => url.protocol === 'stdio:' || isLoopback(url)
  return isNeverReached(config, backends) && backends.every(inThisPod)
}

/**
 * The backends for want of which lists fail now: there is nothing to show, or a part is missing and only the whole is
 * wanted. One that waits for its caller to log in at a provider is no such part: others serve without it.
 */
export function missingBackends(config: GatewayConfig, backends: readonly Backend[]): readonly Backend[] {
  if (isNeverReached(config, backends)) return backends
  if (config.failureHandling?.partialFailureMode !== 'fail') return []
  return backends.filter(
    ({ tools, health, caller }) => caller?.link === undefined && (tools === undefined || health.state === 'unhealthy'),
  )
}
