/** A test file ends, or is ended soon after its summary. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { utimesSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const root = join(import.meta.dirname, '../../..')

function run(ending: string, lingerMs = 500) {
  const more = { TEST_FILES: 'test/setup/runner/ending.ts', TEST_LINGER_MS: `${lingerMs}`, PORTICO_ENDING: ending }
  const options = { cwd: root, env: { ...process.env, ...more }, encoding: 'utf8', timeout: 60_000 } as const
  return spawnSync(process.execPath, ['test/run.ts'], options)
}

test('a file that ends passes, and only its lines of progress are shown', () => {
  const { status, stdout } = run('soon', 30_000)
  assert.is(status, 0, stdout)
  assert.match(stdout, /^progress: half of it is done$/m)
  assert.not.match(stdout, 'what else')
  assert.match(stdout, '1 passed, 0 failed')
})

for (const [ending, passed, verdict] of [
  ['late', 1, 'none 0.5 s after its summary: it has left something open'],
  ['failed', 0, 'none 0.5 s after its summary: it has left something open'],
  ['before', 0, 'no test ran: a `before` hook threw'],
] as const)
  test(`a file that leaves a server open is killed and fails: ${ending}`, () => {
    const { status, stdout } = run(ending)
    assert.is(status, 1, stdout)
    assert.match(stdout, verdict)
    assert.match(stdout, /open: .*TCPServerWrap/)
    assert.match(stdout, `${passed} passed, 1 failed`)
    if (ending === 'before') assert.match(stdout, 'the hook before of the tests threw: Error: nothing can be tested')
  })

test('a file that dies of the signal that asks for its open handles is reported as such', () => {
  const { status, stdout } = run('deaf')
  assert.is(status, 1, stdout)
  assert.match(
    stdout,
    'after its summary: it has left something open, and its JavaScript was over: Node itself did not end',
  )
  assert.match(stdout, '1 passed, 1 failed')
})

// Only Linux reports CPU seconds.
if (process.platform === 'linux')
  test('CPU seconds of a file are those of all processes that it starts, also of one that has left its group', () => {
    const { status, stdout } = run('busy', 30_000)
    assert.is(status, 0, stdout)
    const [, cpu] = /^ +([\d.]+) s +[\d.]+ s {2}test\/setup\/runner\/ending\.ts$/m.exec(stdout) ?? []
    assert.ok(Number(cpu) >= 1.4 && Number(cpu) < 3, stdout)
  })

test('a watch runs the files, and runs them again when a source changes', async () => {
  const env = { ...process.env, TEST_FILES: 'test/setup/runner/ending.ts', PORTICO_ENDING: 'soon' }
  const child = spawn(process.execPath, ['test/watch.ts', 'ending'], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const until = async (part: string) => {
    for (let next = await lines.next(); !next.done; next = await lines.next()) if (next.value.includes(part)) return
    assert.unreachable(`ended without: ${part}`)
  }
  try {
    await until('1 passed, 0 failed')
    await until('waiting for a change')
    const now = new Date()
    utimesSync(join(root, 'test/setup/runner/ending.ts'), now, now)
    await until('has changed')
    await until('1 passed, 0 failed')
  } finally {
    child.kill()
    await once(child, 'close')
  }
})

test('`make watch` without a word asks for one', () => {
  const { status, stderr } = spawnSync(process.execPath, ['test/watch.ts'], { cwd: root, encoding: 'utf8' })
  assert.is(status, 2)
  assert.match(stderr, /^Which tests\? make watch ARGS=/)
})

test.run()
