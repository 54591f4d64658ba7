import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Target } from './file-target.ts'

/** The most bytes of queued lines. Callers never wait: lines beyond it are lost and counted. */
const MOST_WAITING = 8 * 1024 * 1024
/** The time for which lines are batched before a write. One write for each line took 30 µs of processor time. */
const GATHER_MS = 10
/** The delay before a retry after a failed write. */
const RETRY_MS = 1_000
/** The delay before a retry when the reader of a pipe is slow. */
const BUSY_MS = 20

export interface AuditCounts {
  written: number
  lost: number
}

interface WriterOptions {
  readonly target: Target
  readonly name: string
  readonly log: Logger
  readonly counts: AuditCounts
  readonly lossLine: (count: number) => string
  readonly mostWaiting?: number
}

/** Writes lines in order and in batches. Lines that arrive during a write are queued. */
export class AuditWriter {
  /** The reason why lines can't be written at the moment; undefined while they can. */
  problem: string | undefined
  readonly #options: WriterOptions
  readonly #most: number
  #lines: string[] = []
  /** The number of lines being written. */
  #underWay = 0
  #bytes = 0
  /** Lines lost since the last report of lost lines. */
  #untold = 0
  #writing: Promise<void> | undefined
  readonly #ending = new AbortController()

  constructor(options: WriterOptions) {
    this.#options = options
    this.#most = options.mostWaiting ?? MOST_WAITING
  }

  take(line: string): void {
    const size = Buffer.byteLength(line)
    if (this.#bytes + size > this.#most || this.#ending.signal.aborted) {
      this.#options.counts.lost++
      this.#untold++
      return
    }
    if (this.#untold > 0) {
      this.#hold(this.#options.lossLine(this.#untold))
      this.#untold = 0
    }
    this.#hold(line, size)
    this.#writing ??= this.#writeAll()
  }

  #hold(line: string, size = Buffer.byteLength(line)): void {
    this.#lines.push(line)
    this.#bytes += size
  }

  async #writeAll(): Promise<void> {
    while (this.#lines.length > 0 && !this.#ending.signal.aborted) {
      await delay(GATHER_MS)
      const lines = this.#lines
      this.#lines = []
      this.#underWay = lines.length
      await this.#write(Buffer.from(lines.join('')))
      if (this.#ending.signal.aborted) break
      this.#options.counts.written += lines.length
      this.#underWay = 0
    }
    this.#writing = undefined
  }

  /** Writes all bytes, however long that takes. It stops early only when the writer closes. */
  async #write(bytes: Buffer): Promise<void> {
    const { target } = this.#options
    let at = 0
    while (at < bytes.length && !this.#ending.signal.aborted)
      try {
        if (at === 0) await target.ready()
        at += await target.write(bytes.subarray(at))
        this.#took()
      } catch (error) {
        await this.#failed(error as NodeJS.ErrnoException)
      }
    this.#bytes -= bytes.length
  }

  #took(): void {
    if (this.problem === undefined) return
    this.problem = undefined
    this.#options.log.info({ audit: this.#options.name }, 'the audit log can be written again')
  }

  async #failed({ code, message }: NodeJS.ErrnoException): Promise<void> {
    const { name, log } = this.#options
    const isBusy = code === 'EAGAIN'
    if (!isBusy && this.problem === undefined) {
      this.problem = `${name} can’t be written: ${code ?? message}`
      log.error(
        { audit: name, code: code ?? message },
        'the audit log can’t be written; events are queued, and dropped once the queue is full',
      )
    }
    await delay(isBusy ? BUSY_MS : RETRY_MS, undefined, { signal: this.#ending.signal }).catch(() => {
      // The writer is closing: it retries nothing.
    })
  }

  /** Writes the queued lines within `patienceMs` milliseconds. */
  async close(patienceMs: number): Promise<void> {
    const patience = new AbortController()
    await Promise.race([this.#writing, delay(patienceMs, undefined, patience).catch(() => undefined)])
    patience.abort()
    this.#ending.abort()
    this.#options.counts.lost += this.#lines.length + this.#underWay
    await this.#options.target.close().catch(() => {
      // The target has written what it accepted.
    })
  }
}
