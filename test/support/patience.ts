/** The real `setTimeout`. */
const timeout = AbortSignal.timeout

const TIMES = 20

/**
 * Makes this process wait twenty times as long for answers of servers and threads, until it is disposed of. For tests
 * whose load makes a busy machine slower than the product's time limits.
 */
export function usePatience(): Disposable {
  AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms * TIMES)
  return {
    [Symbol.dispose]() {
      AbortSignal.timeout = timeout
    },
  }
}
