import { hostname } from 'node:os'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider, PeriodicExportingMetricReader, type PushMetricExporter } from '@opentelemetry/sdk-metrics'
import type { OpenTelemetrySettings } from '../../config/telemetry/telemetry.ts'
import type { Observation, Observe, Operation, Origin, Outcome, TraceContext } from '../observe.ts'
import type { TelemetryConfig, TelemetryOptions } from '../options.ts'
import { CountedSpans, Outcomes, type SpanCounts } from './counted-spans.ts'
import { cardinalityLimit, Durations } from './durations.ts'
import { exportOptions, signalUrl } from './exporting.ts'
import { Spans, type Traced } from './spans.ts'

export type PipelineCounts = Readonly<SpanCounts>

const METRICS_EVERY_MS = 60_000

/** Everything that one configuration puts in force: what observes, and what sends it. */
export class Pipeline {
  readonly observe: Observe
  readonly #spans: Spans | undefined
  readonly #counted: CountedSpans | undefined
  readonly #meters: MeterProvider | undefined

  constructor(settings: OpenTelemetrySettings, config: TelemetryConfig, options: TelemetryOptions) {
    const resource = resourceOf(settings, config, options)
    const exporting = exportOptions(settings, config.directory)
    const { tracing, metrics, useLegacyAttributes } = settings
    if (tracing?.enabled === true) {
      const exporter = new OTLPTraceExporter({ ...exporting, url: signalUrl(settings, 'traces') })
      this.#counted = new CountedSpans(exporter, options.log, options.spansAfterMs)
      this.#spans = new Spans({
        resource,
        processor: this.#counted,
        rate: Number(tracing.samplingRate ?? '0.05'),
        older: useLegacyAttributes !== false,
        version: options.version,
      })
    }
    if (metrics?.enabled === true) {
      const exporter = new OTLPMetricExporter({ ...exporting, url: signalUrl(settings, 'metrics') })
      this.#meters = metersOf(logged(exporter, options), resource, options.metricsEveryMs ?? METRICS_EVERY_MS)
    }
    const meter = this.#meters?.getMeter('portico', options.version)
    const durations = meter && new Durations(options.role, meter)
    const counted = this.#counted
    if (counted !== undefined)
      meter
        ?.createObservableCounter('portico.telemetry.spans', { unit: '{span}', description: 'What became of spans.' })
        .addCallback((observed) => {
          for (const [result, count] of Object.entries(counted.counts))
            observed.observe(count, { 'portico.result': result })
        })
    const spans = this.#spans
    this.observe = (operation, origin) => new Observed(operation, origin, spans, durations)
  }

  get counts(): PipelineCounts | undefined {
    return this.#counted && { ...this.#counted.counts }
  }

  /** Sends what is left, and ends. */
  async close(): Promise<void> {
    // The last metrics tell of the last spans.
    await this.#spans?.shutdown().catch(() => {
      // The spans that are not taken are counted.
    })
    await this.#meters?.shutdown()
  }
}

/** Who reports. `service.name` is the workload's alone to say. */
function resourceOf(
  { resourceAttributes = {} }: OpenTelemetrySettings,
  { telemetry, workload, namespace }: TelemetryConfig,
  { version }: TelemetryOptions,
): Resource {
  return resourceFromAttributes({
    ...(namespace === undefined ? {} : { 'service.namespace': namespace }),
    'service.version': version,
    // Replicas are told apart by the names of their pods.
    'service.instance.id': hostname(),
    ...resourceAttributes,
    'service.name': telemetry?.serviceName ?? workload,
  })
}

function metersOf(exporter: PushMetricExporter, resource: Resource, everyMs: number): MeterProvider {
  const reader = new PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: everyMs,
    exportTimeoutMillis: Math.min(everyMs, METRICS_EVERY_MS / 2),
    cardinalityLimits: { default: cardinalityLimit },
  })
  return new MeterProvider({ resource, readers: [reader] })
}

/** The exporter, with what becomes of its exports in the log. */
function logged(exporter: OTLPMetricExporter, { log }: TelemetryOptions): PushMetricExporter {
  const outcomes = new Outcomes(log, 'metrics')
  return {
    export: (metrics, done) =>
      exporter.export(metrics, (result) => {
        outcomes.took(result)
        done(result)
      }),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
    selectAggregationTemporality: (type) => exporter.selectAggregationTemporality(type),
    selectAggregation: (type) => exporter.selectAggregation(type),
  }
}

/** One operation under way. */
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
    // Checking a token has no place in a trace of its own.
    const isTraced = operation.kind !== 'decision' || around !== undefined
    this.#traced = isTraced ? spans?.begin(operation, origin, around, this.#startedAt) : undefined
  }

  get trace(): TraceContext | undefined {
    const traced = this.#traced
    return traced !== undefined && 'span' in traced ? traced.context : traced
  }

  step(name: string, from: number, to: number): void {
    if (this.#traced !== undefined && 'span' in this.#traced) this.#spans?.step(this.#traced.span, name, from, to)
  }

  end(outcome: Outcome): void {
    if (this.#isOver) return
    this.#isOver = true
    const now = performance.now()
    this.#durations?.record(this.#operation, outcome, now - this.#startedAt)
    if (this.#traced === undefined || !('span' in this.#traced)) return
    const target = this.#origin?.target?.()
    const name = target === undefined ? undefined : `${this.#operation.name} ${target}`
    this.#spans?.end(this.#traced.span, outcome, now, name)
  }
}
