import type { KubernetesObject } from '../../model/view.ts'
import { conditionsOf } from '../../reconcile/outcome/conditions.ts'
import type { Condition, PlannedEvent } from '../../reconcile/outcome/plan.ts'

interface LastingWarningsOptions {
  /** The object as it is now; undefined where it is gone, or no more ours to speak of. */
  readonly current: (object: KubernetesObject) => KubernetesObject | undefined
  readonly write: (object: KubernetesObject, event: PlannedEvent) => void
  /** Milliseconds that a warning has to last. */
  readonly lasts?: number
}

/** Longer than `kubectl apply -f` of a folder takes as a rule. */
const LASTS_MS = 5_000

/** The condition that says what an event of this reason tells: it has the reason, or is of that type and true. */
export const conditionOf = (object: KubernetesObject, reason: string): Condition | undefined =>
  conditionsOf(object).find((one) => one.reason === reason || (one.status === 'True' && one.type === reason))

/**
 * Keeps warnings back until they have lasted: of objects that are applied together, in whatever order, the first ones miss
 * the others for a moment, which their conditions tell and nobody has to be woken for. What a process still keeps when it
 * ends is not told: an event is a courtesy, and the condition stays.
 */
export class LastingWarnings {
  readonly #options: LastingWarningsOptions
  /** Kept back, by uid and reason. */
  readonly #kept = new Set<string>()

  constructor(options: LastingWarningsOptions) {
    this.#options = options
  }

  /** Writes the warning once it has lasted, with what its condition says then. */
  tell(object: KubernetesObject, event: PlannedEvent): void {
    const key = `${object.metadata.uid}/${event.reason}`
    if (this.#kept.has(key)) return
    this.#kept.add(key)
    setTimeout(() => {
      this.#kept.delete(key)
      const there = this.#options.current(object)
      const condition = there && conditionOf(there, event.reason)
      if (condition) this.#options.write(there, { ...event, message: condition.message })
    }, this.#options.lasts ?? LASTS_MS).unref()
  }
}
