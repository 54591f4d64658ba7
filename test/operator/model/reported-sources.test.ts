import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { reportedSources } from '../../../operator/model/reported.ts'

const source = (name: string, rest: object = {}) => ({
  name,
  state: 'ok',
  tried: true,
  lastAttempt: '2026-11-20T12:00:01.000Z',
  lastSuccess: '2026-11-20T12:00:02.000Z',
  nextRun: '2026-11-20T12:00:32.000Z',
  attempts: 0,
  error: null,
  servers: 3,
  skills: 1,
  leftOut: 0,
  problems: [],
  ...rest,
})
const error = { code: 'unreachable', message: 'it can’t be reached' }
const waiting = { state: 'waiting', lastSuccess: null, servers: 0 }
const states = (...answers: unknown[]) => reportedSources(answers).map(({ name, state }) => `${name} ${state}`)

test('a report has no times, no number of attempts, and no running sync', () => {
  const merged = reportedSources([[source('b'), source('a', { error, attempts: 2, state: 'failed' })]])
  assert.equal(merged, [
    { name: 'a', state: 'Failed', servers: 3, skills: 1, leftOut: 0, error },
    { name: 'b', state: 'Synced', servers: 3, skills: 1, leftOut: 0 },
  ])
  const later = { lastAttempt: 'later', nextRun: null, state: 'running', attempts: 1 }
  assert.equal(reportedSources([[source('b', later), source('a', { error, ...later, attempts: 3 })]]), merged)
})

test('before the first sync it waits', () => {
  assert.equal(states([source('a', waiting), source('b', { ...waiting, state: 'running' })]), [
    'a Waiting',
    'b Waiting',
  ])
})

test('of several pods a failing report wins, then a waiting one', () => {
  assert.equal(states([source('a')], [source('a', { error })], [source('a', waiting)]), ['a Failed'])
  assert.equal(states([source('a')], [source('a', waiting)]), ['a Waiting'])
})

test('invalid answers are ignored, and reports fit into a status', () => {
  assert.equal(states(undefined, 'x', 1, {}, [null, 1, {}, { name: 1 }, { name: 'A b' }, { name: 'x'.repeat(64) }]), [])
  const [odd] = reportedSources([
    [{ name: 'a', servers: -1, skills: 1.5, leftOut: 1e300, error: { message: 'm'.repeat(9999) } }],
  ])
  assert.equal(
    { ...odd, error: odd?.error?.message.length },
    {
      name: 'a',
      state: 'Failed',
      servers: 0,
      skills: 0,
      leftOut: 2 ** 31 - 1,
      error: 300,
    },
  )
  assert.is(reportedSources([Array.from({ length: 1000 }, (_, index) => source(`s${index}`))]).length, 1000)
})

test.run()
