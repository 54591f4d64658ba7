/**
 * Runs the tests, one process a file. `npm test`, or `npm test -- registry gateway` for files whose path holds one of
 * the words.
 *
 * Set-up comes first, so that the watchdog counts none of it.
 *
 * A file has passed only if uvu's summary came and passed equals total with nothing skipped: uvu ends with exit code 0
 * when a promise never settles. A watchdog ends the process group of a file that hangs, or that has left something open
 * and lives on after its summary. No secret that a file uses may be in its output or in that of the processes that it
 * starts. Lines that begin with `progress: ` are shown as they come, the rest when a file has failed.
 */
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { relative } from 'node:path'
import { leakLines, removeAbandoned, watchSecrets } from './secrets/scan.ts'
import { setUp } from './setup/index.ts'
import { needsOf } from './setup/needs.ts'
import { compileCache } from './setup/runner/compile-cache.ts'
import { testFiles } from './setup/test-files.ts'

const HANG_AFTER_MS = Number(process.env['TEST_HANG_MS'] ?? 1_200_000)
const LINGER_MS = Number(process.env['TEST_LINGER_MS'] ?? 60_000)
const TELL_MS = 1_000
/** The last line of uvu's summary: the hooks after the tests have run before it. */
const SUMMARY = /^ {2}Duration: {2}/m
/** Behind the dots of the tests that have ended. */
const PROGRESS = /(?<=^(?:[•✘] )*)progress: .{1,200}$/gm
const FILES = process.env['TEST_FILES'] ?? 'test/**/*.test.ts'
/** One more than there are cores: files wait for timers, disks and one another's processes a third of their time. */
const JOBS = Number(process.env['TEST_JOBS'] ?? availableParallelism() + 1)
const root = new URL('..', import.meta.url).pathname
const PRELOADED = ['secrets/watch.ts', 'setup/runner/hooks.ts'].flatMap((file) => [
  '--import',
  new URL(file, import.meta.url).href,
])
const COMPILED = compileCache()
const LEAKED = { passed: 0, failed: 1, verdict: 'a secret is in its output, which is therefore not shown' }

interface Result {
  readonly file: string
  readonly passed: number
  readonly failed: number
  readonly seconds: number
  readonly output: string
  readonly verdict: string
}

function count(output: string, label: string): number {
  let sum = 0
  for (const match of output.matchAll(new RegExp(`^\\s+${label}:\\s+(\\d+)`, 'gm'))) sum += Number(match[1])
  return sum
}

function judge(output: string, exit: string): { passed: number; failed: number; verdict: string } {
  const total = count(output, 'Total')
  const passed = count(output, 'Passed')
  const skipped = count(output, 'Skipped')
  if (total > 0 && passed === 0 && !output.includes(' FAIL '))
    return { passed, failed: total, verdict: 'no test ran: a `before` hook threw' }
  if (exit !== '0') return { passed, failed: Math.max(1, total - passed), verdict: `exit ${exit}` }
  if (total === 0) return { passed, failed: 1, verdict: 'no summary: a promise never settled, or there is no test' }
  if (passed + skipped < total) return { passed, failed: total - passed - skipped, verdict: 'failed' }
  if (skipped > 0) return { passed, failed: skipped, verdict: 'skipped tests count as failed' }
  return { passed, failed: 0, verdict: 'ok' }
}

function runFile(file: string): Promise<Result> {
  const started = performance.now()
  const secrets = watchSecrets()
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...PRELOADED, file], {
      cwd: root,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...COMPILED, ...secrets.env, NO_COLOR: '1', FORCE_COLOR: '0' },
    })
    const endGroup = () => {
      try {
        process.kill(-(child.pid as number), 'SIGKILL')
      } catch {}
    }
    let late = ''
    const endIn = (ms: number, verdict: string) =>
      setTimeout(() => {
        late = verdict
        // First it tells what it waits for (setup/runner/hooks.ts).
        child.kill('SIGUSR2')
        watchdog = setTimeout(endGroup, TELL_MS)
      }, ms)
    let watchdog = endIn(HANG_AFTER_MS, `none within ${HANG_AFTER_MS / 1000} s`)
    let output = ''
    let isOver = false
    let lines = 0
    const collect = (chunk: Buffer) => {
      output += chunk.toString()
      const whole = output.lastIndexOf('\n') + 1
      const added = output.slice(lines, whole)
      lines = whole
      for (const [line] of added.matchAll(PROGRESS)) if (!secrets.isIn(line)) console.log(line)
      if (isOver || !SUMMARY.test(added)) return
      isOver = true
      clearTimeout(watchdog)
      watchdog = endIn(LINGER_MS, `none ${LINGER_MS / 1000} s after its summary: it has left something open`)
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    child.on('exit', () => {
      isOver = true
      clearTimeout(watchdog)
      endGroup()
      // One that has left the group holds the output open.
      watchdog = setTimeout(() => {
        child.stdout.destroy()
        child.stderr.destroy()
      }, LINGER_MS)
    })
    // Behind the last of the output, which may be read after the exit.
    child.on('close', (code, signal) => {
      clearTimeout(watchdog)
      // It would have told: its listener was gone already, with all of its handles.
      if (late && signal === 'SIGUSR2') late += ', and its JavaScript was over: Node itself did not end'
      const leaks = leakLines(secrets.leaks(output))
      const judged = { ...judge(output, late || String(code ?? signal)), ...(leaks !== '' && LEAKED) }
      const shown = leaks === '' ? output : leaks
      resolve({ file, ...judged, seconds: (performance.now() - started) / 1000, output: shown })
    })
  })
}

const words = process.argv.slice(2)
const files = testFiles(words, FILES)
if (files.length === 0) {
  console.error(`no test file matches ${words.join(', ')}`)
  process.exit(1)
}

try {
  await setUp(needsOf(files))
} catch (error) {
  console.error(`Set-up: ${(error as Error).message}`)
  console.log('0 passed, 1 failed')
  process.exit(1)
}

removeAbandoned()
const waiting = [...files]
const results: Result[] = []
async function work(): Promise<void> {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const result = await runFile(file)
    results.push(result)
    const name = relative('test', file)
    const line = `${result.failed ? 'FAIL' : 'ok  '} ${name} (${result.passed} passed, ${result.seconds.toFixed(1)} s)`
    console.log(result.failed ? `${line}: ${result.verdict}\n${result.output.trimEnd()}\n` : line)
  }
}
await Promise.all(Array.from({ length: Math.min(JOBS, files.length) }, work))

const passed = results.reduce((sum, result) => sum + result.passed, 0)
const failed = results.reduce((sum, result) => sum + result.failed, 0)
for (const result of results) if (result.failed) console.log(`failed: ${result.file} (${result.verdict})`)
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
