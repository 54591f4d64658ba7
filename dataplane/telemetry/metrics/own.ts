import type { Role } from '../options.ts'
import { Durations } from './durations.ts'
import type { Labels } from './family.ts'
import { type Measure, Metrics } from './metrics.ts'
import { ProcessMeter } from './process.ts'
import { type PrometheusText, prometheusText } from './prometheus.ts'

/** The metrics of a gateway or a registry. They continue across configurations, as long as something reads them. */
export class OwnMetrics {
  readonly durations: Durations
  readonly all: Metrics
  readonly #process = new ProcessMeter()

  constructor(role: Role, measures: readonly Measure[]) {
    this.all = new Metrics([...measures, () => ({ readings: this.#process.read() })])
    this.durations = new Durations(role, this.all)
  }

  /** Returns the metrics as text. `accept`: the request's Accept header. */
  text(resource: Labels, accept: string | undefined): PrometheusText {
    return prometheusText(this.all.read(), resource, accept)
  }

  close(): void {
    this.#process.close()
  }
}
