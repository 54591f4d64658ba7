import type { KubernetesObject } from '../../model/view.ts'
import type { ChildProblem } from './child-problem.ts'

/** Waits after a refused write: doubled each time, in milliseconds. */
const REFUSED = { first: 1_000, longest: 60_000 }
/** Changes of others that are put back at once, and milliseconds after which one more may be: people edit, machines insist. */
const CORRECTIONS = { atOnce: 100, each: 3_000 }

/** What is remembered of one child from one reconcile to the next. Lost with the process, at the cost of a write. */
export interface ChildMemory {
  /** Uid of the object that is this child. */
  uid?: string
  /** An object that the watches don't show was found on the name: it is read before anything is written. */
  isHeld?: true
  /** What came back from a write that the cluster had changed (an admission webhook), and the hash of what was written. */
  altered?: { readonly hash: string; readonly expected: KubernetesObject }
  /** The last write that was refused: of what, when, how many times, and what to say. */
  refused?: { readonly what: string; readonly until: number; readonly wait: number; readonly problem: ChildProblem }
  /** How many changes of others may be put back at once, as of a time in milliseconds since 1970. */
  corrections?: { readonly left: number; readonly at: number }
}

const doubled = (wait: number | undefined, { first, longest }: { first: number; longest: number }) =>
  Math.min(longest, wait === undefined ? first : wait * 2)

/** Notes a refusal of `what` (the hash of what was written and the version that it was written to). */
export function noteRefusal(memory: ChildMemory, what: string, problem: ChildProblem): void {
  const wait = doubled(memory.refused?.what === what ? memory.refused.wait : undefined, REFUSED)
  memory.refused = { what, until: Date.now() + wait, wait, problem }
}

/** The refusal that still holds for the same write; undefined where it may be tried. */
export function standingRefusal({ refused }: ChildMemory, what: string): ChildProblem | undefined {
  return refused?.what === what && Date.now() < refused.until ? refused.problem : undefined
}

/** Counts a correction; false where it must wait, because somebody changes the child again and again. */
export function mayCorrect(memory: ChildMemory, now = Date.now()): boolean {
  const { left, at } = memory.corrections ?? { left: CORRECTIONS.atOnce, at: now }
  const available = Math.min(CORRECTIONS.atOnce, left + (now - at) / CORRECTIONS.each)
  if (available < 1) return false
  memory.corrections = { left: available - 1, at: now }
  return true
}

/** The memories of all children, by owner. */
export class ChildMemories {
  readonly #byOwner = new Map<string, Map<string, ChildMemory>>()

  /** The memory of one child of an owner; both are named by keys. */
  of(owner: string, child: string): ChildMemory {
    const children = this.#byOwner.get(owner) ?? new Map<string, ChildMemory>()
    this.#byOwner.set(owner, children)
    const memory = children.get(child) ?? {}
    children.set(child, memory)
    return memory
  }

  /** The owner is gone. */
  forget(owner: string): void {
    this.#byOwner.delete(owner)
  }
}
