export interface MetricDescription {
  readonly name: string
  /** Unit by UCUM: `s`, `By`, `1`, or the counted thing in braces. */
  readonly unit: string
  readonly description: string
  readonly type: 'counter' | 'gauge' | 'histogram'
}

/** The values of labels by their OpenTelemetry names; a label without a value is left out. */
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

/** The metric of every data plane for a refused configuration. */
export const configRefused = gauge(
  'portico.config.refused',
  '',
  'Whether a newer configuration has been refused: 1 or 0.',
)

/** A value that is read on request: of a gauge, or of a counter that is kept elsewhere. */
export interface Reading {
  readonly metric: MetricDescription
  readonly labels: Labels
  readonly value: number
}

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
  /** The Unix time in milliseconds from which it counts. */
  readonly startedAt: number
}

/** The counts for one set of labels: the sum of the added values and, in a histogram, their distribution. */
export class Series {
  readonly labels: Labels
  /** The Unix time in milliseconds from which it counts. */
  readonly startedAt: number
  sum = 0
  count = 0
  /** The number of values within each bound and above the one before, then those above all; empty in a counter. */
  readonly buckets: number[]
  /** True if it has been dropped: values added now are lost. */
  ended = false
  /** True if it was used since it was last read. */
  used = true
  /** The Unix time in milliseconds at which it was last read as used. */
  usedAt: number
  readonly #bounds: readonly number[]

  constructor(labels: Labels, bounds: readonly number[], now: number) {
    this.labels = labels
    this.#bounds = bounds
    this.buckets = bounds.length === 0 ? [] : new Array(bounds.length + 1).fill(0)
    this.startedAt = now
    this.usedAt = now
  }

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
