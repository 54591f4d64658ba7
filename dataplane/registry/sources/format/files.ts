import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Pass } from './source.ts'
import { SourceError } from './source-error.ts'

export type Bytes = AsyncIterable<Buffer> | Iterable<Buffer>

const PIECE_BYTES = 256 * 1024
const LARGEST_SECRET = 64 * 1024

/** Reads an open file from its beginning. The pieces share a buffer: each is valid until the next is requested. */
export async function* readBytes(file: FileHandle): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES)
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, PIECE_BYTES, at).catch((error: NodeJS.ErrnoException) => {
      throw new SourceError('file_unreadable', `the file can’t be read (${error.code})`)
    })
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/**
 * Reads a small file of secrets or headers. Throws a SourceError, which does not show the content. Pipes and devices
 * are refused, since reading them may block.
 */
export async function readSmallFile(path: string, what: string): Promise<string> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = await file.stat()
    if (!stats.isFile()) throw new SourceError('file_unreadable', `${what} is no file`)
    if (stats.size > LARGEST_SECRET)
      throw new SourceError('file_unreadable', `${what} has more than ${LARGEST_SECRET} bytes`)
    return await file.readFile('utf8')
  } catch (error) {
    if (error instanceof SourceError) throw error
    throw new SourceError('file_unreadable', `${what} can’t be read (${(error as NodeJS.ErrnoException).code})`)
  }
}

/** A temporary file for content that is fetched before it is read. */
export type Spool = Awaited<ReturnType<typeof openSpool>>

/** Opens a spool. Its file is unlinked at once, so that it ends with the process. Throws a SourceError. */
export async function openSpool({ stateDirectory, parts }: Pick<Pass, 'stateDirectory' | 'parts'>) {
  const folder = join(stateDirectory, 'fetched')
  const path = join(folder, randomUUID())
  let file: FileHandle
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    file = parts.use(await open(path, 'wx+', 0o600))
    await rm(path)
  } catch (error) {
    failWrite(error as NodeJS.ErrnoException)
  }
  let size = 0
  return {
    async clear(): Promise<void> {
      size = 0
      await file.truncate().catch(failWrite)
    },
    async write(piece: Buffer): Promise<void> {
      for (let written = 0; written < piece.length; ) {
        const { bytesWritten } = await file.write(piece, written, piece.length - written, size).catch(failWrite)
        written += bytesWritten
        size += bytesWritten
      }
    },
    /** Reads the content from its beginning. Each piece is valid until the next is requested. */
    read: () => readBytes(file),
  }
}

function failWrite({ code }: NodeJS.ErrnoException): never {
  throw new SourceError('store_failed', `the fetched content can’t be written to the state directory (${code})`)
}
