import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { growingLru } from '../../../dataplane/server/growing-lru.ts'

test('holds no more entries than its bound, and forgets the least recently used', () => {
  const cache = growingLru<number>(3)
  for (const [index, name] of ['a', 'b', 'c'].entries()) cache.set(name, index)
  assert.is(cache.get('a'), 0)
  cache.set('d', 3)
  assert.equal([...cache.keys()], ['d', 'a', 'c'])
  cache.set('c', 4)
  assert.equal(
    [...cache.entries()],
    [
      ['c', 4],
      ['d', 3],
      ['a', 0],
    ],
  )
})

test('takes no memory for entries that it does not have', () => {
  const all = Array.from({ length: 20 }, () => growingLru<number>(1_000_000))
  const before = process.memoryUsage()
  all.push(...Array.from({ length: 20 }, () => growingLru<number>(1_000_000)))
  const after = process.memoryUsage()
  const taken = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers
  assert.ok(taken < 1_000_000, `${taken} bytes`)
  assert.is(all.length, 40)
})

test.run()
