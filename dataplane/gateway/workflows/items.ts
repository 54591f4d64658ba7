import type { ForEachStep } from '../../config/workflow/compiled.ts'
import { evaluate, type Scope } from './evaluate.ts'
import { parseExact } from './exact-json.ts'
import { StepFailure } from './failure.ts'
import type { Finished } from './records.ts'

/** The items of forEach steps: what they are, their turns, and what is made of them. */

/** Does something for each of `count` items, so many at a time. Begins none after a failure; rejects with the first one. */
export async function eachOf(count: number, parallel: number, doItem: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  let failure: unknown
  const work = async (): Promise<void> => {
    while (next < count && failure === undefined) {
      const index = next++
      try {
        await doItem(index)
      } catch (error) {
        failure ??= error instanceof StepFailure ? new StepFailure(`item ${index}: ${error.message}`, error) : error
      }
    }
  }
  await Promise.all(Array.from({ length: parallel }, work))
  if (failure !== undefined) throw failure
}

export const withoutResult = ({ result: _, ...finished }: Finished): Finished => finished

/** The items of a forEach. Throws a StepFailure where there are none to go through, or too many. */
export function itemsOf(step: ForEachStep, scope: Scope): readonly unknown[] {
  const given = evaluate(step.collection, scope)
  const items = typeof given === 'string' ? listIn(given) : given
  if (!Array.isArray(items)) throw new StepFailure('its collection is no list', { isFinal: true })
  if (items.length > step.mostItems)
    throw new StepFailure(`its collection has ${items.length} items, and may have ${step.mostItems}`, { isFinal: true })
  return items
}

function listIn(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

export function outputOf(items: readonly unknown[], done: ReadonlyMap<number, Finished>, skipsRest: boolean): Finished {
  const iterations = items.map((_, index) => ({ index, ...(done.get(index) ?? { status: 'skipped' as const }) }))
  const count = (status: string) => iterations.filter((one) => one.status === status).length
  return {
    status: 'completed',
    output: { count: items.length, completed: count('completed'), failed: count('failed'), iterations },
    ...(skipsRest ? { skipsRest } : {}),
  }
}
