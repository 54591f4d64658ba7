/** Time as this process reads it, which stands still until it is moved. Timers run on. */
export interface StoppedClock {
  pass(ms: number): void
  [Symbol.dispose](): void
}

/**
 * Stops `performance.now()` and `Date`, so that what may happen only so often in a time does not depend on how fast the
 * machine is; `using` sets them going again. Whoever has read a time that was moved is not to be used after that: time goes back.
 */
export function stoppedClock(): StoppedClock {
  const RealDate = globalThis.Date
  const realNow = performance.now
  let passed = 0
  const [date, now] = [RealDate.now(), performance.now()]
  performance.now = () => now + passed
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [date + passed] : args, newTarget),
    get: (target, name) => (name === 'now' ? () => date + passed : Reflect.get(target, name)),
  })
  return {
    pass(ms) {
      passed += ms
    },
    [Symbol.dispose]() {
      globalThis.Date = RealDate
      performance.now = realNow
    },
  }
}
