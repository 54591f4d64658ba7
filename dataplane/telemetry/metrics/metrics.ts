import { type Family, type Labels, type MetricDescription, type Point, type Reading, Series } from './family.ts'

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

interface MetricOptions extends Omit<MetricDescription, 'type'> {
  readonly labels: readonly string[]
  /** Upper bounds of the buckets of a histogram, ascending; absent in a counter. */
  readonly bounds?: readonly number[]
  /** The most series with the same value of the first label; absent: no limit. */
  readonly mostOfFirst?: number
}

/** The most series of a metric, as in the SDK of OpenTelemetry. */
const MOST_SERIES = 2_000
/** A series without a new value for this time ends. */
const UNUSED_MS = 24 * 3_600_000
/** The same time, if more than half of the room is taken. */
const UNUSED_WHEN_MANY_MS = 10 * 60_000
/** The labels of the series that takes values without room (OpenTelemetry SDK specification, cardinality limits). */
const OVERFLOW: Labels = { 'otel.metric.overflow': 'true' }

/** A counter or a histogram. The SDK's instruments hash the attributes of each value and keep every series for ever. */
export class Metric {
  readonly description: MetricDescription
  readonly #bounds: readonly number[]
  readonly #labels: readonly string[]
  readonly #mostOfFirst: number
  readonly #series = new Map<string, Series>()
  readonly #ofFirst = new Map<string, number>()
  #overflow: Series | undefined

  constructor({ labels, bounds = [], mostOfFirst = MOST_SERIES, ...description }: MetricOptions) {
    this.description = { ...description, type: bounds.length === 0 ? 'counter' : 'histogram' }
    this.#bounds = bounds
    this.#labels = labels
    this.#mostOfFirst = mostOfFirst
  }

  /** Returns the series of these values, in the order of the labels; the overflow series if there is no room. */
  series(values: readonly (string | undefined)[]): Series {
    const key = JSON.stringify(values)
    let series = this.#series.get(key)
    if (series !== undefined) return series
    const first = values[0] ?? ''
    const ofFirst = this.#ofFirst.get(first) ?? 0
    if (this.#series.size >= MOST_SERIES - 1 || ofFirst >= this.#mostOfFirst)
      return (this.#overflow ??= new Series(OVERFLOW, this.#bounds, Date.now()))
    series = new Series(this.#labelsOf(values), this.#bounds, Date.now())
    this.#series.set(key, series)
    this.#ofFirst.set(first, ofFirst + 1)
    return series
  }

  #labelsOf(values: readonly (string | undefined)[]): Labels {
    const labels: Record<string, string> = {}
    for (const [index, name] of this.#labels.entries()) {
      const value = values[index]
      if (value !== undefined) labels[name] = value
    }
    return labels
  }

  /** Ends series that have been unused for long, and those with a label whose value isn't among the `known` ones. */
  sweep(now: number, known: ReadonlyMap<string, ReadonlySet<string>>): void {
    for (const [key, series] of this.#series) {
      if (series.used) series.usedAt = now
      series.used = false
      const unusedMs = this.#isTight(series) ? UNUSED_WHEN_MANY_MS : UNUSED_MS
      if (now - series.usedAt >= unusedMs || !isKnown(series.labels, known)) this.#end(key, series)
    }
  }

  #firstOf({ labels }: Series): string {
    return labels[this.#labels[0] ?? ''] ?? ''
  }

  #isTight(series: Series): boolean {
    const ofFirst = this.#ofFirst.get(this.#firstOf(series)) ?? 0
    return this.#series.size > MOST_SERIES / 2 || ofFirst > this.#mostOfFirst / 2
  }

  #end(key: string, series: Series): void {
    series.ended = true
    this.#series.delete(key)
    const first = this.#firstOf(series)
    const left = (this.#ofFirst.get(first) ?? 1) - 1
    if (left === 0) this.#ofFirst.delete(first)
    else this.#ofFirst.set(first, left)
  }

  /** Returns undefined until a value has been added. */
  read(): Family | undefined {
    const series = [...this.#series.values(), ...(this.#overflow === undefined ? [] : [this.#overflow])]
    if (series.length === 0) return undefined
    const { description } = this
    if (description.type === 'histogram')
      return { metric: { ...description, type: description.type }, bounds: this.#bounds, series }
    const points = series.map(({ labels, sum, startedAt }) => ({ labels, value: sum, startedAt }))
    return { metric: { ...description, type: description.type }, points }
  }
}

function isKnown(labels: Labels, known: ReadonlyMap<string, ReadonlySet<string>>): boolean {
  for (const [name, values] of known) {
    const value = labels[name]
    if (value !== undefined && !values.has(value)) return false
  }
  return true
}
