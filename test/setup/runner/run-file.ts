/**
 * Runs one test file, or several one after another, in a process and judges the results.
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
import { SplitOutput } from './several-output.ts'

const HANG_AFTER_MS = Number(process.env['TEST_HANG_MS'] ?? 1_200_000)
const LINGER_MS = Number(process.env['TEST_LINGER_MS'] ?? 60_000)
const TELL_MS = 1_000
/** The last line of uvu's summary; the `after` hooks have run before it. */
const SUMMARY = /^ {2}Duration: {2}/m
/** Comes after the dots of the tests that have ended. */
const PROGRESS = /(?<=^(?:[•✘] )*)progress: .{1,200}$/gm
const root = join(import.meta.dirname, '../../..')
const preload = (file: string) => ['--import', new URL(file, import.meta.url).href]
const PRELOADED = ['loaded-modules.ts', '../../secrets/watch.ts', 'hooks.ts'].flatMap(preload)
const DEFERRED = preload('deferred.ts')
const SEVERAL = join(import.meta.dirname, 'several.ts')
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

/** The output of one file, and its figures once it has ended. */
interface Part {
  output: string
  ended?: { readonly at: number; readonly cpu: number }
}

/**
 * Runs files one after another in one process (several.ts), and returns their results. The files behind one that has
 * failed have not run, and have no result.
 */
export function runFiles(files: readonly string[]): Promise<Result[]> {
  const started = performance.now()
  const secrets = watchSecrets()
  const isOne = files.length === 1
  return new Promise((resolve) => {
    const program = isOne ? [...PRELOADED, ...files] : [...DEFERRED, ...PRELOADED, SEVERAL, ...files]
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...program], {
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
    const mayWork = () => endIn(HANG_AFTER_MS, `none within ${HANG_AFTER_MS / 1000} s`)
    let watchdog = mayWork()
    const parts = files.map((): Part => ({ output: '' }))
    let isOver = false
    let isStopped = false
    let cpu: number | undefined
    const mustEnd = () => {
      if (isOver) return
      isOver = true
      clearTimeout(watchdog)
      const others = isOne ? '' : `, or one of the files before it has: ${files.join(', ')}`
      watchdog = endIn(LINGER_MS, `none ${LINGER_MS / 1000} s after its summary: it has left something open${others}`)
    }
    const collect = (text: string, file: number) => {
      const part = parts[file]
      if (part === undefined) return
      // The other stream may have ended without a line feed.
      if (part.output !== '' && !part.output.endsWith('\n')) part.output += '\n'
      part.output += text
      for (const [line] of text.matchAll(PROGRESS)) if (!secrets.isIn(line)) console.log(line)
      if (isOne && SUMMARY.test(text)) mustEnd()
    }
    const onEnd = (file: number, used: number, isLast: boolean) => {
      const part = parts[file]
      if (part === undefined) return
      part.ended = { at: performance.now(), cpu: used }
      if (isLast) {
        isStopped = true
        return mustEnd()
      }
      clearTimeout(watchdog)
      watchdog = mayWork()
    }
    let ended = 0
    const splits = [
      new SplitOutput({ text: collect, end: (used, isLast) => onEnd(ended++, used, isLast) }),
      new SplitOutput({ text: collect, end: () => {} }),
    ] as const
    for (const [index, stream] of [child.stdout, child.stderr].entries())
      stream.setEncoding('utf8').on('data', (piece: string) => splits[index]?.take(piece))
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
      for (const split of splits) split.end()
      // The process would have reported, but its listener was already gone with all its handles.
      if (late && signal === 'SIGUSR2') late += ', and its JavaScript was over: Node itself did not end'
      const ran = parts.slice(0, isStopped ? ended : ended + 1)
      const leaks = leakLines(secrets.leaks(ran.map(({ output }) => output).join('')))
      const exit = late || String(code ?? signal)
      let [since, used] = [started, 0]
      const results = ran.map((part, index): Result => {
        const isLast = index === ran.length - 1
        const judged = { ...judge(part.output, isLast ? exit : '0'), ...(leaks !== '' && LEAKED) }
        const until = isLast ? performance.now() : (part.ended?.at ?? since)
        // The last file is charged with what was used after it, and by processes that nobody waited for.
        const usedNow = isLast ? cpu : (part.ended?.cpu ?? used)
        const cost = { seconds: (until - since) / 1000, cpu: usedNow === undefined ? undefined : usedNow - used }
        since = until
        used = usedNow ?? used
        return { file: files[index] as string, ...judged, ...cost, output: leaks === '' ? part.output : leaks }
      })
      resolve(results)
    })
  })
}
