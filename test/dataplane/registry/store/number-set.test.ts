import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { NumberSet } from '../../../../dataplane/registry/store/apply/number-set.ts'

test('it holds the same numbers as a Set, at the edges of its blocks and between them', () => {
  const ids = [0, 1, 7, 8, 4095, 4096, 4097, 65_535, 2 ** 31 - 1, 2 ** 31 - 1, 4096]
  const set = new NumberSet()
  for (const id of ids) set.add(id)
  const expected = [...new Set(ids)]
  assert.is(set.size, expected.length)
  for (const id of expected) assert.ok(set.has(id), String(id))
  for (const id of [2, 9, 4094, 4098, 8192, 2 ** 31 - 2]) assert.not(set.has(id), String(id))
  const sortNumbers = (list: readonly number[]) => list.toSorted((a, b) => a - b)
  for (const most of [1, 3, 100]) {
    const chunks = [...set.chunks(most)]
    assert.ok(chunks.every(({ length }) => length > 0 && length <= most))
    assert.equal(sortNumbers(chunks.flat()), sortNumbers(expected))
  }
  assert.equal([...new NumberSet().chunks(10)], [])
})

test.run()
