import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { losses, ratiosToBare } from '../../bench/pair/reference.ts'
import { BARE, computeRatio, type Row } from '../../bench/shipped/measure.ts'

const row = (name: string, kind: Row['kind'], micros: readonly number[]): Row => ({
  ...{ era: 'legacy', kind, name, micros },
  ...{ perSecond: [], p50: [], p99: [], ownMiB: [], idleKiB: [] },
})

test('a ratio is of the medians, and its error of the starts in turn', () => {
  // A machine that is twice as slow in one start is so for both.
  assert.equal(computeRatio([10, 20, 10], [5, 10, 5]), { ratio: 2, error: 0 })
  assert.ok(computeRatio([10, 12, 14], [5, 5, 5]).error > 0)
})

test('all work is expressed as a multiple of calls of the bare proxy', () => {
  const rows = [row(BARE, 'call', [50, 50]), row('after none', 'list', [100, 100]), row('before none', 'list', [9, 9])]
  assert.equal(ratiosToBare(rows, 'after'), { 'legacy list none': { ratio: 2, error: 0 } })
})

test('a figure is a loss if it costs more by more than both errors', () => {
  const reference = { a: { ratio: 1, error: 0.03 }, b: { ratio: 1, error: 0.03 } }
  const found = { a: { ratio: 1.04, error: 0.04 }, b: { ratio: 1.06, error: 0.04 }, c: { ratio: 9, error: 0 } }
  assert.equal(losses(reference, found), ['b'])
})

test.run()
