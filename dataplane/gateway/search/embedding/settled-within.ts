/** Settles with a promise, as it does, or after so many milliseconds. */
export async function settledWithin(promise: Promise<void>, milliseconds: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, milliseconds)
  try {
    await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
