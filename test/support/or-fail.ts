/** An async function for places that take no promise: what it rejects with ends the test file, as a thrown error does. */
export const orFail =
  <A extends unknown[]>(run: (...args: A) => Promise<unknown>) =>
  (...args: A): void => {
    run(...args).catch((error: unknown) => {
      setImmediate(() => {
        throw error
      })
    })
  }
