/** The machine's own. */
const timeout = AbortSignal.timeout

const TIMES = 20

/**
 * Makes requests of this process wait twenty times as long for an answer: for tests that send so many at once that a busy
 * machine takes longer for them than a request is given.
 */
export function bePatient(): void {
  AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms * TIMES)
}
