import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { countKeptBytes, latin1, ONE_WRITE } from '../../../dataplane/server/body.ts'

test('the text equals the bytes, and its size is counted', () => {
  for (const [size, expected] of [
    [100, 100],
    [1_000, 2_000],
    [ONE_WRITE, 2 * ONE_WRITE],
    [ONE_WRITE + 1, ONE_WRITE + 1],
  ] as const) {
    const bytes = Buffer.alloc(size, 'é')
    for (let time = 0; time < 2; time++) assert.ok(Buffer.from(latin1(bytes), 'latin1').equals(bytes))
    assert.is(countKeptBytes(bytes), expected)
  }
})

test.run()
