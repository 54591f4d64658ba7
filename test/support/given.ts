import * as assert from 'uvu/assert'

/** A value that has to be there: the test fails with `what` where it is undefined or null. */
export function given<T>(value: T, what = 'value'): NonNullable<T> {
  assert.ok(value !== undefined && value !== null, `there is no ${what}`)
  return value as NonNullable<T>
}
