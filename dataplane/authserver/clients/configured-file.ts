import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { secretFile } from '../../config/secret-file.ts'
import { PublicError } from '../../server/errors.ts'

/** Where the files of configured clients are, and where it is logged that one can't be read. */
export interface ClientFiles {
  readonly directory: string
  /** Returns the log of the current request. */
  log(): Logger
}

/**
 * Follows a file that a configured client is authenticated by, and returns the function that gives what is in it.
 * `read` takes its text and throws an Error for the log if it is unusable. The function throws a PublicError
 * `unavailable` while the file can't be used. The log says so once.
 */
export function configuredFile<T>(
  path: string,
  clientId: string,
  { directory, log }: ClientFiles,
  read: (text: string) => T,
): () => T {
  const readText = secretFile(resolve(directory, path))
  let known: { readonly text: string; readonly value: T } | undefined
  let isSaid = false
  return function fileOfClient() {
    try {
      const text = readText()
      if (known?.text !== text) known = { text, value: read(text) }
      isSaid = false
      return known.value
    } catch (cause) {
      if (!isSaid) log().error({ err: cause, client: clientId }, 'the secret or the keys of a client can’t be read')
      isSaid = true
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })
    }
  }
}

/** Returns the digest of the secret in a file. */
export function secretIn(text: string): string {
  if (text === '') throw new Error('the file is empty')
  return text
}
