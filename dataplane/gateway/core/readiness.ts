import { isLoopback } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { unreachable } from '../backends/backend/unreachable.ts'

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
 * Throws `backend_unavailable`, which names the backends, where lists fail now: there is nothing to show, or a part is
 * missing and only the whole is wanted.
 */
export function checkLists(config: GatewayConfig, backends: readonly Backend[]): void {
  if (isNeverReached(config, backends)) throw unreachable(backends)
  if (config.failureHandling?.partialFailureMode !== 'fail') return
  const away = backends.filter(({ tools, health }) => tools === undefined || health.state === 'unhealthy')
  if (away.length > 0) throw unreachable(away)
}
