import { createHmac, createSecretKey, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto'

/** Derives record names and proofs by HMAC-SHA256, with a separate domain for each purpose. It stores no secret. */
export type KeyedHash = ReturnType<typeof keyedHash>

const SHORTEST_SECRET_BYTES = 32

/**
 * Creates the hash. The first secret is active; digests with the others are accepted. Throws an Error that names a
 * secret that is too short, without its content.
 */
export function keyedHash(secrets: readonly string[]) {
  const keys = secrets.map((secret, index) => {
    const key = Buffer.from(secret)
    if (key.length < SHORTEST_SECRET_BYTES)
      throw new Error(`hmac secret ${index + 1} is shorter than ${SHORTEST_SECRET_BYTES} bytes`)
    // A key object is made once. From bytes, Node would make one for each digest, which takes ten times as long as the
    // digest.
    return createSecretKey(key)
  })
  const [first] = keys
  if (first === undefined) throw new Error('there is no hmac secret')
  const digest = (key: KeyObject, purpose: string, text: string) =>
    createHmac('sha256', key).update(`${purpose}\0${text}`).digest('base64url')
  return {
    /** Returns the digest with the active secret, base64url. */
    of: (purpose: string, text: string): string => digest(first, purpose, text),
    /** Returns the digests with all secrets, the active one first, to find records that an earlier secret named. */
    all: (purpose: string, text: string): readonly string[] => keys.map((key) => digest(key, purpose, text)),
    /** Tells whether a digest matches one of the secrets, in constant time. */
    matches: (purpose: string, text: string, given: string): boolean =>
      keys.some((key) => isEqual(digest(key, purpose, text), given)),
  }
}

/** Returns a new secret: 256 random bits, base64url. */
export const randomSecret = (): string => randomBytes(32).toString('base64url')

/** Compares two texts in constant time. */
export function isEqual(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
