import { constants, fstatSync, write as writeWithCallback } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Logger } from 'pino'

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

export interface Target {
  /** Makes sure that the next bytes go to the right file. Called only at the beginning of a line. */
  ready(): Promise<void>
  write(bytes: Buffer): Promise<number>
  close(): Promise<void>
}

/** Non-blocking flags: if nobody reads a pipe, the write fails at once instead of waiting forever. */
const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK
const OWNER_ALONE = 0o600
/** The interval of the check whether the file was renamed or removed. */
const CHECK_EVERY_MS = 500

/** Appends to a file. It creates the file if it is missing, or was renamed or removed. */
export class FileTarget implements Target {
  readonly #path: string
  #handle: FileHandle | undefined
  #inode = ''
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  async ready(): Promise<void> {
    const now = performance.now()
    if (this.#handle !== undefined && now - this.#checkedAt < CHECK_EVERY_MS) return
    if (this.#handle !== undefined && (await inodeAt(this.#path)) === this.#inode) {
      this.#checkedAt = now
      return
    }
    await this.close()
    const handle = await open(this.#path, FLAGS, OWNER_ALONE)
    this.#inode = formatInode(await handle.stat())
    this.#handle = handle
    this.#checkedAt = now
  }

  async write(bytes: Buffer): Promise<number> {
    if (this.#handle === undefined) throw new Error('the file is not open')
    return (await this.#handle.write(bytes)).bytesWritten
  }

  async close(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    await handle?.close()
  }
}

const formatInode = ({ dev, ino }: { readonly dev: number; readonly ino: number }): string => `${dev}:${ino}`

const inodeAt = (path: string): Promise<string | undefined> =>
  stat(path).then(formatInode, (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })

const write = promisify(writeWithCallback)
const STDOUT = 1

/**
 * Writes to standard output without Node's stream, which blocks the process if the reader of a pipe is slow. A pipe is
 * opened again as non-blocking; otherwise a thread waits.
 */
export class StdoutTarget implements Target {
  #handle: FileHandle | undefined
  #isReady = false

  async ready(): Promise<void> {
    if (this.#isReady) return
    this.#isReady = true
    if (!fstatSync(STDOUT).isFIFO()) return
    this.#handle = await open('/dev/stdout', constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined)
  }

  async write(bytes: Buffer): Promise<number> {
    return this.#handle === undefined
      ? (await write(STDOUT, bytes)).bytesWritten
      : (await this.#handle.write(bytes)).bytesWritten
  }

  async close(): Promise<void> {
    await this.#handle?.close()
  }
}
