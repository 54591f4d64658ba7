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

const ENDING = 'test/setup/runner/ending.ts'
const LEAKING = 'test/secrets/leaking.ts'

/** Runs both files in one process. On a busy machine a process that has nothing to wait for may take a second to end. */
async function runBoth(ending: string, leak = 'nothing', files: readonly string[] = [ENDING, LEAKING]) {
  Object.assign(process.env, { PORTICO_ENDING: ending, PORTICO_LEAK: leak, TEST_LINGER_MS: '3000' })
  const { runFiles } = await import('./run-file.ts')
  return runFiles(files)
}

test('files that share a process are judged each by itself', async () => {
  const results = await runBoth('soon')
  assert.equal(
    results.map(({ file, passed, failed, verdict }) => [file, passed, failed, verdict]),
    [
      [ENDING, 1, 0, 'ok'],
      [LEAKING, 1, 0, 'ok'],
    ],
  )
  const [first, second] = results
  assert.match(first?.output ?? '', 'what else')
  assert.not.match(first?.output ?? '', 'all is well')
  assert.match(second?.output ?? '', 'all is well')
  if (process.platform === 'linux') for (const { cpu = 0 } of results) assert.ok(cpu > 0 && cpu < 5, `${cpu}`)
})

test('a failure ends the process, and the files behind it have no result', async () => {
  const results = await runBoth('failed')
  assert.equal(
    results.map(({ passed, failed }) => [passed, failed]),
    [[0, 1]],
  )
  const [other, last] = await runBoth('failed', 'nothing', [LEAKING, ENDING])
  assert.is(other?.verdict, 'ok')
  assert.is(last?.failed, 1)
})

test('an error of a hook fails its own file', async () => {
  const [first, ...others] = await runBoth('before')
  assert.match(first?.verdict ?? '', 'no test ran')
  assert.match(first?.output ?? '', 'nothing can be tested')
  assert.is(others.length, 1)
})

test('an error of `after` fails its own file, whose results are reported', async () => {
  const [first, ...others] = await runBoth('after')
  assert.is(first?.verdict, 'exit 1')
  assert.is(first?.failed, 1)
  assert.match(first?.output ?? '', 'the hook after of the tests threw: Error: nothing can be cleared')
  assert.match(first?.output ?? '', /^ {2}Passed: {4}1$/m)
  assert.is(others.length, 0)
})

test('a file that leaves a server open fails the last one, which names all of them', async () => {
  const results = await runBoth('late')
  assert.is(results[0]?.verdict, 'ok')
  assert.match(results[1]?.verdict ?? '', 'it has left something open, or one of the files before it has')
  assert.match(results[1]?.verdict ?? '', ENDING)
  assert.match(results[1]?.output ?? '', 'TCPServerWrap')
})

test('a leak fails each file of the process', async () => {
  const results = await runBoth('soon', 'printed')
  assert.equal(
    results.map(({ failed, verdict }) => [failed, verdict]),
    results.map(() => [1, 'a secret is in its output, which is therefore not shown']),
  )
  assert.is(results.length, 2)
})

test('a process that dies has results of the files before and of the one that it ran', async () => {
  const results = await runBoth('crash', 'nothing', [LEAKING, ENDING, 'test/setup/runner/order.test.ts'])
  assert.equal(
    results.map(({ passed, failed, verdict }) => [passed, failed, verdict]),
    [
      [1, 0, 'ok'],
      [0, 1, 'exit 7'],
    ],
  )
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
