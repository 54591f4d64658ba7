import { closeSync, openSync, renameSync, writeSync } from 'node:fs'

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
