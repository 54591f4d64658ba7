import { Agent as PlainAgent } from 'node:http'
import { Agent, type AgentOptions } from 'node:https'
import { resolve } from 'node:path'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { type HrTime, ValueType } from '@opentelemetry/api'
import { type ExportResult, ExportResultCode, millisToHrTime } from '@opentelemetry/core'
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
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type Span,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import { otlpEndpoint } from '../../config/check/telemetry.ts'
import { secretFile } from '../../config/secret-file.ts'
import type { OpenTelemetrySettings } from '../../config/telemetry.ts'
import { guardedLookup } from '../../net/connect.ts'
import type { Family } from '../metrics/family.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { buildResourceAttributes, type TelemetryConfig, type TelemetryOptions } from '../options.ts'
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
      this.#meters = buildMeters(this.#logOutcomes(exporter, options), producer, resource, options.metricsEveryMs)
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
  #logOutcomes(exporter: OTLPMetricExporter, { log }: TelemetryOptions): PushMetricExporter {
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

const EXPORT_MS = 10_000
const CONNECTIONS = 4

/** The common settings of both exporters: options of `OTLPExporterNodeConfigBase`, except the URL. */
interface ExportOptions {
  readonly headers: () => Promise<Record<string, string>>
  readonly httpAgentOptions: (protocol: string) => PlainAgent
  readonly timeoutMillis: number
}

/** Returns the options for the exporters. Secret headers and the CA bundle are reread when their files change. */
function exportOptions(settings: OpenTelemetrySettings, directory: string): ExportOptions {
  const { headers = {}, sensitiveHeaders = [], caBundleFile } = settings
  const secrets = sensitiveHeaders.map(({ name, file }) => ({ name, read: secretFile(resolve(directory, file)) }))
  const bundle = caBundleFile === undefined ? undefined : new Bundle(resolve(directory, caBundleFile))
  // An address in the URL itself has been checked with the configuration.
  const lookup = guardedLookup({ allowPrivateIP: true })
  return {
    // An error here fails the attempt: nothing is sent without its credential, or to an untrusted server.
    async headers() {
      bundle?.read()
      return { ...headers, ...Object.fromEntries(secrets.map(({ name, read }) => [name, read()])) }
    },
    httpAgentOptions(protocol) {
      const options = { keepAlive: true, maxSockets: CONNECTIONS, timeout: EXPORT_MS, lookup }
      if (protocol === 'http:') return new PlainAgent(options)
      return bundle === undefined ? new Agent(options) : new BundleAgent(options, bundle)
    },
    timeoutMillis: EXPORT_MS,
  }
}

/** Returns the URL of one signal: below the endpoint, as OTLP over HTTP defines it. */
function signalUrl(settings: OpenTelemetrySettings, signal: 'traces' | 'metrics'): string {
  const { origin = '', pathname = '' } = otlpEndpoint(settings) ?? {}
  return `${origin}${pathname.replace(/\/+$/, '')}/v1/${signal}`
}

/** The trusted CAs: the system's, and those of a file as it was last read. */
class Bundle {
  version = 0
  trusted: SecureContext | undefined
  readonly #read: () => string
  #text: string | undefined

  constructor(file: string) {
    this.#read = secretFile(file)
  }

  /** Reads the file if it has changed. Throws if it can't be read or holds no certificates. */
  read(): void {
    const text = this.#read()
    if (text === this.#text) return
    this.trusted = createSecureContext({ ca: [...getCACertificates('default'), text] })
    this.#text = text
    this.version++
  }
}

/** Opens connections to servers that a bundle trusts. Nothing here throws: sockets that close ask for their name. */
class BundleAgent extends Agent {
  readonly #bundle: Bundle

  constructor(options: AgentOptions, bundle: Bundle) {
    super(options)
    this.#bundle = bundle
  }

  /** Returns the name under which connections are kept: one that was opened under another bundle is not reused. */
  override getName(options?: AgentOptions): string {
    return `${super.getName(options)}:${this.#bundle.version}`
  }

  override createConnection(...[options, callback]: Parameters<Agent['createConnection']>) {
    return super.createConnection({ ...options, secureContext: this.#bundle.trusted } as AgentOptions, callback)
  }
}

/** The most waiting spans: while that many wait, further spans are dropped. */
const MOST_WAITING = 2_048

interface SpanCounts {
  sent: number
  failed: number
  dropped: number
}

/** Sends spans in batches, and counts the outcomes. */
class CountedSpans implements SpanProcessor {
  readonly counts: SpanCounts = { sent: 0, failed: 0, dropped: 0 }
  readonly #batches: BatchSpanProcessor
  #waiting = 0

  constructor(exporter: SpanExporter, log: Logger, scheduledDelayMillis = 5_000) {
    const { counts } = this
    const outcomes = new Outcomes(log, 'spans')
    const counted: SpanExporter = {
      export: (spans, done) => {
        this.#waiting -= spans.length
        exporter.export(spans, (result) => {
          if (outcomes.took(result)) counts.sent += spans.length
          else counts.failed += spans.length
          done(result)
        })
      },
      shutdown: () => exporter.shutdown(),
      forceFlush: async () => exporter.forceFlush?.(),
    }
    this.#batches = new BatchSpanProcessor({ exporter: counted, maxQueueSize: MOST_WAITING, scheduledDelayMillis })
  }

  onStart(span: Span, context: Parameters<SpanProcessor['onStart']>[1]): void {
    this.#batches.onStart(span, context)
  }

  onEnd(span: ReadableSpan): void {
    if (this.#waiting >= MOST_WAITING) {
      this.counts.dropped++
      return
    }
    this.#waiting++
    this.#batches.onEnd(span)
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush()
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown()
  }
}

/** Logs when an endpoint begins to fail and when it recovers, but none of its answers. */
class Outcomes {
  readonly #log: Logger
  readonly #what: string
  #fails = false

  constructor(log: Logger, what: string) {
    this.#log = log
    this.#what = what
  }

  took({ code, error }: ExportResult): boolean {
    const fails = code !== 0
    if (fails && !this.#fails) {
      const reason = (error as { code?: unknown } | undefined)?.code ?? error?.name
      this.#log.warn({ what: this.#what, reason }, 'the endpoint does not accept telemetry')
    } else if (!fails && this.#fails) this.#log.info({ what: this.#what }, 'the endpoint accepts telemetry again')
    this.#fails = fails
    return !fails
  }
}
