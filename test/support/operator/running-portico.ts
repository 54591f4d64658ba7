import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../eventually.ts'
import { porticoProgram } from '../portico-program.ts'

export interface Report {
  readonly ready: boolean
  readonly endpoints: readonly {
    readonly kind: string
    readonly namespace: string
    readonly name: string
    readonly url: string
    readonly admin: string
  }[]
  readonly problems: readonly {
    readonly kind: string
    readonly namespace: string
    readonly name: string
    readonly reason: string
    readonly message: string
    readonly severity: string
  }[]
}

const repository = join(import.meta.dirname, '..', '..', '..')
const [program, ...options] = porticoProgram

/** Runs `portico run --output json` as a separate process. */
export class RunningPortico {
  readonly #child: ChildProcess
  readonly reports: Report[] = []
  errors = ''
  #rest = ''
  #isClosed = false

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#child = spawn(program, [...options, 'run', '--output', 'json', ...args], {
      cwd: repository,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child.once('close', () => {
      this.#isClosed = true
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      const lines = (this.#rest + chunk).split('\n')
      this.#rest = lines.pop() ?? ''
      this.reports.push(...lines.map((line) => JSON.parse(line) as Report))
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.errors += chunk
    })
  }

  get pid(): number {
    return this.#child.pid as number
  }

  get exitCode(): number | null {
    return this.#child.exitCode
  }

  /** Waits for the first report, from the `after`th on, that satisfies the condition. */
  async report(what: string, condition: (report: Report) => boolean, after = 0): Promise<Report> {
    let found: Report | undefined
    const findReport = () => {
      found = this.reports.slice(after).find(condition)
      return found !== undefined
    }
    try {
      await eventually(what, findReport)
    } catch (error) {
      const last = JSON.stringify(this.reports.at(-1), null, 1)
      throw new Error(`${(error as Error).message}\nlast report: ${last}\n${this.errors.slice(-4000)}`, {
        cause: error,
      })
    }
    return found as Report
  }

  ready(after = 0): Promise<Report> {
    return this.report('everything is ready', ({ ready }) => ready, after)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Waits until the process has ended and its output is read, and returns how it ended. */
  async ended(): Promise<string> {
    await eventually('the process has ended', () => this.#isClosed)
    return String(this.#child.exitCode ?? this.#child.signalCode)
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.signal('SIGINT')
    await this.ended()
  }
}

/**
 * Returns the command lines of live processes (no zombies) with the mark in their environment or command line. Linux
 * only.
 */
export function processesMarked(mark: string): string[] {
  const found: string[] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      if (commandLine === '') continue
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8')
      if (Number(pid) !== process.pid && (commandLine + environment).includes(mark)) found.push(`${pid} ${commandLine}`)
    } catch {
      // The process has ended meanwhile, or belongs to another user.
    }
  }
  return found
}
