import type { Workflow } from '../../config/workflow/compiled.ts'

/** A run as people see it. */
interface Running {
  readonly workflow: Workflow
  /** Its place among all runs, -1 where it isn't among them; set by WorkflowRuns alone. */
  place: number
  /** Names of the steps that are under way. */
  readonly running: readonly string[]
}

interface WorkflowState {
  readonly name: string
  readonly running: number
  /** Ids of the steps that are under way. */
  readonly steps: readonly string[]
  readonly completed: number
  readonly failed: number
}

/** Characters of definitions that are kept for clients which have not answered yet. */
const MOST_KEPT = 4 * 1024 * 1024

/** The composite tools that run in this process, and definitions by which calls go on that wait at their clients. */
export class WorkflowRuns {
  /** In no order; an array for the reason that `InFlight` has one. */
  readonly #open: Running[] = []
  readonly #counts = new Map<string, { completed: number; failed: number }>()
  /** By digest, the one that was asked for last at the end. */
  readonly #definitions = new Map<string, Workflow>()
  #kept = 0

  begin(run: Running): void {
    run.place = this.#open.push(run) - 1
  }

  end(run: Running, outcome: 'completed' | 'failed' | 'waiting'): void {
    this.#remove(run)
    if (outcome === 'waiting') return
    const counts = this.#counts.get(run.workflow.name) ?? { completed: 0, failed: 0 }
    counts[outcome]++
    this.#counts.set(run.workflow.name, counts)
  }

  #remove(run: Running): void {
    const { place } = run
    if (place === -1) return
    run.place = -1
    const last = this.#open.pop() as Running
    if (last === run) return
    this.#open[place] = last
    last.place = place
  }

  /** Keeps a definition, so that what has begun by it goes on by it after it was replaced. */
  remember(workflow: Workflow): void {
    const { digest, size } = workflow
    if (!this.#definitions.delete(digest)) this.#kept += size
    this.#definitions.set(digest, workflow)
    for (const [oldest, { size: freed }] of this.#definitions) {
      if (this.#kept <= MOST_KEPT) return
      this.#definitions.delete(oldest)
      this.#kept -= freed
    }
  }

  definition(digest: string): Workflow | undefined {
    return this.#definitions.get(digest)
  }

  /** How the workflows of these names stand; counts are since the start of this process. */
  statesOf(names: Iterable<string>): readonly WorkflowState[] {
    return [...names].map((name) => {
      const runs = this.#open.filter(({ workflow }) => workflow.name === name)
      const steps = [...new Set(runs.flatMap(({ running }) => running))].sort()
      return { name, running: runs.length, steps, ...(this.#counts.get(name) ?? { completed: 0, failed: 0 }) }
    })
  }
}
