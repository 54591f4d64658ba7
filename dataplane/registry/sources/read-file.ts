import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { bytesOf, contentOf, LARGEST_FILE } from './file-content.ts'
import type { Pass, PlaceOf, ReadChange } from './source.ts'
import { SourceError } from './source-error.ts'

/** Looks at a registry file on this machine. */
export async function readFile({ path }: PlaceOf<'file'>, pass: Pass): Promise<ReadChange | undefined> {
  const file = pass.parts.use(await openBounded(path))
  return contentOf(() => bytesOf(file), pass)
}

async function openBounded(path: string): Promise<FileHandle> {
  let file: FileHandle
  try {
    // A pipe without a writer would hold up whoever opens it.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new SourceError('file_missing', 'there is no such file')
    throw new SourceError('file_unreadable', `the file can’t be read (${code})`)
  }
  const stats = await file.stat()
  if (stats.isFile() && stats.size <= LARGEST_FILE) return file
  await file.close()
  if (!stats.isFile()) throw new SourceError('file_unreadable', 'it is no file')
  throw new SourceError('too_large', `the file has ${stats.size} bytes; at most ${LARGEST_FILE} are read`)
}
