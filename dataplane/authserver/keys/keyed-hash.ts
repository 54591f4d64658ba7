import { createHmac, createSecretKey, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto'

/** Names things by secrets without keeping the secrets: HMAC-SHA256, one domain for each purpose. */
export interface KeyedHash {
  /** The digest by the secret in force, base64url. */
  of(purpose: string, text: string): string
  /** The digests by all secrets, the one in force first: for looking up what an earlier one has named. */
  all(purpose: string, text: string): readonly string[]
  /** Whether a digest is one of them; compared in constant time. */
  matches(purpose: string, text: string, digest: string): boolean
}

const SHORTEST_SECRET_BYTES = 32

/**
 * Makes the hash. The first secret is in force, digests by the others are accepted. Throws an Error that says which
 * secret is too short, and nothing of its content.
 */
export function keyedHash(secrets: readonly string[]): KeyedHash {
  const keys = secrets.map((secret, index) => {
    const key = Buffer.from(secret)
    if (key.length < SHORTEST_SECRET_BYTES)
      throw new Error(`hmac secret ${index + 1} is shorter than ${SHORTEST_SECRET_BYTES} bytes`)
    // Of bytes Node would make such an object for each digest, which costs ten times as much as the digest.
    return createSecretKey(key)
  })
  const [first] = keys
  if (first === undefined) throw new Error('there is no hmac secret')
  const digest = (key: KeyObject, purpose: string, text: string) =>
    createHmac('sha256', key).update(`${purpose}\0${text}`).digest('base64url')
  return {
    of: (purpose, text) => digest(first, purpose, text),
    all: (purpose, text) => keys.map((key) => digest(key, purpose, text)),
    matches: (purpose, text, given) => keys.some((key) => isEqual(digest(key, purpose, text), given)),
  }
}

/** A secret that nobody has had before: 256 random bits, base64url. */
export const randomSecret = (): string => randomBytes(32).toString('base64url')

/** Compares two texts in a time that tells nothing of where they differ. */
export function isEqual(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
