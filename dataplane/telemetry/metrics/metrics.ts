import type { Family, MetricDescription, Point, Reading } from './family.ts'
import { Metric, MOST_SERIES } from './metric.ts'

/** The readings of one source, taken on request. */
export interface Measured {
  readonly readings: readonly Reading[]
  /** All possible values of these labels: series with another value end. */
  readonly known?: ReadonlyMap<string, ReadonlySet<string>> | undefined
}

export type Measure = () => Measured

const NOTHING_KNOWN: ReadonlyMap<string, ReadonlySet<string>> = new Map()

/** All metrics of a process: those with added values, and those that are measured when they are read. */
export class Metrics {
  readonly #metrics: Metric[] = []
  readonly #measures: readonly Measure[]
  readonly #startedAt: number
  readonly #now: () => number

  constructor(measures: readonly Measure[], now: () => number = Date.now) {
    this.#measures = measures
    this.#now = now
    this.#startedAt = now()
  }

  add(...[options]: ConstructorParameters<typeof Metric>): Metric {
    const metric = new Metric(options)
    this.#metrics.push(metric)
    return metric
  }

  read(): readonly Family[] {
    const now = this.#now()
    const measured = this.#measures.map((measure) => measure())
    const known = new Map(measured.flatMap((each) => [...(each.known ?? NOTHING_KNOWN)]))
    for (const metric of this.#metrics) metric.sweep(now, known)
    return [
      ...this.#metrics.flatMap((metric) => metric.read() ?? []),
      ...this.#familiesOf(measured.flatMap(({ readings }) => readings)),
    ]
  }

  #familiesOf(readings: readonly Reading[]): Family[] {
    const families = new Map<string, { readonly metric: MetricDescription; readonly points: Point[] }>()
    for (const { metric, labels, value } of readings) {
      const family = families.get(metric.name) ?? { metric, points: [] }
      families.set(metric.name, family)
      if (family.points.length < MOST_SERIES) family.points.push({ labels, value, startedAt: this.#startedAt })
    }
    return [...families.values()] as Family[]
  }
}
