import type { KubernetesObject } from '../../model/view.ts'
import { type Condition, type PlannedEvent, readConditions } from '../../reconcile/outcome/plan.ts'

interface LastingWarningsOptions {
  /** Returns the current object, or undefined if it is gone or this process may not report on it any more. */
  readonly current: (object: KubernetesObject) => KubernetesObject | undefined
  readonly write: (object: KubernetesObject, event: PlannedEvent) => void
  /** Milliseconds that a warning must last. */
  readonly lasts?: number
}

/** `kubectl apply -f` of a folder is usually faster. */
const LASTS_MS = 5_000

/**
 * Returns the condition behind an event: with its reason, or true of that type; or false, where the event names a type.
 */
export const findCondition = (
  object: KubernetesObject,
  { reason, condition }: Pick<PlannedEvent, 'reason' | 'condition'>,
): Condition | undefined =>
  readConditions(object).find((one) =>
    condition === undefined
      ? one.reason === reason || (one.status === 'True' && one.type === reason)
      : one.type === condition && one.status === 'False',
  )

/**
 * Delays warnings until they have lasted: of objects that are applied together, the first ones miss the others for a
 * moment. Delayed warnings are dropped when the process ends.
 */
export class LastingWarnings {
  readonly #options: LastingWarningsOptions
  /** The delayed warnings, by uid and reason. */
  readonly #kept = new Set<string>()

  constructor(options: LastingWarningsOptions) {
    this.#options = options
  }

  /** Writes the warning once it has lasted, with the text that its condition has then. */
  tell(object: KubernetesObject, event: PlannedEvent): void {
    const key = `${object.metadata.uid}/${event.reason}`
    if (this.#kept.has(key)) return
    this.#kept.add(key)
    setTimeout(() => {
      this.#kept.delete(key)
      const there = this.#options.current(object)
      const condition = there && findCondition(there, event)
      if (condition) this.#options.write(there, { ...event, message: condition.message })
    }, this.#options.lasts ?? LASTS_MS).unref()
  }
}
