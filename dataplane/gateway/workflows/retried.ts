import { setTimeout } from 'node:timers/promises'
import type { ForEachStep, SimpleStep } from '../../config/workflow/compiled.ts'
import type { Ending } from './ending.ts'
import { type Scope, textFrom } from './evaluate.ts'
import { StepFailure } from './failure.ts'

export type AnyStep = SimpleStep | ForEachStep

/** Whether a step is to be done: one whose condition does not give `true` is skipped. */
export const isMet = ({ condition }: AnyStep, scope: Scope): boolean =>
  condition === undefined || textFrom(condition, scope).trim() === 'true'

/** Tries as often as the step says, with its pauses. Rejects with the last failure. */
export async function retried<T>({ onError }: AnyStep, ending: Ending, tryOnce: () => Promise<T>): Promise<T> {
  for (let left = onError.retries; ; left--) {
    try {
      return await tryOnce()
    } catch (error) {
      if (!(error instanceof StepFailure) || error.isFinal || left === 0 || ending.reason !== undefined) throw error
    }
    await setTimeout(onError.delayMs, undefined, { signal: ending.signal, ref: false }).catch(() => undefined)
  }
}
