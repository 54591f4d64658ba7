import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** A program that is measured from outside: it runs as it is shipped, and tells nothing of itself. */
export interface Process {
  readonly pid: number
  /** All that it has written until it was ready. */
  readonly output: string
  end(): void
}

export interface Usage {
  /** Processor time of all threads in microseconds; the kernel counts it in hundredths of a second. */
  readonly cpu: number
  /** Memory that is its own, in bytes: neither a file's nor shared. */
  readonly own: number
  readonly resident: number
}

const running = new Set<ChildProcess>()

/** Starts a program and waits until it has written `ready`. Rejects with what it wrote where it ends instead. */
export async function startProcess(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
  ready: RegExp,
): Promise<Process> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  running.add(child)
  const output = await new Promise<string>((resolve, reject) => {
    let output = ''
    // Goes on being read: a pipe that is full would stop it.
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (piece: string) => {
        if (ready.test(output)) return
        output += piece
        if (ready.test(output)) resolve(output)
      })
    child.once('error', reject)
    child.once('exit', (code) => {
      running.delete(child)
      reject(new Error(`${program} ended with ${code} before it was ready: ${output}`))
    })
  })
  return { pid: child.pid as number, output, end: () => void child.kill('SIGKILL') }
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
  return {
    cpu: (Number(fields[11]) + Number(fields[12])) * 10_000,
    own: bytes('RssAnon'),
    resident: bytes('VmRSS'),
  }
}
