/**
 * Not a test of its own: a test file that doesn't end, or has processes that compute, as PORTICO_ENDING says
 * (runner.test.ts).
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const ending = process.env['PORTICO_ENDING']

/** Computes for 0.7 CPU seconds, then ends, or ends a second after its parent. */
const compute = (end: string) => [
  '-e',
  `const used = () => process.cpuUsage().user + process.cpuUsage().system; while (used() < 700_000); console.log('computed'); process.stdin.on('end', () => setTimeout(() => {}, 1000)).${end}()`,
]

/** Starts a process that is waited for, and one in its own group that lives until this process ends. */
async function haveComputed(): Promise<void> {
  spawnSync(process.execPath, compute('unref'), { input: '' })
  const unreachable = spawn(process.execPath, compute('resume'), { detached: true, stdio: ['pipe', 'pipe', 'ignore'] })
  await once(unreachable.stdout, 'data')
  unreachable.unref()
  for (const stream of [unreachable.stdin, unreachable.stdout]) (stream as unknown as Socket).unref()
}

test.before(() => {
  if (!['soon', 'busy', 'crash', 'after'].includes(ending ?? '')) createServer().listen(0, '127.0.0.1')
  if (ending === 'deaf') process.removeAllListeners('SIGUSR2')
  if (ending === 'before') throw new Error('nothing can be tested')
})

test.after(() => {
  if (ending === 'after') throw new Error('nothing can be cleared')
})

test('something', async () => {
  console.log('progress: half of it is done')
  console.log('what else is told')
  if (ending === 'busy') await haveComputed()
  if (ending === 'crash') process.exit(7)
  assert.is(ending === 'failed', false)
})

test.run()
