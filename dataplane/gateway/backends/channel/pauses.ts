import { BackendFailure } from '../connection/failure.ts'
import type { OpenChannel } from './channel.ts'

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000
/** What held for so long was no failed start. */
const STEADY_MS = 10_000

/**
 * Opens a channel at once after one that held, otherwise with growing pauses. Within a pause an attempt fails at once,
 * so that no request waits for a server that keeps dying.
 */
export function withPauses(open: OpenChannel): OpenChannel {
  let pauseMs = 0
  let notBefore = 0
  let lastReason = ''

  function pause({ message }: Error): void {
    pauseMs = Math.min(Math.max(pauseMs * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
    notBefore = performance.now() + pauseMs
    lastReason = message
  }

  return async function openUnlessPaused(receiver, headers) {
    const left = Math.ceil(notBefore - performance.now())
    if (left > 0) throw new BackendFailure('backend_unavailable', `${lastReason}; not tried again for ${left} ms`)
    const startedAt = performance.now()
    try {
      return await open(
        {
          message: (text) => receiver.message(text),
          tooLarge: (message) => receiver.tooLarge(message),
          closed(reason) {
            if (performance.now() - startedAt < STEADY_MS) pause(reason)
            else pauseMs = 0
            receiver.closed(reason)
          },
        },
        headers,
      )
    } catch (error) {
      pause(error as Error)
      throw error
    }
  }
}
