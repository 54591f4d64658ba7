import type { Durations } from './metrics/durations.ts'
import type { Details, Observation, Operation, Origin, Outcome, TraceContext } from './observe.ts'
import type { Spans, Traced } from './sdk/spans.ts'

/** What has no place in a trace of its own. */
const WITHIN: ReadonlySet<Operation['kind']> = new Set(['decision', 'store', 'provider'])

/** One operation under way. */
export class Observed implements Observation {
  readonly #operation: Operation
  readonly #origin: Origin | undefined
  readonly #spans: Spans | undefined
  readonly #durations: Durations | undefined
  readonly #startedAt: number
  readonly #traced: Traced | undefined
  #isOver = false

  constructor(operation: Operation, origin: Origin | undefined, spans?: Spans, durations?: Durations) {
    this.#operation = operation
    this.#origin = origin
    this.#spans = spans
    this.#durations = durations
    this.#startedAt = origin?.startedAt ?? performance.now()
    const parent = origin?.parent
    const around = parent instanceof Observed ? parent.#traced : undefined
    const isTraced = around !== undefined || !WITHIN.has(operation.kind)
    this.#traced = isTraced ? spans?.begin(operation, origin, around, this.#startedAt) : undefined
  }

  get trace(): TraceContext | undefined {
    const traced = this.#traced
    return traced !== undefined && 'span' in traced ? traced.context : traced
  }

  get isTold(): boolean {
    return this.#durations !== undefined || this.isSampled
  }

  get isSampled(): boolean {
    return this.#traced !== undefined && 'span' in this.#traced
  }

  step(name: string, from: number, to: number, details?: Details): void {
    const traced = this.#traced
    if (traced !== undefined && 'span' in traced) this.#spans?.step(traced.span, { name, from, to, details })
  }

  tell(details: Details): void {
    const traced = this.#traced
    if (traced !== undefined && 'span' in traced) this.#spans?.tell(traced.span, details)
  }

  link(traceparent: string | undefined): void {
    const traced = this.#traced
    if (traceparent !== undefined && traced !== undefined && 'span' in traced)
      this.#spans?.link(traced.span, traceparent)
  }

  end(outcome: Outcome): void {
    if (this.#isOver) return
    this.#isOver = true
    const now = performance.now()
    const target = this.#origin?.target?.()
    this.#durations?.record(this.#operation, outcome, now - this.#startedAt, target)
    if (this.#traced === undefined || !('span' in this.#traced)) return
    const name = target === undefined ? undefined : `${this.#operation.name} ${target}`
    this.#spans?.end(this.#traced.span, outcome, now, name)
  }
}
