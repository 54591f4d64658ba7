import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { backoffDelay } from '../../../dataplane/retry/backoff.ts'

test('waits double up to the limit, each between half and all of it', () => {
  const computeDelay = (attempt: number, random: number) =>
    backoffDelay(attempt, { first: 100, longest: 1000, random: () => random })
  assert.equal(
    [0, 1, 2, 3, 4, 50].map((attempt) => computeDelay(attempt, 1)),
    [100, 200, 400, 800, 1000, 1000],
  )
  assert.is(computeDelay(2, 0), 200)
})

test.run()
