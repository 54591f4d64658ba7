import { createHash, type Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { createBudget, tooManyBytes } from './format/budget.ts'
import { readCatalog } from './format/catalog-reader.ts'
import { type Bytes, readBytes } from './format/files.ts'
import type { LocationOf, Pass, ReadChange } from './format/source.ts'
import { SourceError } from './format/source-error.ts'

/** Polls a registry file of this machine. */
export async function pollFile({ path }: LocationOf<'file'>, pass: Pass): Promise<ReadChange | undefined> {
  const file = pass.parts.use(await openWithin(path, pass.maxBytes))
  return pollContent(() => readBytes(file), pass)
}

async function openWithin(path: string, maxBytes: number): Promise<FileHandle> {
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
  if (!stats.isFile()) throw new SourceError('file_unreadable', 'it is not a regular file')
  throw tooManyBytes(maxBytes)
}

/** Polls a registry file that the configuration holds as text. */
export async function pollInline({ text }: LocationOf<'inline'>, pass: Pass): Promise<ReadChange | undefined> {
  const bytes = Buffer.from(text)
  if (bytes.length > pass.maxBytes) throw tooManyBytes(pass.maxBytes)
  return pollContent(() => [bytes], pass)
}

/** Polls the bytes of a registry file; undefined if their hash is the cursor. `bytes` reads them from the beginning. */
async function pollContent(
  bytes: () => Bytes,
  { cursor, maxBytes }: Pick<Pass, 'cursor' | 'maxBytes'>,
): Promise<ReadChange | undefined> {
  if (cursor !== undefined && (await computeHash(bytes())) === cursor) return undefined
  return async function readContent() {
    // The parsed bytes are hashed once more, since the file may have changed after the first hash.
    const digest = createHash('sha256')
    return {
      complete: true,
      batches: readCatalog(hashWhileReading(bytes(), digest), createBudget(maxBytes)),
      cursor: () => digest.digest('base64url'),
    }
  }
}

/** Returns the SHA-256 of the bytes in base64url. */
async function computeHash(bytes: Bytes): Promise<string> {
  const digest = createHash('sha256')
  for await (const piece of bytes) digest.update(piece)
  return digest.digest('base64url')
}

async function* hashWhileReading(bytes: Bytes, digest: Hash): AsyncGenerator<Buffer> {
  for await (const piece of bytes) {
    digest.update(piece)
    yield piece
  }
}
