import { hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { parseCatalog } from './parse.ts'
import type { Content, Pass, PlaceOf } from './source.ts'
import { SourceError } from './source-error.ts'

/** Above this a registry file is refused: it is held in memory as a whole. */
export const LARGEST_FILE = 256 * 1024 * 1024

/** Reads a registry file on this machine. */
export async function readFile({ path }: PlaceOf<'file'>, pass: Pass): Promise<Content | undefined> {
  return contentOf(await readBounded(path), pass)
}

/** What the bytes of a registry file hold; undefined where they are those of the mark. */
export function contentOf(bytes: Buffer, { mark }: Pass): Content | undefined {
  const contentHash = hash('sha256', bytes, 'base64url')
  if (contentHash === mark) return undefined
  return { complete: true, batches: [parseCatalog(bytes)], mark: () => contentHash }
}

async function readBounded(path: string): Promise<Buffer> {
  try {
    await using file = await open(path)
    const { size } = await file.stat()
    if (size > LARGEST_FILE)
      throw new SourceError('too_large', `the file has ${size} bytes; at most ${LARGEST_FILE} are read`)
    return await file.readFile()
  } catch (error) {
    if (error instanceof SourceError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new SourceError('file_missing', 'there is no such file')
    throw new SourceError('file_unreadable', `the file can’t be read (${code})`)
  }
}
