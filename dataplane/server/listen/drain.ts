import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** The path on the admin listener that a preStop hook calls. */
export const PRE_STOP = '/pre-stop'

/** The times of a listener's shutdown, in milliseconds since it was announced. */
export interface DrainTimes {
  /** New connections are accepted until then: load balancers and kube-proxies learn of the shutdown meanwhile. */
  readonly noticeMs: number
  /** Idle connections stay open until then, so that their clients learn of the shutdown with an answer. */
  readonly idleMs: number
  /** Requests that are still in flight then are cut. */
  readonly graceMs: number
}

/** Returns times without notice: only requests in flight are waited for. */
export const atOnce = (graceMs: number): DrainTimes => ({ noticeMs: 0, idleMs: 0, graceMs })

const IDLE_MS = 10_000
/** The part of the grace period that is kept for work after the listeners have closed. */
const LAST_MS = 3_000

/**
 * Returns the times of a process that new requests reach for `noticeSeconds`, and that is killed after `graceSeconds`.
 */
export function drainTimes(noticeSeconds: number, graceSeconds: number): DrainTimes {
  const graceMs = graceSeconds * 1000 - Math.min(LAST_MS, graceSeconds * 250)
  const noticeMs = Math.min(noticeSeconds * 1000, graceMs / 2)
  return { noticeMs, idleMs: noticeMs === 0 ? 0 : Math.min(Math.max(IDLE_MS, noticeMs), graceMs * 0.75), graceMs }
}

const POLL_MS = 20

/**
 * The shutdown of one listener. Each answer closes its connection first (RFC 9112, section 9.6): a client that finds a
 * closed one can't know whether its request was read.
 */
export class Drain {
  readonly #server: Server
  readonly #unused: ReadonlySet<Socket>
  #since: number | undefined
  #isClosing = false

  /** `unused`: connections without a request so far. */
  constructor(server: Server, unused: ReadonlySet<Socket>) {
    this.#server = server
    this.#unused = unused
  }

  get hasBegun(): boolean {
    return this.#since !== undefined
  }

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

  async end(times: DrainTimes, closing: AbortController): Promise<void> {
    this.#since ??= performance.now()
    this.#isClosing = true
    if (times.noticeMs > 0) await this.#reached(times.noticeMs)
    closing.abort()
    if (times.idleMs > 0) await this.#emptyOr(times.idleMs)
    const gone = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const socket of this.#unused) if (socket.bytesRead === 0) socket.destroy()
    // `close` ends idle connections once. Those that become idle later would stay until their keep-alive ends.
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

  async #reached(ms: number): Promise<void> {
    const left = ms - this.#elapsed
    if (left > 0) await delay(left)
  }

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
