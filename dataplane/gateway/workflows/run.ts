import { setTimeout as pause } from 'node:timers/promises'
import type { ForEachStep, SimpleStep, Step, Workflow } from '../../config/workflow/compiled.ts'
import { workflowLimits } from '../../config/workflow/limits.ts'
import { structureBytes } from '../mcp/json.ts'
import { type Attempt, attempt } from './attempt.ts'
import { evaluate, parseOrUndefined, type Scope, textFrom } from './evaluate.ts'
import { Ending, type Finished, type Host, type Progress, StepFailure, type Waiting } from './host.ts'

/** The end of a run, or its stop until its client has answered. */
export type Outcome =
  | { readonly kind: 'done'; readonly steps: ReadonlyMap<string, Finished> }
  | { readonly kind: 'failed'; readonly step: string; readonly reason: string }
  | { readonly kind: 'waiting'; readonly requests: Readonly<Record<string, string>>; readonly progress: Progress }

export interface RunOptions {
  readonly workflow: Workflow
  readonly params: unknown
  readonly host: Host
  /** The progress from which it continues; absent: the beginning. */
  readonly progress?: Progress | undefined
  /** The client's answers (JSON texts) by the keys of the questions. */
  readonly answers?: ReadonlyMap<string, string>
}

type AnyStep = SimpleStep | ForEachStep

/** The reasons why attempts are ended, made once because each error captures a stack. */
const ENDED = new Error('the run has ended')
const OVER = new Error('the forEach is over')
const LATE = new Error('the step took too long')
const endLate = (ending: Ending) => ending.end(LATE)
const failedItem = (error: unknown): Finished => {
  if (!(error instanceof StepFailure)) throw error
  return { status: 'failed', error: error.message }
}
const NO_ANSWERS: ReadonlyMap<string, string> = new Map()

/** One run of a workflow: each step starts as soon as its dependencies are done, some at the same time. */
export class Run {
  readonly startedAt: number
  readonly #options: RunOptions
  readonly #steps: Map<string, Finished>
  readonly #items = new Map<string, Map<number, Finished>>()
  readonly #waiting = new Map<string, Waiting>()
  readonly #running = new Set<string>()
  readonly #whole = Promise.withResolvers<Outcome>()
  /** The attempts in progress. */
  readonly #open = new Set<Ending>()
  #isEnded = false
  /** The final failure of a step, which fails the workflow. */
  #aborted: Extract<Outcome, { kind: 'failed' }> | undefined
  #skipsRest = false
  #bytes = 0

