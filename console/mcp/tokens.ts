import { LRUCache } from 'lru-cache'

const HOUR_MS = 3_600_000
/** The most sessions with tokens, and the most tokens of one. */
const MOST_SESSIONS = 200
const MOST = 20
const LONGEST = 16_384

/** Tokens for workloads, kept in memory for at most an hour by session and workload. No browser ever gets one. */
export class WorkloadTokens {
  readonly #sessions = new LRUCache<string, LRUCache<string, string>>({ max: MOST_SESSIONS, ttl: HOUR_MS })

  /** Returns the token of a session for a workload. */
  get(session: string, workload: string): string | undefined {
    return this.#sessions.get(session)?.get(workload)
  }

  /** Keeps a token, for an hour at most (`endsAt`: milliseconds since 1970); returns false for a text that is none. */
  set(session: string, workload: string, token: string, endsAt = Number.POSITIVE_INFINITY): boolean {
    if (token.length > LONGEST || !/^[\w.~+/=-]+$/.test(token)) return false
    const own = this.#sessions.get(session) ?? new LRUCache<string, string>({ max: MOST, ttl: HOUR_MS })
    own.set(workload, token, { ttl: Math.max(1, Math.min(HOUR_MS, endsAt - Date.now())) })
    this.#sessions.set(session, own)
    return true
  }

  delete(session: string, workload: string): void {
    this.#sessions.get(session)?.delete(workload)
  }
}
