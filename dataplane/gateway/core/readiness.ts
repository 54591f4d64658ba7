import { isLoopback } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Backend } from '../backends/backend/backend.ts'

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
