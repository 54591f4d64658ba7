import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Target } from './file-target.ts'

/** Most bytes of lines that wait. Whoever makes events never waits: lines beyond it are lost, and counted. */
const MOST_WAITING = 8 * 1024 * 1024
/** Lines are gathered for so long before they are written: a write of its own for each took 30 µs of processor time. */
const GATHER_MS = 10
/** Before it is tried again where it failed. */
const RETRY_MS = 1_000
/** Before it is tried again where the reader of a pipe has not kept up. */
const BUSY_MS = 20

export interface AuditCounts {
  /** Lines that are written. */
  written: number
  /** Lines that found no room while others waited. */
  lost: number
}

interface WriterOptions {
  readonly target: Target
  /** What it is called in the log and in `/status`. */
  readonly name: string
  readonly log: Logger
  readonly counts: AuditCounts
  /** The line that tells of so many that were lost. */
  readonly lossLine: (count: number) => string
  readonly mostWaiting?: number
}

/** Writes lines in their order, those of some milliseconds at once; those that come while it writes wait. */
export class AuditWriter {
  /** Why lines are not written at the moment; undefined where they are. */
  problem: string | undefined
  readonly #options: WriterOptions
  readonly #most: number
  #lines: string[] = []
  /** How many are being written. */
  #underWay = 0
  /** Bytes of lines that wait or are being written. */
  #bytes = 0
  /** Lines lost since the last one that told of them. */
  #untold = 0
  #writing: Promise<void> | undefined
  readonly #ending = new AbortController()

  constructor(options: WriterOptions) {
    this.#options = options
    this.#most = options.mostWaiting ?? MOST_WAITING
  }

  /** Takes a line that ends with a line feed. */
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

  /** Writes all of it, however long that takes; gives up at the end alone. */
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
    this.#options.log.info({ audit: this.#options.name }, 'the audit log is written again')
  }

  async #failed({ code, message }: NodeJS.ErrnoException): Promise<void> {
    const { name, log } = this.#options
    const isBusy = code === 'EAGAIN'
    if (!isBusy && this.problem === undefined) {
      this.problem = `${name} can’t be written: ${code ?? message}`
      log.error(
        { audit: name, code: code ?? message },
        'the audit log can’t be written; events wait, as many as there is room for',
      )
    }
    await delay(isBusy ? BUSY_MS : RETRY_MS, undefined, { signal: this.#ending.signal }).catch(() => {
      // It ends: nothing is tried again.
    })
  }

  /** Writes what waits, for so many milliseconds at most. */
  async close(patienceMs: number): Promise<void> {
    const patience = new AbortController()
    await Promise.race([this.#writing, delay(patienceMs, undefined, patience).catch(() => undefined)])
    patience.abort()
    this.#ending.abort()
    this.#options.counts.lost += this.#lines.length + this.#underWay
    await this.#options.target.close().catch(() => {
      // What it took is written.
    })
  }
}
