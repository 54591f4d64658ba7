/** How a stream that broke off before its answer is gone on with (2025-11-25, resumability). */

const RETRY_MS = 1_000
/** However soon a backend wants its streams to be resumed: it may have many. */
const SOONEST_RETRY_MS = 100
/** However late: Node takes a delay beyond 32 bits for none at all. */
const LATEST_RETRY_MS = 5 * 60_000

/** How long to wait before the rest is requested; `retryMs` is what the backend has asked for. */
export const pauseBeforeRest = (retryMs = RETRY_MS): number =>
  Math.min(Math.max(retryMs, SOONEST_RETRY_MS), LATEST_RETRY_MS)

/** Headers of a request in a session (a flat list) as those of the GET of a stream; with `after`, behind that event. */
export function streamHeaders(headers: readonly string[], after?: string): string[] {
  const list = headers.slice()
  list[list.indexOf('accept') + 1] = 'text/event-stream'
  if (after !== undefined) list.push('last-event-id', after)
  return list
}
