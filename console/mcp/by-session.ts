import { LRUCache } from 'lru-cache'

interface Bounds {
  readonly sessions: number
  /** The most values of one session. */
  readonly values: number
  /** The longest time that a value is kept, in milliseconds. */
  readonly ttl: number
}

/** Values in memory by session and name. A session with too many values evicts its own. */
export class BySession<T extends object | string> {
  readonly #bounds: Bounds
  readonly #sessions: LRUCache<string, LRUCache<string, T>>

  constructor(bounds: Bounds) {
    this.#bounds = bounds
    this.#sessions = new LRUCache({ max: bounds.sessions, ttl: bounds.ttl })
  }

  get(session: string, name: string): T | undefined {
    return this.#sessions.get(session)?.get(name)
  }

  /** Stores a value for `ttl` milliseconds. */
  set(session: string, name: string, value: T, ttl = this.#bounds.ttl): void {
    const own = this.#sessions.get(session) ?? new LRUCache<string, T>({ max: this.#bounds.values })
    own.set(name, value, { ttl })
    this.#sessions.set(session, own)
  }

  delete(session: string, name: string): void {
    this.#sessions.get(session)?.delete(name)
  }
}
