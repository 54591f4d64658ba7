import { LRUCache } from 'lru-cache'
import { isObject } from '../../crds/settings/json.ts'

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

const HOUR_MS = 3_600_000
/** The most sessions with tokens, and the most tokens of one session. */
const MOST_SESSIONS = 200
const MOST = 20
const LONGEST = 16_384

/** Tokens for workloads, by session and workload, in memory for at most an hour. No browser receives one. */
export class WorkloadTokens {
  readonly #tokens = new BySession<string>({ sessions: MOST_SESSIONS, values: MOST, ttl: HOUR_MS })

  get(session: string, workload: string): string | undefined {
    return this.#tokens.get(session, workload)
  }

  /**
   * Stores a token for an hour at most (`endsAt`: milliseconds since 1970). Returns false for a text that is no token.
   */
  set(session: string, workload: string, token: string, endsAt = Number.POSITIVE_INFINITY): boolean {
    if (token.length > LONGEST || !/^[\w.~+/=-]+$/.test(token)) return false
    this.#tokens.set(session, workload, token, Math.max(1, Math.min(HOUR_MS, endsAt - Date.now())))
    return true
  }

  delete(session: string, workload: string): void {
    this.#tokens.delete(session, workload)
  }
}

/** Returns the claims of a token as JSON; an empty text if it is no JWT with a subject. Nothing is verified. */
export function claimsText(token: string | undefined): string {
  const [, payload = ''] = token?.split('.') ?? []
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString())
    return isObject(claims) && typeof claims['sub'] === 'string' ? JSON.stringify(claims) : ''
  } catch {
    return ''
  }
}
