/** Settles with a promise, or after so many milliseconds. */
export async function settleWithin(promise: Promise<unknown> | undefined, milliseconds: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, milliseconds)
  try {
    await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
