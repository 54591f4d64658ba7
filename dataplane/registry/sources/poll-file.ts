import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { tooManyBytes } from './format/budget.ts'
import { pollContent, readBytes } from './format/file-content.ts'
import type { LocationOf, Pass, ReadChange } from './format/source.ts'
import { SourceError } from './format/source-error.ts'

/** Polls a registry file on this machine. */
export async function pollFile({ path }: LocationOf<'file'>, pass: Pass): Promise<ReadChange | undefined> {
  const file = pass.parts.use(await openBounded(path, pass.maxBytes))
  return pollContent(() => readBytes(file), pass)
}

async function openBounded(path: string, maxBytes: number): Promise<FileHandle> {
  let file: FileHandle
  try {
    // Without this flag, opening a pipe without a writer would block.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new SourceError('file_missing', 'there is no such file')
    throw new SourceError('file_unreadable', `the file can’t be read (${code})`)
  }
  const stats = await file.stat()
  if (stats.isFile() && stats.size <= maxBytes) return file
  await file.close()
  if (!stats.isFile()) throw new SourceError('file_unreadable', 'it is no file')
  throw tooManyBytes(maxBytes)
}

export async function pollInline({ text }: LocationOf<'inline'>, pass: Pass): Promise<ReadChange | undefined> {
  const bytes = Buffer.from(text)
  if (bytes.length > pass.maxBytes) throw tooManyBytes(pass.maxBytes)
  return pollContent(() => [bytes], pass)
}
