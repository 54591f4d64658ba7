/** The machine's own. */
const timeout = AbortSignal.timeout

const TIMES = 20

/**
 * Makes this process wait twenty times as long for answers, of servers and of threads, until it is disposed of: for tests
 * that ask for so much that a busy machine takes longer for it than a request is given.
 */
export function bePatient(): Disposable {
  AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms * TIMES)
  return {
    [Symbol.dispose]() {
      AbortSignal.timeout = timeout
    },
  }
}
