import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto'
import type { JWK } from 'jose'
import type { Logger } from 'pino'
import { type ReadSecretFile, secretFile } from '../../config/secret-file.ts'
import { type KeyedHash, keyedHash, randomSecret } from './keyed-hash.ts'

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

/** The keys that sign tokens, in the order of the configuration. */
export interface SigningKeys {
  /** Algorithm (RFC 7518) and key id of the first key, which signs. */
  readonly alg: string
  readonly kid: string
  /** The private keys, for the signer alone; no response may contain them. */
  readonly privateKeys: readonly JWK[]
  /** The keys of the key endpoint: every key, without private members. */
  readonly publicKeys: readonly JWK[]
}

const CURVES: Readonly<Record<string, string>> = { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' }
const SHORTEST_RSA_BITS = 2048

/**
 * Reads private keys (PEM: PKCS #8, SEC1 or PKCS #1). Throws an Error that names an unusable key but not its content.
 */
export function readSigningKeys(pems: readonly string[]): SigningKeys {
  return toSigningKeys(
    pems.map((pem, index) => {
      try {
        return createPrivateKey(pem)
      } catch {
        throw new Error(`signing key ${index + 1} is not a private key in PEM format`)
      }
    }),
  )
}

/** Returns a new ES256 key. Its signatures are worthless after a restart. */
const ephemeralSigningKeys = (): SigningKeys =>
  toSigningKeys([generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey])

function toSigningKeys(keys: readonly KeyObject[]): SigningKeys {
  const privateKeys = keys.map((key, index) => {
    const algorithm = chooseAlgorithm(key)
    if (algorithm === undefined)
      throw new Error(`signing key ${index + 1} is neither EC (P-256, P-384, P-521) nor RSA with at least 2048 bits`)
    return describe(key, algorithm)
  })
  const publicKeys = keys.map((key, index) => describe(createPublicKey(key), (privateKeys[index] as JWK).alg as string))
  const [first] = publicKeys
  if (first === undefined) throw new Error('there is no signing key')
  return { alg: first.alg as string, kid: first.kid as string, privateKeys, publicKeys }
}

function chooseAlgorithm(key: KeyObject): string | undefined {
  if (key.asymmetricKeyType === 'rsa')
    return (key.asymmetricKeyDetails?.modulusLength ?? 0) >= SHORTEST_RSA_BITS ? 'RS256' : undefined
  return key.asymmetricKeyType === 'ec' ? CURVES[key.export({ format: 'jwk' }).crv ?? ''] : undefined
}

function describe(key: KeyObject, alg: string): JWK {
  const jwk = key.export({ format: 'jwk' })
  return { ...jwk, kid: thumbprint(jwk), alg, use: 'sig' } as JWK
}

/** Returns the thumbprint of RFC 7638: the digest of the required members, sorted by name. */
function thumbprint({ kty, crv, x, y, e, n }: JsonWebKey): string {
  const required = kty === 'RSA' ? { e, kty, n } : { crv, kty, x, y }
  return hash('sha256', JSON.stringify(required), 'base64url')
}
