import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { secretFile } from '../../config/secret-file.ts'
import { PublicError } from '../../server/errors.ts'

/** The folder of the files of configured clients, and the log of files that can't be read. */
export interface ClientFiles {
  readonly directory: string
  /** Returns the log of the current request. */
  log(): Logger
}

/**
 * Follows the credential file of a configured client. Returns a function that gives the file's current value. `read`
 * converts the text and throws an Error for the log if it is unusable. While there is no usable value, the function
 * throws a PublicError `unavailable`; the log reports it once.
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
