import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { SourceError } from './source-error.ts'

const LARGEST = 64 * 1024

/**
 * The text of a file of this machine that holds a secret or some headers. Throws a SourceError that says `what` it is,
 * never its content; of a pipe or a device too, which would hold up whoever reads it.
 */
export async function readSmallFile(path: string, what: string): Promise<string> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = await file.stat()
    if (!stats.isFile()) throw new SourceError('file_unreadable', `${what} is no file`)
    if (stats.size > LARGEST) throw new SourceError('file_unreadable', `${what} has more than ${LARGEST} bytes`)
    return await file.readFile('utf8')
  } catch (error) {
    if (error instanceof SourceError) throw error
    throw new SourceError('file_unreadable', `${what} can’t be read (${(error as NodeJS.ErrnoException).code})`)
  }
}
