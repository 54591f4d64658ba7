import type { BackendObservation } from '../../model/view.ts'
import type { Conditions } from '../outcome/conditions.ts'

/**
 * `BackendsHealthy`: whether the pods of a gateway reach its backends; absent until they have told. It begins no event: what
 * is started together is there one after the other.
 */
export function reportHealth(observed: readonly BackendObservation[] | undefined, conditions: Conditions): void {
  if (observed === undefined) return
  const texts = observed.flatMap(({ name, status, message }) =>
    status === 'unavailable' ? [`${JSON.stringify(name)}${message === undefined ? '' : `: ${message}`}`] : [],
  )
  if (texts.length === 0) conditions.set('BackendsHealthy', 'True', 'NoneUnavailable', '')
  else conditions.set('BackendsHealthy', 'False', 'BackendsUnavailable', `unavailable are ${texts.join('; ')}`)
}

interface Served {
  readonly discoveredBackends?: readonly { readonly name: string }[]
}

/** Backends as a status has them, each with what the pods say of it; nothing until they have told. */
export function observedBackends(
  { discoveredBackends = [] }: Served,
  observed: readonly BackendObservation[] | undefined,
): object | undefined {
  if (observed === undefined) return undefined
  const byName = new Map(observed.map((backend) => [backend.name, backend]))
  const backends = discoveredBackends.map(({ name, ...backend }) => ({
    ...withoutHealth(backend),
    name,
    ...byName.get(name),
  }))
  const away = backends.filter(({ name }) => byName.get(name)?.status === 'unavailable')
  return { backendCount: backends.length - away.length, discoveredBackends: backends }
}

/** What was said of its health before, in the status of a set that is held, says nothing any more. */
function withoutHealth(backend: object): object {
  const { status, mcpRevision, circuitBreakerState, message, ...rest } = backend as Partial<BackendObservation>
  return rest
}
