import { isDeepStrictEqual } from 'node:util'
import { type OpenTelemetrySettings, otlpEndpoint } from '../config/telemetry/telemetry.ts'
import { type Observe, observeNothing } from './observe.ts'
import type { TelemetryConfig, TelemetryOptions } from './options.ts'
import type { Pipeline, PipelineCounts } from './sdk/pipeline.ts'

/** How long a process that stops waits for what is still to be sent. */
const LAST_EXPORT_MS = 2_000

/** Sends what is observed to where the configuration says, which may change. The SDK is loaded when it is first needed. */
export class Telemetry {
  /** The same for ever, whatever is configured. */
  readonly observe: Observe = (operation, origin) => this.#observe(operation, origin)
  readonly #options: TelemetryOptions
  #observe: Observe = observeNothing
  #pipeline: Pipeline | undefined
  #inForce: TelemetryConfig | undefined
  #applied: Promise<void> = Promise.resolve()

  constructor(options: TelemetryOptions) {
    this.#options = options
  }

  /** Puts a configuration in force, after those before it. Never rejects: nothing fails for want of telemetry. */
  apply(config: TelemetryConfig): Promise<void> {
    this.#applied = this.#applied
      .then(() => this.#replace(config))
      .catch((error: unknown) => this.#options.log.error({ err: error }, 'telemetry can’t be put in force'))
    return this.#applied
  }

  async #replace(config: TelemetryConfig): Promise<void> {
    if (isDeepStrictEqual(config, this.#inForce)) return
    const before = this.#pipeline
    const settings = config.telemetry?.openTelemetry
    if (settings !== undefined && sends(settings)) {
      const { Pipeline } = await import('./sdk/pipeline.ts')
      this.#pipeline = new Pipeline(settings, config, this.#options)
      this.#observe = this.#pipeline.observe
    } else {
      this.#pipeline = undefined
      this.#observe = observeNothing
    }
    this.#inForce = config
    before?.close().catch((error: unknown) => this.#options.log.debug({ err: error }, 'ending an export'))
  }

  /** Its part of `/status`: what became of spans, where any are sent. */
  status(): { readonly telemetry?: { readonly spans: PipelineCounts } } {
    const spans = this.#pipeline?.counts
    return spans === undefined ? {} : { telemetry: { spans } }
  }

  /** Sends what is left, as far as that goes at once. */
  async close(): Promise<void> {
    await this.#applied
    this.#observe = observeNothing
    const patience = Promise.withResolvers<void>()
    const timer = setTimeout(patience.resolve, LAST_EXPORT_MS)
    const closing = this.#pipeline?.close().catch(() => {
      // Whoever is to take it is away; the log has it.
    })
    await Promise.race([closing, patience.promise])
    clearTimeout(timer)
  }
}

/** Whether anything is sent under these settings. */
const sends = (settings: OpenTelemetrySettings): boolean =>
  settings.enabled === true &&
  settings.endpoint !== undefined &&
  otlpEndpoint(settings) !== undefined &&
  (settings.tracing?.enabled === true || settings.metrics?.enabled === true)
