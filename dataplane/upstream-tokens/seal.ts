import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

type KeyName = string

/** Seals texts (AES-256-GCM) under keys that are derived from secrets, so that the storage can't read them. */
export interface Sealer {
  seal(text: string, name: KeyName): string
  /** Opens a text. Returns undefined if it was changed, stored under another name, or its secret is unknown. */
  open(sealed: string, name: KeyName): string | undefined
}

interface SealKey {
  readonly id: string
  readonly bytes: Buffer
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
const ID_BYTES = 8
const SHORTEST_SECRET = 32
/** The characters of a nonce, and so of a version. */
const VERSION_LENGTH = (NONCE_BYTES / 3) * 4

/**
 * Creates a sealer. A sealed text is NONCE.KEY-ID.CIPHERTEXT; the random nonce is its version. `secrets`: the first one
 * seals, all open; called for each use. `salt` separates the keys of sealers. Throws an Error at use if a secret has
 * less than 32 bytes.
 */
export function createSealer(secrets: () => readonly string[], salt: string): Sealer {
  let derivedFrom: readonly string[] = []
  let keys: readonly SealKey[] = []

  function current(): readonly SealKey[] {
    const given = secrets()
    if (given.length !== derivedFrom.length || given.some((secret, index) => secret !== derivedFrom[index])) {
      keys = given.map((secret) => derive(secret, salt))
      derivedFrom = given
    }
    return keys
  }

  return {
    seal(text, name) {
      const [key] = current()
      if (key === undefined) throw new Error('there is no secret to seal upstream tokens with')
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, key.bytes, nonce).setAAD(Buffer.from(name))
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `${nonce.toString('base64url')}.${key.id}.${sealed.toString('base64url')}`
    },
    open(sealed, name) {
      const [nonce = '', id, text = ''] = sealed.split('.', 3)
      const key = current().find((one) => one.id === id)
      const bytes = Buffer.from(text, 'base64url')
      if (key === undefined || nonce.length !== VERSION_LENGTH || bytes.length < TAG_BYTES) return undefined
      try {
        const decipher = createDecipheriv(CIPHER, key.bytes, Buffer.from(nonce, 'base64url'))
        decipher.setAAD(Buffer.from(name)).setAuthTag(bytes.subarray(-TAG_BYTES))
        return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8')
      } catch {
        return undefined
      }
    },
  }
}

export const versionOf = (sealed: string): string => sealed.slice(0, VERSION_LENGTH)

function derive(secret: string, salt: string): SealKey {
  if (Buffer.byteLength(secret) < SHORTEST_SECRET)
    throw new Error(`a secret that seals upstream tokens has less than ${SHORTEST_SECRET} bytes`)
  const bytes = Buffer.from(hkdfSync('sha256', secret, salt, 'upstream tokens', KEY_BYTES + ID_BYTES))
  return { bytes: bytes.subarray(0, KEY_BYTES), id: bytes.subarray(KEY_BYTES).toString('base64url') }
}
