import { type HrTime, ValueType } from '@opentelemetry/api'
import { ExportResultCode, millisToHrTime } from '@opentelemetry/core'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { emptyResource, type Resource, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AggregationTemporality,
  DataPointType,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics'
import type { OpenTelemetrySettings } from '../../config/telemetry.ts'
import type { Family } from '../metrics/family.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { buildResourceAttributes, type TelemetryConfig, type TelemetryOptions } from '../options.ts'
import { CountedSpans, Outcomes, type SpanCounts } from './counted-spans.ts'
import { exportOptions, signalUrl } from './exporting.ts'
import { Spans } from './spans.ts'

export type PipelineCounts = Readonly<SpanCounts>

const METRICS_EVERY_MS = 60_000

/** Sends by OTLP under one configuration: spans that it makes, and the metrics of the process. */
export class Pipeline {
  readonly spans: Spans | undefined
  readonly #counted: CountedSpans | undefined
  readonly #meters: MeterProvider | undefined
  #isGivenUp = false

  /** `metrics`: those that are sent; undefined if none are. */
  constructor(
    settings: OpenTelemetrySettings,
    config: TelemetryConfig,
    options: TelemetryOptions,
    metrics: Metrics | undefined,
  ) {
    const resource = resourceFromAttributes(buildResourceAttributes(config, options))
    const exporting = exportOptions(settings, config.directory)
    const { tracing, useLegacyAttributes } = settings
    if (tracing?.enabled === true) {
      const exporter = new OTLPTraceExporter({ ...exporting, url: signalUrl(settings, 'traces') })
      this.#counted = new CountedSpans(exporter, options.log, options.spansAfterMs)
      this.spans = new Spans({
        resource,
        processor: this.#counted,
        rate: Number(tracing.samplingRate ?? '0.05'),
        older: useLegacyAttributes !== false,
        version: options.version,
      })
    }
    if (metrics !== undefined) {
      const exporter = new OTLPMetricExporter({ ...exporting, url: signalUrl(settings, 'metrics') })
      const producer = metricProducer(metrics, options.version)
      this.#meters = buildMeters(this.#logged(exporter, options), producer, resource, options.metricsEveryMs)
    }
  }

  get counts(): PipelineCounts | undefined {
    return this.#counted && { ...this.#counted.counts }
  }

  async close(): Promise<void> {
    // Spans are sent first, so that the last metrics count them.
    await this.spans?.shutdown().catch(() => {
      // Spans that are not accepted are counted.
    })
    await this.#meters?.shutdown()
  }

  /** Starts no more exports of metrics: the endpoint is unreachable. Running exports end within their time. */
  giveUp(): void {
    this.#isGivenUp = true
  }

  /** Makes the exporter log the outcomes of its exports. */
  #logged(exporter: OTLPMetricExporter, { log }: TelemetryOptions): PushMetricExporter {
    const outcomes = new Outcomes(log, 'metrics')
    return {
      export: (metrics, done) => {
        if (this.#isGivenUp) return done({ code: ExportResultCode.FAILED })
        exporter.export(metrics, (result) => {
          outcomes.took(result)
          done(result)
        })
      },
      forceFlush: () => exporter.forceFlush(),
      shutdown: () => exporter.shutdown(),
      selectAggregationTemporality: (type) => exporter.selectAggregationTemporality(type),
      selectAggregation: (type) => exporter.selectAggregation(type),
    }
  }
}

function buildMeters(
  exporter: PushMetricExporter,
  producer: MetricProducer,
  resource: Resource,
  everyMs = METRICS_EVERY_MS,
): MeterProvider {
  const reader = new PeriodicExportingMetricReader({
    exporter,
    metricProducers: [producer],
    exportIntervalMillis: everyMs,
    exportTimeoutMillis: Math.min(everyMs, METRICS_EVERY_MS / 2),
  })
  return new MeterProvider({ resource, readers: [reader] })
}

/** Passes all metrics to a reader of the SDK, which sends them (OpenTelemetry SDK specification, MetricProducer). */
function metricProducer(metrics: Metrics, version: string): MetricProducer {
  return {
    async collect() {
      const endTime = millisToHrTime(Date.now())
      const scope = { name: 'portico', version }
      const scopeMetrics = [{ scope, metrics: metrics.read().map((family) => buildMetricData(family, endTime)) }]
      return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] }
    },
  }
}

function buildMetricData(family: Family, endTime: HrTime): MetricData {
  const { name, description, unit, type } = family.metric
  const common = {
    descriptor: { name, description, unit, valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  }
  if ('series' in family) {
    const boundaries = [...family.bounds]
    const dataPoints = family.series.map(({ labels, startedAt, count, sum, buckets }) => ({
      startTime: millisToHrTime(startedAt),
      endTime,
      attributes: labels,
      value: { count, sum, buckets: { boundaries, counts: [...buckets] } },
    }))
    return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints }
  }
  const dataPoints = family.points.map(({ labels, value, startedAt }) => ({
    startTime: millisToHrTime(startedAt),
    endTime,
    attributes: labels,
    value,
  }))
  if (type === 'gauge') return { ...common, dataPointType: DataPointType.GAUGE, dataPoints }
  return { ...common, dataPointType: DataPointType.SUM, dataPoints, isMonotonic: true }
}
