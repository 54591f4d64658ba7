import { setTimeout as delay } from 'node:timers/promises'
import { SourceError, type SourceErrorCode } from '../format/source-error.ts'

const TRIES = 4
const FIRST_RETRY_MS = 500
/** What asks for a longer wait is tried again by the schedule. */
const LONGEST_RETRY_MS = 15_000
const CURABLE: readonly SourceErrorCode[] = ['unreachable', 'timed_out', 'upstream_failed', 'rate_limited']

/** GETs, and tries again what waiting may cure: one page that fails need not cost those before it. Throws a SourceError. */
export async function getPatiently<T>(get: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await get()
    } catch (error) {
      if (!(error instanceof SourceError) || tries === TRIES || !CURABLE.includes(error.code)) throw error
      const wait = Math.max(FIRST_RETRY_MS * 2 ** (tries - 1) * (1 + Math.random()), error.retryAfterMs ?? 0)
      if (wait > LONGEST_RETRY_MS) throw error
      await delay(wait, undefined, { signal }).catch(() => {
        throw signal.reason
      })
    }
  }
}
