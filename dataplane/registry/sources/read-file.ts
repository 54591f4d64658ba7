import { hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { SourceError } from './source-error.ts'

/** Above this a registry file is refused: it is held in memory as a whole. */
const LARGEST_BYTES = 256 * 1024 * 1024

/** Reads a registry file and its hash. Throws a SourceError. */
export async function readRegistryFile(path: string): Promise<{ bytes: Buffer; contentHash: string }> {
  const bytes = await readBounded(path)
  return { bytes, contentHash: hash('sha256', bytes, 'base64url') }
}

async function readBounded(path: string): Promise<Buffer> {
  try {
    await using file = await open(path)
    const { size } = await file.stat()
    if (size > LARGEST_BYTES)
      throw new SourceError('too_large', `the file has ${size} bytes; at most ${LARGEST_BYTES} are read`)
    return await file.readFile()
  } catch (error) {
    if (error instanceof SourceError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new SourceError('file_missing', 'there is no such file')
    throw new SourceError('file_unreadable', `the file can’t be read (${code})`)
  }
}
