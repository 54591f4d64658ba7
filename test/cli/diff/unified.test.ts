import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { unified } from '../../../cli/diff/unified.ts'

const text = (...lines: string[]) => `${lines.join('\n')}\n`
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => String(from + index))

test('equal texts have no diff', () => {
  assert.is(unified('', ''), '')
  assert.is(unified(text('a', 'b'), text('a', 'b')), '')
})

test('a new text and a deleted text are shown whole', () => {
  assert.is(unified('', text('a', 'b')), '@@ -0,0 +1,2 @@\n+a\n+b\n')
  assert.is(unified(text('a', 'b'), ''), '@@ -1,2 +0,0 @@\n-a\n-b\n')
})

test('a change has three lines of context, and near changes share a hunk', () => {
  const before = numbers(1, 30)
  const after = [...numbers(1, 9), 'ten', ...numbers(11, 14), ...numbers(16, 30)]
  assert.is(
    unified(text(...before), text(...after)),
    `@@ -7,12 +7,11 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n 14\n-15\n 16\n 17\n 18\n`,
  )
  assert.match(
    unified(text(...before), text('x', ...before, 'y')),
    /^@@ -1,3 \+1,4 @@\n\+x\n 1\n 2\n 3\n@@ -28,3 \+29,4 @@\n 28\n 29\n 30\n\+y\n$/,
  )
})

test('for any two texts the marked lines turn the first into the second', () => {
  let seed = 7
  const next = (below: number) => (seed = (seed * 48271) % 2147483647) % below
  for (let round = 0; round < 200; round++) {
    const randomLines = () => Array.from({ length: next(12) }, () => 'abc'[next(3)] as string)
    const [before, after] = [randomLines(), randomLines()]
    const diff = unified(before.length ? text(...before) : '', after.length ? text(...after) : '')
    const lines = diff.split('\n').filter((line) => line !== '' && !line.startsWith('@@'))
    const removed = lines.filter((line) => line[0] === '-').length
    const added = lines.filter((line) => line[0] === '+').length
    assert.is(before.length - removed, after.length - added, JSON.stringify({ before, after }))
    assert.is(diff === '', before.join() === after.join())
  }
})

test('texts that are too large for a comparison by lines are shown whole', () => {
  const [before, after] = [numbers(1, 5000), numbers(10_001, 15_000)]
  const diff = unified(text(...before), text(...after))
  assert.is(diff.split('\n').length, 10_002)
})

test.run()
