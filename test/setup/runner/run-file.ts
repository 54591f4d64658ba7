/**
 * Runs one test file in its own process and judges the result.
 *
 * A file has passed only if uvu's summary was printed and passed equals total with nothing skipped, because uvu ends with
 * exit code 0 if a promise never settles. A watchdog ends the process group of a file that hangs, or that lives on after
 * its summary because it has left something open. A secret that the file uses must not be in the output of its processes.
 * Lines that begin with `progress: ` are shown as they arrive, the rest only if the file has failed.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { leakLines, watchSecrets } from '../../secrets/scan.ts'
import { compileCache } from './compile-cache.ts'
import { CpuWatch, takeEnded } from './cpu.ts'

const HANG_AFTER_MS = Number(process.env['TEST_HANG_MS'] ?? 1_200_000)
const LINGER_MS = Number(process.env['TEST_LINGER_MS'] ?? 60_000)
const TELL_MS = 1_000
/** The last line of uvu's summary; the `after` hooks have run before it. */
const SUMMARY = /^ {2}Duration: {2}/m
/** Comes after the dots of the tests that have ended. */
const PROGRESS = /(?<=^(?:[•✘] )*)progress: .{1,200}$/gm
const root = join(import.meta.dirname, '../../..')
const PRELOADED = ['loaded-modules.ts', '../../secrets/watch.ts', 'hooks.ts'].flatMap((file) => [
  '--import',
  new URL(file, import.meta.url).href,
])
const LEAKED = { passed: 0, failed: 1, verdict: 'a secret is in its output, which is therefore not shown' }

export interface Cost {
  readonly seconds: number
  /** CPU seconds; undefined if unknown. */
  readonly cpu: number | undefined
}

export interface Result extends Cost {
  readonly file: string
  readonly passed: number
  readonly failed: number
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

const compiled = compileCache()
const cpuWatch = new CpuWatch()
const running = new Set<number>()

/** Ends the processes of all running files. */
export function endAll(): void {
  for (const pid of running) endGroup(pid)
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {}
}

export function runFile(file: string): Promise<Result> {
  const started = performance.now()
  const secrets = watchSecrets()
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...PRELOADED, file], {
      cwd: root,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...compiled, ...secrets.env, NO_COLOR: '1', FORCE_COLOR: '0' },
    })
    const pid = child.pid as number
    running.add(pid)
    cpuWatch.add(pid)
    let late = ''
    const endIn = (ms: number, verdict: string) =>
      setTimeout(() => {
        late = verdict
        // The process first reports what it waits for (hooks.ts).
        child.kill('SIGUSR2')
        watchdog = setTimeout(() => endGroup(pid), TELL_MS)
      }, ms)
    let watchdog = endIn(HANG_AFTER_MS, `none within ${HANG_AFTER_MS / 1000} s`)
    let output = ''
    let isOver = false
    let lines = 0
    let cpu: number | undefined
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
      const waitedFor = takeEnded()
      const others = cpuWatch.end(pid)
      if (waitedFor !== undefined) cpu = waitedFor + others
      endGroup(pid)
      running.delete(pid)
      // A process that has left the group keeps the output open.
      watchdog = setTimeout(() => {
        child.stdout.destroy()
        child.stderr.destroy()
      }, LINGER_MS)
    })
    // After the end of the output, which may be read after the exit.
    child.on('close', (code, signal) => {
      clearTimeout(watchdog)
      // The process would have reported, but its listener was already gone with all its handles.
      if (late && signal === 'SIGUSR2') late += ', and its JavaScript was over: Node itself did not end'
      const leaks = leakLines(secrets.leaks(output))
      const judged = { ...judge(output, late || String(code ?? signal)), ...(leaks !== '' && LEAKED) }
      const text = leaks === '' ? output : leaks
      resolve({ file, ...judged, seconds: (performance.now() - started) / 1000, cpu, output: text })
    })
  })
}
