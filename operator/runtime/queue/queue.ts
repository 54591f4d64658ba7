import type { Logger } from 'pino'
import { type Backoff, backoffDelay } from '../../../dataplane/retry/backoff.ts'

/** Returns the key of an object in queues and maps: `kind/namespace/name`. */
export const formatKey = (kind: string, namespace: string, name: string): string => `${kind}/${namespace}/${name}`

export function splitKey(key: string): { kind: string; namespace: string; name: string } {
  const [kind = '', namespace = '', name = ''] = key.split('/')
  return { kind, namespace, name }
}

/** Returns the name of our finalizer, which keeps a config that is still referenced. */
export const formatFinalizerName = (group: string): string => `${group}/in-use`

/** Returns the name of the finalizer that keeps the operator's rights while the other one keeps a config. */
export const formatRightsFinalizerName = (group: string): string => `${group}/release-first`

/**
 * A queue of keys for several workers, with the promises of client-go's work queue: a key waits at most once; a key in
 * work is not handed out again, and waits afterwards if it was added meanwhile.
 */
export class KeyedQueue {
  readonly #backoff: Backoff
  readonly #waiting = new Set<string>()
  readonly #working = new Set<string>()
  /** Keys that were added while in work, with true if every addition was `isOwn`. */
  readonly #dirty = new Map<string, boolean>()
  readonly #failures = new Map<string, number>()
  readonly #timers = new Map<string, { timer: NodeJS.Timeout; due: number }>()
  readonly #takers: ((key: string | undefined) => void)[] = []
  #closed = false
  #handled = 0

  constructor(backoff: Backoff = { first: 50, longest: 60_000 }) {
    this.#backoff = backoff
  }

  get depth(): number {
    return this.#waiting.size
  }

  get working(): number {
    return this.#working.size
  }

  get handled(): number {
    return this.#handled
  }

  /** The number of keys that wait for a retry or until a later time. */
  get delayed(): number {
    return this.#timers.size
  }

  /** Adds a key; with `isOwn` because of something that belongs to it alone, such as an object that it has written. */
  add(key: string, isOwn = false): void {
    if (this.#closed) return
    this.#cancelTimer(key)
    if (this.#working.has(key)) {
      this.#dirty.set(key, isOwn && (this.#dirty.get(key) ?? true))
      return
    }
    if (this.#waiting.has(key)) return
    const taker = this.#takers.shift()
    if (taker) {
      this.#working.add(key)
      taker(key)
    } else {
      this.#waiting.add(key)
    }
  }

  /** Adds a key after a while. An earlier time that is already set stays. */
  addAfter(key: string, ms: number): void {
    if (this.#closed || this.#waiting.has(key)) return
    const due = Date.now() + ms
    const set = this.#timers.get(key)
    if (set && set.due <= due) return
    this.#cancelTimer(key)
    this.#timers.set(key, { due, timer: setTimeout(() => this.add(key), ms) })
  }

  /** Adds a key after at least `atLeast` milliseconds, doubled with each failure since the last `forget`. */
  retry(key: string, atLeast = 0): void {
    const failures = this.#failures.get(key) ?? 0
    this.#failures.set(key, failures + 1)
    this.addAfter(key, Math.max(atLeast, backoffDelay(failures, this.#backoff)))
  }

  /** Resets the failures of a key, so that its next failure waits the shortest time again. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0
  }

  /** Returns the next key once there is one, or undefined if the queue is closed. The caller must call `done`. */
  take(): Promise<string | undefined> {
    if (this.#closed) return Promise.resolve(undefined)
    const [key] = this.#waiting
    if (key === undefined) return new Promise((resolve) => this.#takers.push(resolve))
    this.#waiting.delete(key)
    this.#working.add(key)
    return Promise.resolve(key)
  }

  /** Settles all additions of a key until now: its worker is about to read everything again. */
  seen(key: string): void {
    this.#dirty.delete(key)
  }

  /** Settles the additions of a key until now if all were `isOwn`. Returns whether they were. */
  ownSeen(key: string): boolean {
    if (this.#dirty.get(key) === false) return false
    this.#dirty.delete(key)
    return true
  }

  done(key: string): void {
    this.#working.delete(key)
    this.#handled++
    if (this.#dirty.delete(key)) this.add(key)
  }

  close(): void {
    this.#closed = true
    for (const { timer } of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#waiting.clear()
    this.#dirty.clear()
    for (const taker of this.#takers.splice(0)) taker(undefined)
  }

  #cancelTimer(key: string): void {
    const set = this.#timers.get(key)
    if (!set) return
    clearTimeout(set.timer)
    this.#timers.delete(key)
  }
}

/**
 * Handles the keys of a queue one after the other until the queue is closed. `handle` returns the milliseconds until the
 * key is due again, or undefined if a change starts it. A key whose `handle` rejects is retried, and only its first
 * failure is a warning; `what` is the message of the log line.
 */
export async function handleEach(
  queue: KeyedQueue,
  handle: (key: string) => Promise<number | undefined>,
  log: Logger,
  what: string,
): Promise<void> {
  for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
    try {
      const next = await handle(key)
      queue.forget(key)
      if (next !== undefined) queue.addAfter(key, next)
    } catch (error) {
      const level = queue.failures(key) === 0 ? 'warn' : 'debug'
      log[level]({ key, error: String(error) }, what)
      queue.retry(key)
    } finally {
      queue.done(key)
    }
  }
}
