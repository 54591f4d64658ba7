import type { Labels, Series } from './series.ts'

/** What a metric is, by the names of OpenTelemetry. */
export interface MetricDescription {
  readonly name: string
  /** By UCUM: `s`, `By`, `1`, or what is counted in braces. */
  readonly unit: string
  readonly description: string
  readonly type: 'counter' | 'gauge' | 'histogram'
}

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
