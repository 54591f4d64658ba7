/** Lets so many things happen at a time; the others wait in the order they came. */
export interface Slots {
  /**
   * Waits for a slot and runs. What takes longer than `slowMs` gives its slot to the next and goes on without one, so
   * that some that hang do not hold up the rest. Rejects with the signal's reason where that comes while it waits.
   */
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>
}

export function createSlots(size: number, slowMs: number): Slots {
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
      // It has been given a slot just now.
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
    async run(work, signal) {
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
