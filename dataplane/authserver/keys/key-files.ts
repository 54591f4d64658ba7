import type { Logger } from 'pino'
import { type ReadSecretFile, secretFile } from '../../config/secret-file.ts'
import { type KeyedHash, keyedHash, randomSecret } from './keyed-hash.ts'
import { ephemeralSigningKeys, readSigningKeys, type SigningKeys } from './signing-keys.ts'

/** A snapshot of keys and secrets. A changed file causes a new object. */
export interface KeyMaterial {
  readonly keys: SigningKeys
  readonly keyed: KeyedHash
  /** The secrets themselves, the active one first. */
  readonly secrets: readonly string[]
}

interface KeyFilesOptions {
  /** Absolute paths; undefined for a key that exists until this process ends. */
  readonly signingKeyFiles: readonly string[] | undefined
  readonly hmacSecretFiles: readonly string[] | undefined
  readonly log: Logger
}

/**
 * Returns the function that reads keys and secrets, again after a file has changed. It logs an unreadable or unusable
 * file and keeps the earlier values. Without earlier values it throws an Error for the log.
 */
export function keyFiles({ signingKeyFiles, hmacSecretFiles, log }: KeyFilesOptions): () => KeyMaterial {
  if (signingKeyFiles === undefined)
    log.warn('signing keys are not configured: tokens end with this process, and no other replica accepts them')
  if (hmacSecretFiles === undefined)
    log.warn(
      'hmac secrets are not configured: codes and refresh tokens end with this process, and no other replica accepts them',
    )
  const keys = followed(signingKeyFiles, readSigningKeys, ephemeralSigningKeys)
  const secrets = followed(hmacSecretFiles, hashing, () => hashing([randomSecret()]))
  let current: KeyMaterial | undefined
  let problem: string | undefined
  return function keyMaterial() {
    try {
      const next = { keys: keys(), ...secrets() }
      if (next.keys !== current?.keys || next.keyed !== current.keyed) {
        if (current !== undefined) log.info({ kid: next.keys.kid }, 'keys of the authorization server were read again')
        current = next
      }
      problem = undefined
    } catch (error) {
      const { message } = error as Error
      if (message !== problem)
        log.error({ err: error }, 'keys of the authorization server can’t be used; the previous ones stay in use')
      problem = message
      if (current === undefined) throw error
    }
    return current
  }
}

const hashing = (secrets: readonly string[]) => ({ keyed: keyedHash(secrets), secrets })

/** Returns a value derived from files, and derives it again when the text of one has changed. */
function followed<T>(
  files: readonly string[] | undefined,
  make: (texts: readonly string[]) => T,
  ephemeral: () => T,
): () => T {
  if (files === undefined) {
    const made = ephemeral()
    return () => made
  }
  const read: readonly ReadSecretFile[] = files.map(secretFile)
  let texts: readonly string[] = []
  let made: T | undefined
  return () => {
    const found = read.map((file) => file())
    if (made === undefined || found.some((text, index) => text !== texts[index])) {
      made = make(found)
      texts = found
    }
    return made
  }
}
