import { constants, fstatSync, write as writeWithCallback } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { promisify } from 'node:util'

/** Where lines are written. Both methods reject where that fails, and may be called again. */
export interface Target {
  /** Makes sure that what comes goes to the right place. Called at the beginning of a line only. */
  ready(): Promise<void>
  /** Writes some of the bytes; gives how many. */
  write(bytes: Buffer): Promise<number>
  close(): Promise<void>
}

/** Not blocking: a pipe that nobody reads is an error at once, not a wait without an end. */
const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK
const OWNER_ALONE = 0o600
/** A file that was renamed or removed is noticed after this time. */
const CHECK_EVERY_MS = 500

/** Appends to a file, which it makes where there is none; and makes another one when that was renamed or removed. */
export class FileTarget implements Target {
  readonly #path: string
  #handle: FileHandle | undefined
  /** Of the file that is open. */
  #inode = ''
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  async ready(): Promise<void> {
    const now = performance.now()
    if (this.#handle !== undefined && now - this.#checkedAt < CHECK_EVERY_MS) return
    if (this.#handle !== undefined && (await inodeAt(this.#path)) === this.#inode) {
      this.#checkedAt = now
      return
    }
    await this.close()
    const handle = await open(this.#path, FLAGS, OWNER_ALONE)
    this.#inode = inodeOf(await handle.stat())
    this.#handle = handle
    this.#checkedAt = now
  }

  async write(bytes: Buffer): Promise<number> {
    if (this.#handle === undefined) throw new Error('the file is not open')
    return (await this.#handle.write(bytes)).bytesWritten
  }

  async close(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    await handle?.close()
  }
}

const inodeOf = ({ dev, ino }: { readonly dev: number; readonly ino: number }): string => `${dev}:${ino}`

const inodeAt = (path: string): Promise<string | undefined> =>
  stat(path).then(inodeOf, (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })

const write = promisify(writeWithCallback)
const STDOUT = 1

/**
 * Standard output, beside Node's own stream of it: that stops the whole process where the reader of a pipe is slow. A pipe
 * is opened once more, so that writing to it doesn't wait; where that is not to be had a thread waits, and no call.
 */
export class StdoutTarget implements Target {
  #handle: FileHandle | undefined
  #isReady = false

  async ready(): Promise<void> {
    if (this.#isReady) return
    this.#isReady = true
    if (!fstatSync(STDOUT).isFIFO()) return
    this.#handle = await open('/dev/stdout', constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined)
  }

  async write(bytes: Buffer): Promise<number> {
    return this.#handle === undefined
      ? (await write(STDOUT, bytes)).bytesWritten
      : (await this.#handle.write(bytes)).bytesWritten
  }

  async close(): Promise<void> {
    await this.#handle?.close()
  }
}
