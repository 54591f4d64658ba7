import type { GatewayStatus } from '../../config/status.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'

/** A run as the status shows it. */
interface Running {
  readonly workflow: Workflow
  /** The run's index among all runs, -1 if it is not among them; set by WorkflowRuns alone. */
  place: number
  /** The names of the steps in progress. */
  readonly running: readonly string[]
}

/** The most characters of definitions that are kept for clients which have not answered yet. */
const MOST_KEPT = 4 * 1024 * 1024

/** The composite tools that run in this process, and the definitions of calls that wait for their clients. */
export class WorkflowRuns {
  /** The runs in no order; an array for the same reason as in `InFlight`. */
  readonly #open: Running[] = []
  readonly #counts = new Map<string, { completed: number; failed: number }>()
  /** The definitions by digest, the most recently used last. */
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

  /** Keeps a definition, so that calls which began with it continue with it after it was replaced. */
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

  /** Returns the states of the workflows of these names; counts start with this process. */
  statesOf(names: Iterable<string>): GatewayStatus['workflows'] {
    return [...names].map((name) => {
      const runs = this.#open.filter(({ workflow }) => workflow.name === name)
      const steps = [...new Set(runs.flatMap(({ running }) => running))].sort()
      return { name, running: runs.length, steps, ...(this.#counts.get(name) ?? { completed: 0, failed: 0 }) }
    })
  }
}
