import { LRUCache } from 'lru-cache'

const HOUR_MS = 3_600_000
const MOST = 1_000
const LONGEST = 16_384

/** Tokens for workloads, kept in memory for at most an hour by session and workload. No browser ever gets one. */
export class WorkloadTokens {
  readonly #tokens = new LRUCache<string, string>({ max: MOST, ttl: HOUR_MS })

  /** Returns the token of a session for a workload. */
  get(session: string, workload: string): string | undefined {
    return this.#tokens.get(`${session} ${workload}`)
  }

  /** Keeps a token; returns false for a text that is none. */
  set(session: string, workload: string, token: string): boolean {
    if (token.length > LONGEST || !/^[\w.~+/=-]+$/.test(token)) return false
    this.#tokens.set(`${session} ${workload}`, token)
    return true
  }

  delete(session: string, workload: string): void {
    this.#tokens.delete(`${session} ${workload}`)
  }
}
