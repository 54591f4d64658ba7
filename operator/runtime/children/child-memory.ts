import type { KubernetesObject } from '../../model/view.ts'
import type { ChildProblem } from './child-problem.ts'

/** Waits after a refused write in milliseconds, doubled each time. */
const REFUSED = { first: 1_000, longest: 60_000 }
/** Foreign changes reverted at once, and milliseconds for one more: people edit now and then; machines insist. */
const CORRECTIONS = { atOnce: 100, each: 3_000 }

/** The state of one child between two reconciles. It is lost with the process, at the cost of a write. */
export interface ChildMemory {
  uid?: string
  /** The watches don't show the object that has the name. It is read before anything is written. */
  isHeld?: true
  /** The answer to a write that the cluster has changed (an admission webhook), and the hash of what was written. */
  altered?: { readonly hash: string; readonly expected: KubernetesObject }
  /** The last refused write: its hash, the end and length of the wait, and the problem to report. */
  refused?: { readonly what: string; readonly until: number; readonly wait: number; readonly problem: ChildProblem }
  /** The number of foreign changes that may be reverted at once, as of a time in milliseconds since 1970. */
  corrections?: { readonly left: number; readonly at: number }
}

const doubled = (wait: number | undefined, { first, longest }: { first: number; longest: number }) =>
  Math.min(longest, wait === undefined ? first : wait * 2)

/** Records a refusal of `what` (the hash of what was written and the version that it was written to). */
export function noteRefusal(memory: ChildMemory, what: string, problem: ChildProblem): void {
  const wait = doubled(memory.refused?.what === what ? memory.refused.wait : undefined, REFUSED)
  memory.refused = { what, until: Date.now() + wait, wait, problem }
}

/** Returns the refusal that still holds for the same write, or undefined if the write may be tried. */
export function standingRefusal({ refused }: ChildMemory, what: string): ChildProblem | undefined {
  return refused?.what === what && Date.now() < refused.until ? refused.problem : undefined
}

/** Counts a correction. Returns false if it must wait because somebody changes the child again and again. */
export function mayCorrect(memory: ChildMemory, now = Date.now()): boolean {
  const { left, at } = memory.corrections ?? { left: CORRECTIONS.atOnce, at: now }
  const available = Math.min(CORRECTIONS.atOnce, left + (now - at) / CORRECTIONS.each)
  if (available < 1) return false
  memory.corrections = { left: available - 1, at: now }
  return true
}

export class ChildMemories {
  readonly #byOwner = new Map<string, Map<string, ChildMemory>>()

  of(owner: string, child: string): ChildMemory {
    const children = this.#byOwner.get(owner) ?? new Map<string, ChildMemory>()
    this.#byOwner.set(owner, children)
    const memory = children.get(child) ?? {}
    children.set(child, memory)
    return memory
  }

  forget(owner: string): void {
    this.#byOwner.delete(owner)
  }
}
