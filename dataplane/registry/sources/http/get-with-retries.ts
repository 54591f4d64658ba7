import { setTimeout as delay } from 'node:timers/promises'
import { backoffDelay } from '../../../retry/backoff.ts'
import { SourceError, type SourceErrorCode } from '../format/source-error.ts'

const TRIES = 4
/** What asks for a longer wait than the longest is tried again by the schedule. */
const RETRY = { first: 1_000, longest: 15_000 }
const CURABLE: readonly SourceErrorCode[] = ['unreachable', 'timed_out', 'upstream_failed', 'rate_limited']

/** GETs, and tries again what waiting may cure: one page that fails need not cost those before it. Throws a SourceError. */
export async function getWithRetries<T>(get: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await get()
    } catch (error) {
      if (!(error instanceof SourceError) || tries === TRIES || !CURABLE.includes(error.code)) throw error
      const wait = Math.max(backoffDelay(tries - 1, RETRY), error.retryAfterMs ?? 0)
      if (wait > RETRY.longest) throw error
      await delay(wait, undefined, { signal }).catch(() => {
        throw signal.reason
      })
    }
  }
}
