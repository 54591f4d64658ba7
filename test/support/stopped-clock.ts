/** This process's clock, which stands still until a test advances it. Timers keep running. */
export interface StoppedClock {
  pass(ms: number): void
  [Symbol.dispose](): void
}

/**
 * Stops `performance.now()` and `Date`, so that rate limits in a test do not depend on the machine's speed; `using`
 * restores them. Do not use an object that has read an advanced time after that, because time goes back.
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
