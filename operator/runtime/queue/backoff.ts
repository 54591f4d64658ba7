/** Exponential waits with jitter. Randomness is handed in so that tests can hold it still. */
export interface BackoffOptions {
  /** Milliseconds of the first wait. */
  readonly base: number
  /** Milliseconds no wait goes beyond. */
  readonly max: number
  readonly random?: () => number
}

/** Milliseconds to wait before try number `attempt` (from 0): doubled each time, between half and the whole of it. */
export function backoffDelay(attempt: number, options: BackoffOptions): number {
  const whole = Math.min(options.max, options.base * 2 ** Math.min(attempt, 30))
  return whole * (0.5 + 0.5 * (options.random ?? Math.random)())
}

/** Resolves after `ms`, or at once when the signal aborts; never rejects. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
  })
}
