import { isObject } from '../../crds/settings/json.ts'
import { maskSecrets } from '../../dataplane/config/check/url.ts'
import { isReportedHealth } from '../../dataplane/config/status.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import type { Report } from '../places/place.ts'
import { type State, type Trouble, trouble } from './verdict.ts'

/** A server behind a gateway or proxy, as the pods report it. */
export interface Backend {
  readonly name: string
  readonly state: State
  readonly health: string
  readonly revision: string | null
  readonly circuit: string | null
  readonly tools: number | null
  readonly latencyMs: number | null
  /** The time since which it has not answered (RFC 3339); null if it answers or the time is unknown. */
  readonly since: string | null
  /** The last error, if it is not resolved; null if the backend answers. */
  readonly error: { readonly code: string; readonly message: string; readonly at: string | null } | null
}

const STATE: Readonly<Record<string, State>> = {
  healthy: 'well',
  ready: 'well',
  degraded: 'attention',
  unhealthy: 'ill',
  unavailable: 'ill',
  unauthenticated: 'ill',
  unknown: 'unknown',
}
/** Maps the health in an object's status to that in `/status`. */
const HEALTH: Readonly<Record<string, string>> = { ready: 'healthy', unavailable: 'unhealthy' }
const BADNESS = ['unknown', 'well', 'attention', 'ill']
const MOST = 10_000

const text = (value: unknown): string | null =>
  typeof value === 'string' ? maskSecrets(value.slice(0, 500)).toWellFormed() : null
const number = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null)

/**
 * Merges the pods' reports of their backends: for each name the worst state. The result is sorted by name. An error of
 * a backend that answers is over and left out. The reports are untrusted.
 */
export function readBackends(reports: readonly Report[]): readonly Backend[] {
  const found = new Map<string, Backend>()
  for (const backend of reports.flatMap(readReport)) {
    const before = found.get(backend.name)
    if (before === undefined || BADNESS.indexOf(backend.state) > BADNESS.indexOf(before.state))
      found.set(backend.name, backend)
  }
  return sortByName(found.values())
}

function readReport(report: Report): readonly Backend[] {
  const list = 'status' in report ? report.status['backends'] : []
  if (!Array.isArray(list)) return []
  return list.slice(0, MOST).flatMap((item) => (isReportedHealth(item) && isObject(item) ? [readBackend(item)] : []))
}

const sortByName = (backends: Iterable<Backend>): readonly Backend[] =>
  [...backends].sort((left, right) => (left.name < right.name ? -1 : 1))

function readBackend(item: Readonly<Record<string, unknown>>): Backend {
  const health = item['health'] as string
  const state = STATE[health] ?? 'unknown'
  const { lastError } = item
  const matters = (state === 'ill' || state === 'attention') && isObject(lastError)
  return {
    name: (item['name'] as string).slice(0, 253),
    state,
    health,
    revision: text(item['revision']),
    circuit: text(item['circuit']),
    tools: number(item['tools']),
    latencyMs: number(item['latencyMs']),
    since: text(item['since']) ?? (matters && isObject(lastError) ? text(lastError['at']) : null),
    error: matters
      ? {
          code: text(lastError['code']) ?? 'unknown',
          message: text(lastError['message']) ?? '',
          at: text(lastError['at']),
        }
      : null,
  }
}

/** Returns the backends from the status that the operator has written, for when no pod was asked. */
export function readStatusBackends({ status }: KubernetesObject): readonly Backend[] {
  const { discoveredBackends } = isObject(status) ? status : {}
  if (!Array.isArray(discoveredBackends)) return []
  return sortByName(
    discoveredBackends.filter(isObject).flatMap((item): Backend[] => {
      const [name, status] = [text(item['name']), text(item['status'])]
      if (name === null || status === null) return []
      const message = text(item['message'])
      return [
        {
          name,
          state: STATE[status] ?? 'unknown',
          health: HEALTH[status] ?? status,
          revision: text(item['mcpRevision']),
          circuit: text(item['circuitBreakerState']),
          tools: null,
          latencyMs: null,
          since: text(item['lastTransitionTime']),
          error: message === null ? null : { code: message.split(':', 1)[0] as string, message, at: null },
        },
      ]
    }),
  )
}

/** Returns the problem of a backend, as a trouble of its server. */
export function backendTrouble({ state, health, error, since }: Backend): Trouble | undefined {
  if (state !== 'ill' && state !== 'attention') return undefined
  const message = error === null ? `the server is ${health}` : `${error.code}: ${error.message}`
  return trouble({
    condition: 'Backend',
    severity: state === 'ill' ? 'error' : 'warning',
    reason: health,
    message,
    since,
  })
}
