import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { groupTurns, mayShare } from './groups.ts'
import { listFiles, type Turn } from './order.ts'
import { formatEnd, SplitOutput } from './several-output.ts'

const turn = (file: string, seconds = 1, more: Partial<Turn> = {}): Turn => ({
  file,
  seconds,
  hasFailed: false,
  ...more,
})
const all = (turns: readonly Turn[], needs: Readonly<Record<string, string>> = {}) =>
  groupTurns(
    turns,
    (file) => needs[file] ?? '',
    (file) => !file.includes('alone'),
  ).map((one) => listFiles(one).join(' '))

test('short files of one room share a process; long ones, failed ones and those that may not have their own', () => {
  const turns = [
    turn('test/a/b/one.ts'),
    turn('test/a/b/long.ts', 60),
    turn('test/a/b/deep/two.ts'),
    turn('test/a/c/three.ts'),
    turn('test/a/b/failed.ts', 1, { hasFailed: true }),
    turn('test/a/b/alone.ts'),
    turn('test/a/c/four.ts'),
  ]
  assert.equal(all(turns), [
    'test/a/b/long.ts',
    'test/a/b/failed.ts',
    'test/a/b/alone.ts',
    'test/a/b/one.ts test/a/b/deep/two.ts',
    'test/a/c/three.ts test/a/c/four.ts',
  ])
})

test('files with other needs do not wait for each other, and a group is not long', () => {
  assert.equal(all([turn('a/x.ts'), turn('a/y.ts'), turn('a/z.ts')], { 'a/y.ts': 'redis' }), [
    'a/x.ts a/z.ts',
    'a/y.ts',
  ])
  const many = (seconds: number) => Array.from({ length: 40 }, (_, index) => turn(`a/${index}.ts`, seconds))
  assert.equal(
    all(many(10)).map((files) => files.split(' ').length),
    [...Array.from({ length: 13 }, () => 3), 1],
  )
  assert.equal(
    all(many(0.1)).map((files) => files.split(' ').length),
    [15, 15, 10],
  )
})

test('a group takes as long as its files, and its share of a core is known if each one’s is', () => {
  const [group] = groupTurns(
    [turn('a/x.ts', 1, { share: 1 }), turn('a/y.ts', 3, { share: 0.2 })],
    () => '',
    () => true,
  )
  assert.is(group?.seconds, 4)
  assert.is(group?.share, 0.4)
  const [other] = groupTurns(
    [turn('a/x.ts', 1, { share: 1 }), turn('a/y.ts', 3)],
    () => '',
    () => true,
  )
  assert.is(other?.share, undefined)
})

test('a file that changes or measures its process has its own, also if it does so in a helper', () => {
  assert.ok(mayShare('test/dataplane/gateway/aggregation/same-template.test.ts'))
  for (const file of ['setup/runner/runner', 'secrets/leaks', 'dataplane/identity/wrong-documents'])
    assert.not.ok(mayShare(`test/${file}.test.ts`), file)
})

test('output is split at the end of each file, wherever its pieces end', () => {
  const text = `one\n${formatEnd(0.5, false)}two\n${formatEnd(1.25, true)}`
  for (let size = 1; size <= text.length; size++) {
    const texts = ['', '', '']
    const ends: unknown[] = []
    const split = new SplitOutput({
      text: (piece, file) => void (texts[file] += piece),
      end: (cpu, isLast) => ends.push([cpu, isLast]),
    })
    for (let at = 0; at < text.length; at += size) split.take(text.slice(at, at + size))
    split.end()
    assert.equal(texts, ['one\n', 'two\n', ''])
    assert.equal(ends, [
      [0.5, false],
      [1.25, true],
    ])
  }
})

test('a line is given as a whole, also if it is written in pieces', () => {
  const given: string[] = []
  const split = new SplitOutput({ text: (text) => given.push(text), end: () => {} })
  for (const piece of ['• ', '• ', '  (2 / 2)\n', '\n  Total:     2', '\n  Passed:    2', '\n', 'unfinished'])
    split.take(piece)
  assert.equal(given, ['• •   (2 / 2)\n', '\n', '  Total:     2\n', '  Passed:    2\n'])
  split.take(formatEnd(1, true))
  assert.is(given.at(-1), 'unfinished')
})

test('output that only looks like an end is kept', () => {
  let kept = ''
  const split = new SplitOutput({ text: (piece) => void (kept += piece), end: () => assert.unreachable() })
  for (const piece of ['a\0b', 'c\0a test file', ' has']) split.take(piece)
  split.end()
  assert.is(kept, 'a\0bc\0a test file has')
})

test.run()
