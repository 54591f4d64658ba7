import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Pass } from './source.ts'
import { SourceError } from './source-error.ts'

/**
 * A file for what is fetched, so that memory need not hold it. It has no name: when the pass ends, or the process is
 * killed, it is gone.
 */
export async function openSpool({
  stateDirectory,
  parts,
}: Pick<Pass, 'stateDirectory' | 'parts'>): Promise<FileHandle> {
  const folder = join(stateDirectory, 'fetched')
  const path = join(folder, randomUUID())
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const file = parts.use(await open(path, 'wx+', 0o600))
    await rm(path)
    return file
  } catch (error) {
    throw noRoom(error as NodeJS.ErrnoException)
  }
}

/** Writes the next piece. Throws a SourceError. */
export async function spool(file: FileHandle, piece: Buffer): Promise<void> {
  await file.appendFile(piece).catch((error: NodeJS.ErrnoException) => {
    throw noRoom(error)
  })
}

function noRoom({ code }: NodeJS.ErrnoException): SourceError {
  return new SourceError('store_failed', `the state directory does not take what is fetched (${code})`)
}