  constructor(options: RunOptions) {
    this.#options = options
    const { progress } = options
    this.startedAt = progress?.startedAt ?? Date.now()
    this.#steps = new Map(Object.entries(progress?.steps ?? {}))
    for (const [id, items] of Object.entries(progress?.items ?? {}))
      this.#items.set(id, new Map(Object.entries(items).map(([index, item]) => [Number(index), item])))
    for (const finished of this.#steps.values()) if (finished.skipsRest === true) this.#skipsRest = true
  }

  get running(): readonly string[] {
    return [...this.#running]
  }

  /** Ends the work in progress, at backends as well; nothing more begins. */
  end(): void {
    this.#isEnded = true
    for (const ending of this.#open) ending.end(ENDED)
  }

  /** Starts the run; called once. */
  go(): Promise<Outcome> {
    this.#goOn()
    return this.#whole.promise
  }

  /** Starts the steps that can start now. If none is in progress any more, the run ends. */
  #goOn(): void {
    try {
      if (!this.#isEnded) this.#startReady()
      if (this.#running.size === 0) this.#whole.resolve(this.#outcome())
    } catch (error) {
      this.#whole.reject(error)
    }
  }

  #outcome(): Outcome {
    const { workflow } = this.#options
    if (this.#aborted !== undefined) return this.#aborted
    if (this.#waiting.size > 0) return this.#stopped()
    for (const { id, defaultResults } of workflow.steps)
      if (!this.#steps.has(id)) this.#steps.set(id, { status: 'skipped', output: defaultResults })
    return { kind: 'done', steps: this.#steps }
  }

  #startReady(): void {
    if (this.#skipsRest) return
    for (const step of this.#options.workflow.steps) {
      if (this.#running.size >= workflowLimits.parallel) return
      const { id } = step
      const isBegun = this.#steps.has(id) || this.#running.has(id) || this.#waiting.has(id)
      if (isBegun || !step.dependsOn.every((other) => this.#steps.has(other))) continue
      this.#running.add(id)
      this.#runStep(step).then(
        () => {
          this.#running.delete(id)
          this.#goOn()
        },
        (error) => this.#whole.reject(error),
      )
    }
  }

  /** Runs a step. Rejects with errors that are not the step's, and with errors that replace an error result. */
  async #runStep(step: Step): Promise<void> {
    const { host } = this.#options
    host.stepBegins(step.id)
    try {
      const scope = { params: this.#options.params, steps: Object.fromEntries(this.#steps), forEach: undefined }
      const ended = await (step.type === 'forEach' ? this.#each(step, scope) : this.#once(step, scope, step))
      if (ended.status === 'waiting') {
        this.#waiting.set(step.id, ended)
        host.stepEnds(step.id, 'waiting', this.#progress)
      } else this.#finish(step, ended)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#aborted ??= { kind: 'failed', step: step.id, reason }
      this.end()
      host.stepEnds(step.id, 'failed', this.#progress)
      const answer = error instanceof StepFailure ? error.answer : error
      if (answer !== undefined) throw answer
    }
  }

  get #progress() {
    return { done: this.#steps.size, total: this.#options.workflow.steps.length }
  }

  #finish(step: Step, { result, ...finished }: Finished): void {
    const { workflow, host } = this.#options
    const isResult = workflow.output === undefined && step === workflow.steps.at(-1)
    this.#steps.set(step.id, isResult && result !== undefined ? { ...finished, result } : finished)
    this.#items.delete(step.id)
    if (finished.skipsRest === true) this.#skipsRest = true
    host.stepEnds(step.id, finished.status, this.#progress)
  }

  /** Runs one step with its condition, its timeout and its failure handling. Rejects with a StepFailure. */
  async #once(
    step: SimpleStep,
    scope: Scope,
    { id, key = id, among }: { readonly id: string; readonly key?: string; readonly among?: Set<Ending> },
  ): Promise<Finished | Waiting> {
    if (!isMet(step, scope)) return { status: 'skipped', output: step.defaultResults }
    return this.#timed(step, among, async (ending) => {
      const how = this.#startAttempt(scope, { id, key }, ending)
      return this.#kept(await runWithRetries(step, ending, () => attempt(step, how)))
    })
  }

  /**
   * Runs a step within its timeout; its `onError` handles a failure. `among`: the endings of the forEach items in
   * progress, to which this one belongs.
   */
  async #timed(
    step: AnyStep,
    among: Set<Ending> | undefined,
    work: (ending: Ending) => Promise<Finished | Waiting>,
  ): Promise<Finished | Waiting> {
    const ending = new Ending()
    if (this.#isEnded) ending.end(ENDED)
    this.#open.add(ending)
    among?.add(ending)
    const timer = setTimeout(endLate, step.timeoutMs, ending).unref()
    try {
      return await work(ending)
    } catch (error) {
      if (!(error instanceof StepFailure)) throw error
      const isLate = ending.reason === LATE
      return this.#failedOr(step, isLate ? new StepFailure(`it took longer than ${step.timeoutMs / 1000} s`) : error)
    } finally {
      clearTimeout(timer)
      this.#open.delete(ending)
      among?.delete(ending)
    }
  }

  /** Returns the record of a step whose failure the workflow survives. Throws the failure otherwise. */
  #failedOr({ onError, defaultResults }: AnyStep, failure: StepFailure): Finished {
    if (onError.action !== 'continue' || this.#isEnded) throw failure
    return { status: 'failed', error: failure.message, output: defaultResults }
  }

  #startAttempt(scope: Scope, { id, key }: { readonly id: string; readonly key: string }, ending: Ending): Attempt {
    const { host, progress, answers } = this.#options
    const waiting = progress?.waiting
    const waited = waiting !== undefined && Object.hasOwn(waiting, key) ? waiting[key] : undefined
    if (waited === undefined) return { host, scope, id, key, ending, waited, answers: NO_ANSWERS }
    const own = [...(answers ?? [])].flatMap(([name, text]) =>
      name.startsWith(`${key}/`) ? [[name.slice(key.length + 1), text] as const] : [],
    )
    return { host, scope, id, key, ending, waited, answers: new Map(own) }
  }

  /** Counts the kept memory of a step. Throws a StepFailure if that is too much. */
  #kept<T extends Finished | Waiting>(ended: T): T {
    const text = JSON.stringify(ended)
    const bytes = this.#bytes + 2 * text.length + structureBytes(text)
    if (text.length > workflowLimits.output || !this.#options.host.hold(bytes))
      throw new StepFailure('its output is larger than there is memory for', { isFinal: true })
    this.#bytes = bytes
    return ended
  }

  async #each(step: ForEachStep, scope: Scope): Promise<Finished | Waiting> {
    if (!isMet(step, scope)) return { status: 'skipped', output: step.defaultResults }
    return this.#timed(step, undefined, (ending) =>
      runWithRetries(step, ending, () => this.#allItems(step, scope, ending)),
    )
  }

  /**
   * Runs all items that are not done yet. If the workflow continues after a failure (`continue`), a failed item is
   * recorded as such and the others run.
   */
  async #allItems(step: ForEachStep, scope: Scope, ending: Ending): Promise<Finished | Waiting> {
    const items = readItems(step, scope)
    const done = this.#items.get(step.id) ?? new Map<number, Finished>()
    this.#items.set(step.id, done)
    const waiting: Waiting[] = []
    const underWay = new Set<Ending>()
    ending.onEnd = () => {
      for (const one of underWay) one.end(OVER)
    }
    const doItem = async (index: number): Promise<void> => {
      if (done.has(index) || this.#skipsRest) return
      if (ending.reason !== undefined) throw new StepFailure(ending.reason.message)
      const forEach = { item: items[index], index, [step.itemName]: items[index] }
      const key = `${step.id}[${index}]`
      const item = this.#once(step.step, { ...scope, forEach }, { id: step.id, key, among: underWay })
      const ended = await (step.onError.action === 'continue' ? item.catch(failedItem) : item)
      if (ended.status === 'waiting') {
        this.#waiting.set(key, ended)
        waiting.push(ended)
      } else {
        done.set(index, withoutResult(ended))
        if (ended.skipsRest === true) this.#skipsRest = true
      }
    }
    await runItems(items.length, step.parallel, doItem)
    if (ending.reason !== undefined) throw new StepFailure(ending.reason.message)
    const [first] = waiting
    if (first === undefined || this.#skipsRest) return buildOutput(items, done, this.#skipsRest)
    return { status: 'waiting', requests: {}, state: undefined, since: first.since }
  }

  /** Returns the progress, reduced to what is needed to continue. */
  #stopped(): Outcome {
    const { workflow } = this.#options
    const left = workflow.steps.filter(({ id }) => !this.#steps.has(id))
    const last = workflow.output === undefined ? [workflow.steps.at(-1)?.id ?? ''] : [...workflow.output.reads]
    const needed = new Set([...last, ...left.flatMap(({ reads }) => [...reads])])
    const steps = [...this.#steps].map(([id, finished]) => [
      id,
      needed.has(id) ? finished : { status: finished.status, skipsRest: finished.skipsRest },
    ])
    const requests: Record<string, string> = {}
    const waiting: Record<string, { state?: string; since: number }> = {}
    for (const [key, { requests: asked, state, since }] of this.#waiting) {
      Object.assign(requests, asked)
      waiting[key] = state === undefined ? { since } : { state, since }
    }
    const items = Object.fromEntries([...this.#items].map(([id, done]) => [id, Object.fromEntries(done)]))
    const progress: Progress = { startedAt: this.startedAt, steps: Object.fromEntries(steps), items, waiting }
    return { kind: 'waiting', requests, progress }
  }
}

/** The items of forEach steps: their values, their concurrency and their result. */

/** Calls `doItem` for `count` items, `parallel` at a time. Starts none after a failure; rejects with the first one. */
async function runItems(count: number, parallel: number, doItem: (index: number) => Promise<void>): Promise<void> {
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

const withoutResult = ({ result: _, ...finished }: Finished): Finished => finished

/** Returns the items of a forEach. Throws a StepFailure if there are none to iterate over, or too many. */
function readItems(step: ForEachStep, scope: Scope): readonly unknown[] {
  const given = evaluate(step.collection, scope)
  const items = typeof given === 'string' ? parseOrUndefined(given) : given
  if (!Array.isArray(items)) throw new StepFailure('its collection is not a list', { isFinal: true })
  if (items.length > step.mostItems)
    throw new StepFailure(`its collection has ${items.length} items, and may have ${step.mostItems}`, { isFinal: true })
  return items
}

function buildOutput(items: readonly unknown[], done: ReadonlyMap<number, Finished>, skipsRest: boolean): Finished {
  const iterations = items.map((_, index) => ({ index, ...(done.get(index) ?? { status: 'skipped' as const }) }))
  const count = (status: string) => iterations.filter((one) => one.status === status).length
  return {
    status: 'completed',
    output: { count: items.length, completed: count('completed'), failed: count('failed'), iterations },
    ...(skipsRest ? { skipsRest } : {}),
  }
}

/** Tells whether a step runs: one whose condition does not give `true` is skipped. */
const isMet = ({ condition }: AnyStep, scope: Scope): boolean =>
  condition === undefined || textFrom(condition, scope).trim() === 'true'

/** Tries as often as the step says, with its pauses. Rejects with the last failure. */
async function runWithRetries<T>({ onError }: AnyStep, ending: Ending, tryOnce: () => Promise<T>): Promise<T> {
  for (let left = onError.retries; ; left--) {
    try {
      return await tryOnce()
    } catch (error) {
      if (!(error instanceof StepFailure) || error.isFinal || left === 0 || ending.reason !== undefined) throw error
    }
    await pause(onError.delayMs, undefined, { signal: ending.signal, ref: false }).catch(() => undefined)
  }
}
