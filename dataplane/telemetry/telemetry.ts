import { isDeepStrictEqual } from 'node:util'
import { otlpEndpoint } from '../config/check/telemetry.ts'
import type { OpenTelemetrySettings } from '../config/telemetry.ts'
import type { Reading } from './metrics/family.ts'
import type { Durations, OwnMetrics } from './metrics/own.ts'
import type { PrometheusText } from './metrics/prometheus.ts'
import {
  type Details,
  type Observation,
  type Observe,
  type Operation,
  type Origin,
  type Outcome,
  observeNothing,
  type TraceContext,
} from './observe.ts'
import { buildResourceAttributes, type TelemetryConfig, type TelemetryOptions } from './options.ts'
import type { Pipeline, PipelineCounts } from './sdk/pipeline.ts'
import type { Spans, Traced } from './sdk/spans.ts'

/** The wait of a stopping process for its last exports. */
const LAST_EXPORT_MS = 2_000

/** The kinds of operations that begin no trace of their own. */
const WITHIN: ReadonlySet<Operation['kind']> = new Set(['decision', 'store', 'provider'])

/**
 * Measures operations, and sends the results to the configured endpoint, which may change. The SDK is loaded for
 * exports, not for Prometheus.
 */
export class Telemetry {
  /** The same function for ever, under any configuration. */
  readonly observe: Observe = (operation, origin) => this.#observe(operation, origin)
  readonly #options: TelemetryOptions
  #observe: Observe = observeNothing
  #pipeline: Pipeline | undefined
  #metrics: OwnMetrics | undefined
  #inForce: TelemetryConfig | undefined
  #applied: Promise<void> = Promise.resolve()

  constructor(options: TelemetryOptions) {
    this.#options = options
  }

  /** Applies a configuration after those before it. Never rejects: nothing fails because of telemetry. */
  apply(config: TelemetryConfig): Promise<void> {
    this.#applied = this.#applied
      .then(() => this.#replace(config))
      .catch((error: unknown) => this.#options.log.error({ err: error }, 'telemetry can’t be applied'))
    return this.#applied
  }

  async #replace(config: TelemetryConfig): Promise<void> {
    if (isDeepStrictEqual(config, this.#inForce)) return
    const before = this.#pipeline
    const { openTelemetry: settings, prometheus } = config.telemetry ?? {}
    const isSent = settings !== undefined && sends(settings)
    const sendsMetrics = isSent && settings.metrics?.enabled === true
    const metrics = sendsMetrics || prometheus?.enabled === true ? await this.#loadMetrics() : undefined
    if (isSent) {
      const { Pipeline } = await import('./sdk/pipeline.ts')
      this.#pipeline = new Pipeline(settings, config, this.#options, sendsMetrics ? metrics?.all : undefined)
    } else this.#pipeline = undefined
    if (metrics === undefined) this.#metrics?.close()
    this.#metrics = metrics
    this.#observe = observing(this.#pipeline, metrics)
    this.#inForce = config
    before?.close().catch((error: unknown) => this.#options.log.debug({ err: error }, 'closing the exporter failed'))
  }

  async #loadMetrics(): Promise<OwnMetrics> {
    if (this.#metrics !== undefined) return this.#metrics
    const { OwnMetrics } = await import('./metrics/own.ts')
    const { role, measure } = this.#options
    const ofSpans = () => ({ readings: spanReadings(this.#pipeline?.counts) })
    return new OwnMetrics(role, measure === undefined ? [ofSpans] : [measure, ofSpans])
  }

  /** Returns the metrics for Prometheus; undefined while they are off. `accept`: the request's Accept header. */
  prometheus(accept: string | undefined): PrometheusText | undefined {
    const config = this.#inForce
    if (config?.telemetry?.prometheus?.enabled !== true) return undefined
    return this.#metrics?.text(buildResourceAttributes(config, this.#options), accept)
  }

  /** Returns its part of `/status`: the outcomes of spans, if any are sent. */
  status(): { readonly telemetry?: { readonly spans: PipelineCounts } } {
    const spans = this.#pipeline?.counts
    return spans === undefined ? {} : { telemetry: { spans } }
  }

  async close(): Promise<void> {
    await this.#applied
    this.#observe = observeNothing
    const patience = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      this.#pipeline?.giveUp()
      patience.resolve()
    }, LAST_EXPORT_MS)
    const closing = this.#pipeline?.close().catch(() => {
      // The endpoint is unreachable; the log has it.
    })
    await Promise.race([closing, patience.promise])
    clearTimeout(timer)
    this.#metrics?.close()
  }
}

/** Tells whether anything is sent under these settings. */
const sends = (settings: OpenTelemetrySettings): boolean =>
  settings.enabled === true &&
  settings.endpoint !== undefined &&
  otlpEndpoint(settings) !== undefined &&
  (settings.tracing?.enabled === true || settings.metrics?.enabled === true)

function observing(pipeline: Pipeline | undefined, metrics: OwnMetrics | undefined): Observe {
  const spans = pipeline?.spans
  const durations = metrics?.durations
  if (spans === undefined && durations === undefined) return observeNothing
  return (operation, origin) => new Observed(operation, origin, spans, durations)
}

const spansMetric = {
  name: 'portico.telemetry.spans',
  unit: '{span}',
  description: 'Spans by outcome.',
  type: 'counter',
} as const

const spanReadings = (counts: PipelineCounts | undefined): readonly Reading[] =>
  Object.entries(counts ?? {}).map(([result, value]) => ({
    metric: spansMetric,
    labels: { 'portico.result': result },
    value,
  }))

class Observed implements Observation {
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
