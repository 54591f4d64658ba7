import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { listNeeds } from '../needs.ts'
import { testFiles } from '../test-files.ts'
import { guessSeconds } from './durations.ts'
import { hasRoom, inOrder, secondsLeft, shownRest, type Turn, takeNext } from './order.ts'

const buildTurn = (file: string, seconds: number, hasFailed = false): Turn => ({ file, seconds, hasFailed })
const turns = [
  buildTurn('long', 90),
  buildTurn('b', 2),
  buildTurn('a', 2),
  buildTurn('failed', 30, true),
  buildTurn('middle', 10),
  buildTurn('short', 1),
]
const alwaysReady = () => true

/** Returns the files in the order in which the lanes take them in turn. */
function takeAll(turns: readonly Turn[], isReady: (turn: Turn) => boolean = alwaysReady): string[] {
  const waiting = inOrder(turns)
  const order: string[] = []
  for (let count = 0; ; count += 1) {
    const next = takeNext(waiting, isReady, count % 2 === 0)
    if (next === undefined) return order
    order.push(next.file)
  }
}

test('files that failed last time come first; then one lane takes the longest and the others the shortest', () => {
  assert.equal(takeAll(turns), ['failed', 'short', 'long', 'a', 'middle', 'b'])
})

test('a file that is not ready is passed over and stays in the list', () => {
  const waiting = inOrder(turns)
  assert.is(takeNext(waiting, ({ file }) => file === 'middle', false)?.file, 'middle')
  assert.is(
    takeNext(waiting, ({ file }) => file === 'nothing', true),
    undefined,
  )
  assert.is(waiting.length, 5)
  assert.equal(
    takeAll(turns, ({ hasFailed, file }) => !hasFailed && file !== 'long'),
    ['middle', 'short', 'b', 'a'],
  )
})

test('files that mostly wait leave room for more files, and files that compute do not', () => {
  const using = (...shares: number[]) => shares.map((share) => ({ ...buildTurn('a', 10), share }))
  assert.is(hasRoom(using(1), 2, 6, 0), true)
  assert.is(hasRoom(using(1, 0.9), 2, 6, 0), false)
  assert.is(hasRoom(using(0.3, 0.3, 0.3, 0.3), 2, 6, 0), true)
  assert.is(hasRoom(using(0.3, 0.3, 0.3, 0.3, 0.3, 0.3), 2, 6, 0), false, 'no more than six')
  assert.is(hasRoom([buildTurn('a', 1), buildTurn('b', 1), buildTurn('c', 1)], 2, 6, 0), true, 'a half each')
  assert.is(hasRoom([buildTurn('a', 1), buildTurn('b', 1), buildTurn('c', 1), buildTurn('d', 1)], 2, 6, 0), false)
  assert.is(hasRoom(using(0.1), 2, 1, 0), false)
  assert.is(hasRoom(using(0.35, 0.35, 0.35, 0.1, 0.1), 2, 7, 0), true, 'three that compute')
  assert.is(hasRoom(using(0.35, 0.35, 0.35, 0.35), 2, 7, 0), false, 'four that compute')
  assert.is(hasRoom(using(0.1, 0.1), 2, 6, 6), true)
  assert.is(hasRoom(using(0.1, 0.1), 2, 6, 6.1), false, 'too many tasks')
  assert.is(hasRoom(using(0.1), 2, 6, 99), true, 'one for each core in any case')
})

test('files of a control plane that never ran here are expected to take longest, by the tests that they load', () => {
  const expected = testFiles([]).map((file) => buildTurn(file, guessSeconds(file, listNeeds([file]))))
  const longest = inOrder(expected).slice(-6)
  const told = longest.map(({ file, seconds }) => `${file} ${seconds}`).join('\n')
  assert.ok(
    longest.every(({ file }) => file.startsWith('test/cluster/')),
    told,
  )
  assert.ok(
    longest.some(({ file, seconds }) => file === 'test/cluster/operator.test.ts' && seconds > 100),
    told,
  )
})

test('the time left is that of the work on all lanes, and at least that of the running files', () => {
  assert.is(secondsLeft([buildTurn('a', 60), buildTurn('b', 30)], [{ expected: 20, passed: 10 }], [], 2), 50)
  assert.is(secondsLeft([buildTurn('a', 10)], [{ expected: 100, passed: 10 }], [], 2), 90)
  // All files that are left wait for the set-up.
  assert.is(secondsLeft([buildTurn('a', 60)], [], [], 0), 60)
  assert.is(secondsLeft([], [{ expected: 10, passed: 20 }], [], 2), 0)
})

test('the estimate doubles on a machine where files take twice as long', () => {
  const ended = Array.from({ length: 10 }, () => ({ expected: 1, passed: 2 }))
  assert.is(secondsLeft([buildTurn('a', 60)], [], ended, 2), 60)
  assert.is(shownRest(61), 'about a minute left')
  assert.is(shownRest(600), 'about 10 minutes left')
})

test.run()
