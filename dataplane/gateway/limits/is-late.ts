/** Tells whether a promise takes longer than this time. Never rejects. */
export function isLate(awaited: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(true), ms)
  const done = () => {
    clearTimeout(timer)
    resolve(false)
  }
  awaited.then(done, done)
  return promise
}
