import type { ExportResult } from '@opentelemetry/core'
import type { ReadableSpan, Span, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace'
import { BatchSpanProcessor } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'

/** The most waiting spans: while that many wait, further spans are dropped. */
const MOST_WAITING = 2_048

export interface SpanCounts {
  sent: number
  failed: number
  dropped: number
}

/** Sends spans in batches, and counts the outcomes. */
export class CountedSpans implements SpanProcessor {
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
export class Outcomes {
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
