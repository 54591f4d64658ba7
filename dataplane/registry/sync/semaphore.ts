/** Runs a number of tasks at a time. The others wait in the order in which they came. */
export type Semaphore = ReturnType<typeof createSemaphore>

export function createSemaphore(size: number, slowMs: number) {
  const waiting: (() => void)[] = []
  let free = size

  function release(): void {
    const next = waiting.shift()
    if (next === undefined) free++
    else next()
  }

  async function take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (free > 0) {
      free--
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const leave = () => {
      const at = waiting.indexOf(resolve)
      // It has just got a place.
      if (at < 0) return
      waiting.splice(at, 1)
      reject(signal.reason)
    }
    waiting.push(resolve)
    signal.addEventListener('abort', leave, { once: true })
    await promise
    signal.removeEventListener('abort', leave)
  }

  return {
    /**
     * Runs work when a place is free. Work that takes longer than `slowMs` continues without its place. Rejects with the
     * reason of the signal if it is aborted while it waits.
     */
    async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
      await take(signal)
      let held = true
      const giveUp = () => {
        if (held) release()
        held = false
      }
      const slow = setTimeout(giveUp, slowMs)
      try {
        signal.throwIfAborted()
        return await work()
      } finally {
        clearTimeout(slow)
        giveUp()
      }
    },
  }
}
