import { isObject } from '../../crds/settings/json.ts'
import { BySession } from './by-session.ts'

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
