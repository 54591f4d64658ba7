import * as assert from 'uvu/assert'

/** Returns a value, or fails the test with `what` if it is undefined or null. */
export function unwrap<T>(value: T, what = 'value'): NonNullable<T> {
  assert.ok(value !== undefined && value !== null, `there is no ${what}`)
  return value as NonNullable<T>
}
