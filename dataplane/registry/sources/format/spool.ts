import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readBytes } from './file-content.ts'
import type { Pass } from './source.ts'
import { SourceError } from './source-error.ts'

export interface Spool {
  clear(): Promise<void>
  write(piece: Buffer): Promise<void>
  /** Reads the content from its beginning. Each piece is valid until the next is requested. */
  read(): AsyncGenerator<Buffer>
}

/** Opens a spool. Its file has no name, so it is gone when the process ends. Throws a SourceError. */
export async function openSpool({ stateDirectory, parts }: Pick<Pass, 'stateDirectory' | 'parts'>): Promise<Spool> {
  const folder = join(stateDirectory, 'fetched')
  const path = join(folder, randomUUID())
  let file: FileHandle
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    file = parts.use(await open(path, 'wx+', 0o600))
    await rm(path)
  } catch (error) {
    throw noRoom(error as NodeJS.ErrnoException)
  }
  let size = 0
  return {
    async clear() {
      size = 0
      await file.truncate().catch((error: NodeJS.ErrnoException) => {
        throw noRoom(error)
      })
    },
    async write(piece) {
      for (let written = 0; written < piece.length; ) {
        const { bytesWritten } = await file
          .write(piece, written, piece.length - written, size)
          .catch((error: NodeJS.ErrnoException) => {
            throw noRoom(error)
          })
        written += bytesWritten
        size += bytesWritten
      }
    },
    read: () => readBytes(file),
  }
}

function noRoom({ code }: NodeJS.ErrnoException): SourceError {
  return new SourceError('store_failed', `the fetched content can’t be written to the state directory (${code})`)
}
