/** What a metric is, by the names of OpenTelemetry. */
export interface MetricDescription {
  readonly name: string
  /** By UCUM: `s`, `By`, `1`, or what is counted in braces. */
  readonly unit: string
  readonly description: string
  readonly type: 'counter' | 'gauge' | 'histogram'
}

/** Values of labels by their OpenTelemetry names; a label without a value is left out. */
export type Labels = Readonly<Record<string, string>>

export const gauge = (name: string, unit: string, description: string): MetricDescription => ({
  name,
  unit,
  description,
  type: 'gauge',
})

export const counter = (name: string, unit: string, description: string): MetricDescription => ({
  name,
  unit,
  description,
  type: 'counter',
})

/** What every data plane tells of its configuration. */
export const configRefused = gauge(
  'portico.config.refused',
  '',
  'Whether a newer configuration has been refused: 1 or 0.',
)

/** A value that is known when it is asked for: of a gauge, or of a counter that is kept elsewhere. */
export interface Reading {
  readonly metric: MetricDescription
  readonly labels: Labels
  readonly value: number
}

/** All series of one metric as they are read. */
export type Family =
  | {
      readonly metric: MetricDescription & { readonly type: 'histogram' }
      readonly bounds: readonly number[]
      readonly series: readonly Series[]
    }
  | {
      readonly metric: MetricDescription & { readonly type: 'counter' | 'gauge' }
      readonly points: readonly Point[]
    }

export interface Point {
  readonly labels: Labels
  readonly value: number
  /** Unix time in milliseconds from which on it counts. */
  readonly startedAt: number
}

/** What is counted under one set of labels: the sum of what was added and, in a histogram, how it is distributed. */
export class Series {
  readonly labels: Labels
  /** Unix time in milliseconds from which on it counts. */
  readonly startedAt: number
  sum = 0
  count = 0
  /** How many values were within each bound and above the one before, then those above all; empty in a counter. */
  readonly buckets: number[]
  /** It has been forgotten: what is added now is seen by nobody. */
  ended = false
  /** Since it was last read. */
  used = true
  /** Unix time in milliseconds at which it was last read as used. */
  usedAt: number
  readonly #bounds: readonly number[]

  constructor(labels: Labels, bounds: readonly number[], now: number) {
    this.labels = labels
    this.#bounds = bounds
    this.buckets = bounds.length === 0 ? [] : new Array(bounds.length + 1).fill(0)
    this.startedAt = now
    this.usedAt = now
  }

  /** Counts one value. Allocates nothing. */
  add(value: number): void {
    this.sum += value
    this.count++
    this.used = true
    if (this.buckets.length === 0) return
    let index = 0
    while (index < this.#bounds.length && value > (this.#bounds[index] as number)) index++
    this.buckets[index] = (this.buckets[index] as number) + 1
  }
}
