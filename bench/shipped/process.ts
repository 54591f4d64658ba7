import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** A program that is measured from outside, as it is shipped. */
export interface Process {
  readonly pid: number
  readonly child: ChildProcess
  /** Its output until it was ready. */
  readonly output: string
  end(): void
}

export interface Usage {
  /** Processor time of all threads in microseconds. */
  readonly cpu: number
  /** Private memory in bytes: neither a file's nor shared. */
  readonly own: number
  readonly resident: number
  /** The most of it that there ever was. */
  readonly peak: number
}

const running = new Set<ChildProcess>()

/**
 * Starts a program and waits until it has written `ready`, if that is given. Rejects with its output if it ends
 * instead.
 */
export async function startProcess(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
  ready = /^/,
): Promise<Process> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: { ...process.env, ...env } })
  // Only code that a benchmark has loaded beside the program listens here.
  child.channel?.unref()
  running.add(child)
  const output = await new Promise<string>((resolve, reject) => {
    let output = ''
    // Keep reading: a full pipe would stop it.
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

export function endProcesses(): void {
  for (const child of running) child.kill('SIGKILL')
}

process.once('exit', endProcesses)

/** Reads a process's use of the machine from /proc. */
export function readUsage(pid: number): Usage {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const bytes = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) * 1024
  // Exact, but only of the current threads; the other figure is of all threads ever, in hundredths of a second.
  const ofThreads = readdirSync(`/proc/${pid}/task`).reduce((sum, task) => sum + runningTime(pid, task), 0)
  return {
    cpu: Math.max(ofThreads, (Number(fields[11]) + Number(fields[12])) * 10_000),
    own: bytes('RssAnon'),
    resident: bytes('VmRSS'),
    peak: bytes('VmHWM'),
  }
}

/** Microseconds; 0 for a thread that has just ended, or if the kernel does not count them. */
function runningTime(pid: number, task: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e3
  } catch {
    return 0
  }
}

/** Returns the processor time that a process has used. */
export const cpuSeconds = ({ pid }: { readonly pid: number }): number => readUsage(pid).cpu / 1e6
