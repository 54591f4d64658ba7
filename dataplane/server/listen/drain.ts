import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** Where a preStop hook asks, on the admin listener. */
export const PRE_STOP = '/pre-stop'

/** How a listener ends, in milliseconds since it was known that it will. */
export interface DrainTimes {
  /** For so long new connections are taken as before: load balancers and kube-proxies learn of the end meanwhile. */
  readonly noticeMs: number
  /** For so long idle connections stay open, so that their clients are told with an answer. */
  readonly idleMs: number
  /** What is in flight after that is cut. */
  readonly graceMs: number
}

/** Nobody sends anything here that has to learn of the end: what is in flight alone is waited for. */
export const atOnce = (graceMs: number): DrainTimes => ({ noticeMs: 0, idleMs: 0, graceMs })

const IDLE_MS = 10_000
/** Kept of the grace period for what ends after the listeners. */
const LAST_MS = 3_000

/**
 * The times of a process that new requests reach for `noticeSeconds` after it was asked to end, and that is killed after
 * `graceSeconds`. A grace period that is short is shared out.
 */
export function drainTimes(noticeSeconds: number, graceSeconds: number): DrainTimes {
  const graceMs = graceSeconds * 1000 - Math.min(LAST_MS, graceSeconds * 250)
  const noticeMs = Math.min(noticeSeconds * 1000, graceMs / 2)
  return { noticeMs, idleMs: noticeMs === 0 ? 0 : Math.min(Math.max(IDLE_MS, noticeMs), graceMs * 0.75), graceMs }
}

const POLL_MS = 20

/**
 * The end of one listener. A client that finds its kept connection closed can't know whether the request that it just sent
 * was read, so it is told first: each answer closes its connection (RFC 9112, section 9.6).
 */
export class Drain {
  readonly #server: Server
  readonly #unused: ReadonlySet<Socket>
  /** When it began, on the clock of `performance`. */
  #since: number | undefined
  #isClosing = false

  /** `unused`: connections on which nothing has been asked yet. */
  constructor(server: Server, unused: ReadonlySet<Socket>) {
    this.#server = server
    this.#unused = unused
  }

  /** Whether answers close their connections. */
  get hasBegun(): boolean {
    return this.#since !== undefined
  }

  /** See `Listener.empty`. */
  async empty(times: DrainTimes, takenBackMs: number, endStreams: () => void): Promise<void> {
    this.#since ??= performance.now()
    const takeBack = () => {
      if (!this.#isClosing) this.#since = undefined
    }
    setTimeout(takeBack, takenBackMs).unref()
    for (const ms of [times.noticeMs / 2, times.noticeMs]) {
      await this.#reached(ms)
      endStreams()
    }
    await this.#emptyOr(times.idleMs)
    const sweep = this.#sweep()
    await this.#emptyOr(times.graceMs)
    clearInterval(sweep)
  }

  /** See `Listener.close`. */
  async end(times: DrainTimes, closing: AbortController): Promise<void> {
    this.#since ??= performance.now()
    this.#isClosing = true
    if (times.noticeMs > 0) await this.#reached(times.noticeMs)
    closing.abort()
    if (times.idleMs > 0) await this.#emptyOr(times.idleMs)
    const gone = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const socket of this.#unused) if (socket.bytesRead === 0) socket.destroy()
    // `close` ends idle connections once; those that become idle while we wait would stay until their keep-alive ends.
    const sweep = this.#sweep()
    const cut = setTimeout(() => this.#server.closeAllConnections(), Math.max(0, times.graceMs - this.#elapsed))
    await gone
    clearInterval(sweep)
    clearTimeout(cut)
  }

  get #elapsed(): number {
    return this.#since === undefined ? Number.POSITIVE_INFINITY : performance.now() - this.#since
  }

  #sweep(): NodeJS.Timeout {
    return setInterval(() => this.#server.closeIdleConnections(), POLL_MS)
  }

  /** Resolves when so many milliseconds have passed since the beginning. */
  async #reached(ms: number): Promise<void> {
    const left = ms - this.#elapsed
    if (left > 0) await delay(left)
  }

  /** Resolves when no connection is left, or so many milliseconds have passed since the beginning. */
  async #emptyOr(ms: number): Promise<void> {
    while (this.#elapsed < ms && (await this.#connections()) > 0)
      await delay(Math.max(0, Math.min(POLL_MS, ms - this.#elapsed)))
  }

  #connections(): Promise<number> {
    return new Promise((resolve) => {
      this.#server.getConnections((error, count) => resolve(error ? 0 : count))
    })
  }
}
