import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** The size at which a new file begins. The one before is kept, so that both take twice this at most. */
const MOST_BYTES = 8 * 2 ** 20

/** The log of one run, line by line with the time. `<path>.1` is the part before, or the run before. */
export class LogFile {
  readonly path: string
  #file: number
  #size = 0

  /** Throws if the file can't be created. */
  constructor(path: string) {
    this.path = path
    this.#file = this.#begin()
  }

  /** Writes a line. One that can't be written is dropped: a full disk is no reason to stop what runs. */
  write(line: string): void {
    try {
      if (this.#size > MOST_BYTES) {
        closeSync(this.#file)
        this.#file = this.#begin()
        this.#size = 0
      }
      this.#size += writeSync(this.#file, `${new Date().toISOString()} ${line}\n`)
    } catch {
      // The disk is full or the file is gone, so the line is lost.
    }
  }

  close(): void {
    closeSync(this.#file)
  }

  #begin(): number {
    try {
      renameSync(this.path, `${this.path}.1`)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    // Exclusive, so that a file that somebody else has put in its place is never written to. Servers may write
    // confidential text.
    return openSync(this.path, 'wx', 0o600)
  }
}

/** The state that one run leaves for the next one. */
interface Memory {
  readonly ports: Readonly<Record<string, number>>
  /** The folders of workloads that were written. Only these are ever removed. */
  readonly folders: readonly string[]
}

const EMPTY: Memory = { ports: {}, folders: [] }

/** Returns when a process started, so that a reused process id isn't taken for the old process. Linux only. */
function readStartTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the program's name in parentheses and may hold anything; the start time is the 22nd.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}

function isRunning({ pid, started }: { pid: number; started?: string }): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  const now = readStartTime(pid)
  return started === undefined || now === undefined || started === now
}

function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

export function replaceFile(file: string, content: string | Buffer, mode = 0o600): void {
  const next = `${file}.next`
  writeFileSync(next, content, { mode })
  renameSync(next, file)
}

/** The state directory of `portico run`. Only one process uses it at a time. */
export class StateDirectory {
  readonly path: string
  readonly log: LogFile
  readonly #lock: string
  readonly #memory: string

  /** Throws an Error if another `portico run` uses the directory. */
  constructor(path: string) {
    this.path = path
    this.#lock = join(path, 'run.lock')
    this.#memory = join(path, 'run.json')
    mkdirSync(path, { recursive: true, mode: 0o700 })
    const owner = { pid: process.pid, started: readStartTime(process.pid) }
    const claim = () => writeFileSync(this.#lock, JSON.stringify(owner), { flag: 'wx', mode: 0o600 })
    try {
      claim()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const other = readJson<{ pid: number; started?: string }>(this.#lock)
      if (other && isRunning(other)) {
        const message = `${path} is in use by another portico run (process ${other.pid}); choose another with --state`
        throw new Error(message, { cause: error })
      }
      rmSync(this.#lock, { force: true })
      claim()
    }
    this.log = new LogFile(join(path, 'run.log'))
  }

  recall(): Memory {
    return { ...EMPTY, ...readJson<Memory>(this.#memory) }
  }

  remember(memory: Memory): void {
    replaceFile(this.#memory, `${JSON.stringify(memory, null, 2)}\n`)
  }

  release(): void {
    this.log.close()
    rmSync(this.#lock, { force: true })
  }
}
