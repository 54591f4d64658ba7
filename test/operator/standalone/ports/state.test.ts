import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { StateDirectory } from '../../../../operator/standalone/ports/state.ts'
import { temporaryFolder } from '../../../support/folder.ts'

test('one run at a time; what it remembers, the next one knows', () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 'state')
  const state = new StateDirectory(path)
  assert.equal(state.recall(), { ports: {}, folders: [] })
  state.remember({ ports: { a: 1 }, folders: ['x'] })
  assert.throws(() => new StateDirectory(path), /is in use by another portico run \(process \d+\); choose another/)
  state.release()
  const next = new StateDirectory(path)
  assert.equal(next.recall(), { ports: { a: 1 }, folders: ['x'] })
  next.release()
  assert.is(existsSync(join(path, 'run.lock')), false)
})

const stale: readonly (readonly [title: string, lock: () => string])[] = [
  ['a process that is gone', () => JSON.stringify({ pid: spawnSync('true').pid })],
  ['another process that got the number since', () => JSON.stringify({ pid: process.pid, started: '1' })],
  ['half a file', () => '{'],
]

for (const [title, lock] of stale) {
  test(`the lock of a killed run is reused: ${title}`, () => {
    using folder = temporaryFolder()
    writeFileSync(join(folder.path, 'run.lock'), lock())
    new StateDirectory(folder.path).release()
  })
}

test.run()
