import { withoutUrlSecrets } from '../../../dataplane/config/url-secrets.ts'
import type { Condition } from './plan.ts'

/** The longest message that the API accepts (metav1.Condition). */
const MESSAGE = 32_768

/** The conditions of one object while its status is being built. */
export interface Conditions {
  /** Sets a condition. The last call for a type wins. */
  set(type: string, status: Condition['status'], reason: string, message: string): void
  get(type: string): Condition | undefined
  /** Keeps a condition from the object's current status, if there is one, for what is not known yet. */
  keep(type: string): void
  /** All conditions that were set, by type. Conditions that were not set are dropped from the status. */
  list(): readonly Condition[]
}

interface Conditioned {
  readonly metadata: { readonly generation?: number }
  readonly status?: { readonly conditions?: readonly unknown[] }
}

/** Returns the generation of an object. An object from a file has none and counts as just created. */
export const readGeneration = (object: Conditioned): number => object.metadata.generation ?? 1

export const readConditions = ({
  status,
}: {
  readonly metadata: object
  readonly status?: unknown
}): readonly Condition[] => (status as { readonly conditions?: readonly Condition[] } | undefined)?.conditions ?? []

/** Tells whether no operator has written a status of an object yet: that of the API server is about no generation. */
export const isUntold = ({ status }: { readonly metadata: object; readonly status?: unknown }): boolean =>
  status === undefined || (status as { readonly observedGeneration?: number }).observedGeneration === 0

/**
 * Starts the conditions of an object. `lastTransitionTime` is kept while the status stays the same, else it is `now`
 * (RFC 3339).
 */
export function startConditions(object: Conditioned, now: string): Conditions {
  const before = new Map<string, Condition>()
  for (const condition of readConditions(object)) before.set(condition.type, condition)
  const observedGeneration = readGeneration(object)
  const found = new Map<string, Condition>()
  return {
    set(type, status, reason, given) {
      const message = withoutUrlSecrets(given)
      const previous = before.get(type)
      const lastTransitionTime = previous?.status === status ? previous.lastTransitionTime : now
      const text = message.length > MESSAGE ? `${message.slice(0, MESSAGE - 1)}…` : message
      found.set(type, { type, status, reason, message: text, observedGeneration, lastTransitionTime })
    },
    get: (type) => found.get(type),
    keep(type) {
      const previous = before.get(type)
      if (previous !== undefined) found.set(type, previous)
    },
    list: () => [...found.values()].sort((a, b) => (a.type < b.type ? -1 : 1)),
  }
}
