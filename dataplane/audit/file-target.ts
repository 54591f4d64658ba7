import { constants, fstatSync, write as writeWithCallback } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { promisify } from 'node:util'

export interface Target {
  /** Makes sure that the next bytes go to the right file. Called only at the beginning of a line. */
  ready(): Promise<void>
  write(bytes: Buffer): Promise<number>
  close(): Promise<void>
}

/** Non-blocking flags: if nobody reads a pipe, the write fails at once instead of waiting forever. */
const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK
const OWNER_ALONE = 0o600
/** The interval of the check whether the file was renamed or removed. */
const CHECK_EVERY_MS = 500

/** Appends to a file. It creates the file if it is missing, or was renamed or removed. */
export class FileTarget implements Target {
  readonly #path: string
  #handle: FileHandle | undefined
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
    this.#inode = formatInode(await handle.stat())
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

const formatInode = ({ dev, ino }: { readonly dev: number; readonly ino: number }): string => `${dev}:${ino}`

const inodeAt = (path: string): Promise<string | undefined> =>
  stat(path).then(formatInode, (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })

const write = promisify(writeWithCallback)
const STDOUT = 1

/**
 * Writes to standard output without Node's stream, which blocks the process if the reader of a pipe is slow. A pipe is
 * opened again as non-blocking; otherwise a thread waits.
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
