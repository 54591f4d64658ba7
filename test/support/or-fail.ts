/** Wraps an async function for callers that take no promise. Its rejection ends the test file, like a thrown error. */
export const endFileOnError =
  <A extends unknown[]>(run: (...args: A) => Promise<unknown>) =>
  (...args: A): void => {
    run(...args).catch((error: unknown) => {
      setImmediate(() => {
        throw error
      })
    })
  }
