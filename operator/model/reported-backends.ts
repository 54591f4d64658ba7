import { limits } from '../../crds/shared/limits.ts'
import { isReportedHealth } from '../../dataplane/config/status.ts'
import { withoutUrlSecrets } from '../../dataplane/config/url-secrets.ts'
import type { BackendObservation } from './view.ts'
import { worstByName } from './worst-by-name.ts'

const MESSAGE_LIMIT = 300
/** A pod that has not asked yet knows nothing. */
const WORST_LAST = ['unknown', 'ready', 'degraded', 'unauthenticated', 'unavailable'] as const

const STATUS = {
  healthy: 'ready',
  degraded: 'degraded',
  unhealthy: 'unavailable',
  unauthenticated: 'unauthenticated',
  unknown: 'unknown',
} as const satisfies Readonly<Record<string, (typeof WORST_LAST)[number]>>

/**
 * What the pods of a gateway report of its backends, as one, by name; nothing where they report none. Answers come from pods
 * and not from us: what has another shape is passed over. No times and no counts, so that a steady gateway has a steady
 * status; why a backend has failed once is told as long as it matters.
 */
export function reportedBackends(answers: readonly unknown[]): readonly BackendObservation[] {
  const bounded = answers.map((answer) => (Array.isArray(answer) ? answer.slice(0, limits.statusNames) : answer))
  return worstByName(bounded, observed, ({ status }) => WORST_LAST.indexOf(status))
}

function observed(report: unknown): BackendObservation | undefined {
  if (!isReportedHealth(report) || report.name.length > limits.name) return undefined
  const { name, health, revision, circuit, lastError } = report
  const status = STATUS[health]
  const isWell = status === 'ready' || status === 'unknown'
  return {
    name,
    status,
    ...(revision && { mcpRevision: revision.slice(0, 32).toWellFormed() }),
    ...(circuit && { circuitBreakerState: circuit }),
    ...(lastError && !isWell && { message: textOf(lastError) }),
  }
}

const textOf = ({ code = 'unknown', message = '' }: { readonly code?: string; readonly message?: string }): string =>
  withoutUrlSecrets(`${code}: ${message}`.slice(0, MESSAGE_LIMIT)).toWellFormed()
