import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { Crowd } from './crowd.ts'

test('the size of a crowd is the mean of the last four seconds', async () => {
  let taken = 0
  const crowd = new Crowd(() => (taken++ < 16 ? 8 : 2), 1)
  assert.is(crowd.size, 0)
  await eventually('samples of the first kind', () => crowd.size === 8)
  await eventually('only samples of the second kind', () => crowd.size === 2)
})

test('another process that computes is counted', async () => {
  const busy = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
  try {
    const crowd = new Crowd()
    await eventually('it wants a processor', () => crowd.size > 0.5)
  } finally {
    busy.kill('SIGKILL')
    await once(busy, 'exit')
  }
})

test.run()
