import { createHash, type Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { createBudget } from './budget.ts'
import { readCatalog } from './parse.ts'
import type { Pass, ReadChange } from './source.ts'
import { SourceError } from './source-error.ts'

const PIECE = 256 * 1024

type Bytes = AsyncIterable<Buffer> | Iterable<Buffer>

const LARGEST_SECRET = 64 * 1024

/** Polls the bytes of a registry file; undefined if their hash is the cursor. Each call of `bytes` reads them anew. */
export async function pollContent(
  bytes: () => Bytes,
  { cursor, maxBytes }: Pick<Pass, 'cursor' | 'maxBytes'>,
): Promise<ReadChange | undefined> {
  if (cursor !== undefined && (await computeHash(bytes())) === cursor) return undefined
  return async function readContent() {
    // The hash is of the bytes that are parsed: a file may be written to while it is read.
    const digest = createHash('sha256')
    return {
      complete: true,
      batches: readCatalog(hashed(bytes(), digest), createBudget(maxBytes)),
      cursor: () => digest.digest('base64url'),
    }
  }
}

/** Returns the SHA-256 of the bytes in base64url. */
export async function computeHash(bytes: Bytes): Promise<string> {
  const digest = createHash('sha256')
  for await (const piece of bytes) digest.update(piece)
  return digest.digest('base64url')
}

async function* hashed(bytes: Bytes, digest: Hash): AsyncGenerator<Buffer> {
  for await (const piece of bytes) {
    digest.update(piece)
    yield piece
  }
}

/** Reads an open file from its beginning. All pieces share one buffer: each is valid until the next is requested. */
export async function* readBytes(file: FileHandle): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(PIECE)
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, PIECE, at).catch((error: NodeJS.ErrnoException) => {
      throw new SourceError('file_unreadable', `the file can’t be read (${error.code})`)
    })
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/**
 * Reads a small file of secrets or headers. Throws a SourceError without its content. A pipe or a device is refused,
 * since reading it would block.
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
