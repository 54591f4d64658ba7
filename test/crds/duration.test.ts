import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseDuration, parseTimer } from '../../crds/settings/duration.ts'
import { duration } from '../../crds/settings/schema.ts'

const pattern = new RegExp((duration('operator', '') as { pattern?: string }).pattern as string, 'u')

const valid: [string, number][] = [
  ['30s', 30_000],
  ['1h30m', 5_400_000],
  ['1.5s', 1500],
  ['250ms', 250],
  ['1h0m0.5s', 3_600_500],
  ['0s', 0],
  ['1µs', 0.001],
  ['1us', 0.001],
  ['1000000ns', 1],
  ['720h', 2_592_000_000],
]

for (const [text, milliseconds] of valid) {
  test(`${text} is ${milliseconds} ms`, () => {
    assert.is(parseDuration(text), milliseconds)
    assert.match(text, pattern)
  })
}

for (const text of ['', '10', '-5s', 's', '1 s', '1h 30m', '1d', '1.s', '.5s', '5S', '1h30', 'PT5M', '1s\n']) {
  test(`${JSON.stringify(text)} is not a duration`, () => {
    assert.throws(() => parseDuration(text), /not a duration/)
    assert.not.match(text, pattern)
  })
}

test('timers get whole milliseconds up to Node’s limit', () => {
  const ends = ['0s', '1ns', '1.5ms', '596h', '597h', '2562047h'].map(parseTimer)
  assert.equal(ends, [0, 1, 2, 596 * 3_600_000, 2 ** 31 - 1, 2 ** 31 - 1])
})

test.run()
