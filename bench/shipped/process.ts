import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** A program that is measured from outside: it runs as it is shipped, and tells nothing of itself. */
export interface Process {
  readonly pid: number
  readonly child: ChildProcess
  /** All that it has written until it was ready. */
  readonly output: string
  end(): void
}

export interface Usage {
  /** Processor time of all threads in microseconds. */
  readonly cpu: number
  /** Memory that is its own, in bytes: neither a file's nor shared. */
  readonly own: number
  readonly resident: number
  /** The most of it that there ever was. */
  readonly peak: number
}

const running = new Set<ChildProcess>()

/**
 * Starts a program and waits until it has written `ready`, or for nothing without that. Rejects with what it wrote where it
 * ends instead.
 */
export async function startProcess(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
  ready = /^/,
): Promise<Process> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: { ...process.env, ...env } })
  // Nobody listens but what a benchmark has loaded beside the program.
  child.channel?.unref()
  running.add(child)
  const output = await new Promise<string>((resolve, reject) => {
    let output = ''
    // Goes on being read: a pipe that is full would stop it.
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (piece: string) => {
        if (ready.test(output)) return
        output += piece
        if (ready.test(output)) resolve(output)
      })
    if (ready.test(output)) resolve(output)
    child.once('error', reject)
    child.once('exit', (code) => {
      running.delete(child)
      reject(new Error(`${program} ended with ${code} before it was ready: ${output}`))
    })
  })
  return { pid: child.pid as number, child, output, end: () => void child.kill('SIGKILL') }
}

/** Ends every process that still runs. */
export function endProcesses(): void {
  for (const child of running) child.kill('SIGKILL')
}

process.once('exit', endProcesses)

/** The use that a process has made of the machine by now, by Linux's /proc. */
export function readUsage(pid: number): Usage {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const bytes = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) * 1024
  // Exact, but of the threads that there are; the other is of all there were, in hundredths of a second.
  const ofThreads = readdirSync(`/proc/${pid}/task`).reduce((sum, task) => sum + runningTime(pid, task), 0)
  return {
    cpu: Math.max(ofThreads, (Number(fields[11]) + Number(fields[12])) * 10_000),
    own: bytes('RssAnon'),
    resident: bytes('VmRSS'),
    peak: bytes('VmHWM'),
  }
}

/** Microseconds; none of a thread that has just ended, or where the kernel does not count them. */
function runningTime(pid: number, task: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e3
  } catch {
    return 0
  }
}

/** Processor time that a process has used by now. */
export const cpuSeconds = ({ pid }: { readonly pid: number }): number => readUsage(pid).cpu / 1e6
