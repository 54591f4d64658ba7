import { KeyObject } from 'node:crypto'
import type { CryptoKey, JWTHeaderParameters, JWTPayload } from 'jose'
import { isObject } from '../../../crds/settings/json.ts'
import { isSigned, isSignedElsewhere, keyFor, SIGNATURE_ALGORITHMS, type SignatureKey } from '../../identity/index.ts'
import type { FindKey } from './client-keys.ts'

/** The accepted difference between the clocks, in seconds. */
export const SKEW_S = 30
/** The bits of an RSA key: with fewer it is weak, with more each signature takes long. */
const RSA_BITS = { least: 2048, quick: 4096 }
/** The compact form (RFC 7515 section 3.1). The decoder would ignore blanks, padding and letters of plain base64. */
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]*)$/
const UTF8 = new TextDecoder('utf-8', { fatal: true })

/** A JWT by which a client authenticates, with its claims. Nothing of it is verified yet. */
export interface PresentedJwt {
  readonly claims: JWTPayload
  /** The parts, as they are in the compact form. */
  readonly parts: readonly [header: string, claims: string, signature: string]
}

/** Returns undefined if the text is not a JWT. */
export function readJwt(text: string): PresentedJwt | undefined {
  const [, header, body, signature] = COMPACT.exec(text) ?? []
  if (header === undefined || body === undefined || signature === undefined) return undefined
  try {
    return { claims: decodeObject(body), parts: [header, body, signature] }
  } catch {
    return undefined
  }
}

/** Reads the header. Throws an Error if it is not JSON or has no `alg`. */
export function readHeader({ parts: [text] }: PresentedJwt): JWTHeaderParameters {
  const header = decodeObject(text)
  if (typeof header['alg'] !== 'string') throw new Error('a JWT without an algorithm')
  return header as JWTHeaderParameters
}

function decodeObject(text: string): Record<string, unknown> {
  // The decoder would ignore a single last letter, which encodes no byte.
  const value: unknown = text.length % 4 === 1 ? undefined : JSON.parse(UTF8.decode(Buffer.from(text, 'base64url')))
  if (!isObject(value)) throw new Error('a part of a JWT is not an object')
  return value
}

/**
 * Verifies the algorithm, times and signature of a JWT; it must expire. Rejects with an Error if one of them is wrong.
 * If that is quick, Node verifies the signature in this thread: by jose, in another one, ES256 takes 128 µs, not 70.
 */
export async function verifyJwtOfClient(
  { claims, parts: [head, body, signature] }: PresentedJwt,
  header: JWTHeaderParameters,
  { find, algorithms }: { readonly find: FindKey; readonly algorithms: readonly string[] },
): Promise<void> {
  const { alg, crit } = header
  // Extensions that must be understood (RFC 7515 section 4.1.11) are not understood here.
  if (!algorithms.includes(alg) || crit !== undefined) throw new Error('an algorithm or extension that is not accepted')
  requireTimes(claims)
  const { isQuick, ...key } = toKey(await find(header, { protected: head, payload: body, signature }), alg)
  const verify = isQuick ? isSigned : isSignedElsewhere
  if (!(await verify(`${head}.${body}`, signature, key))) throw new Error('the signature is wrong')
}

function requireTimes({ iat, nbf, exp }: JWTPayload): void {
  const nowS = Math.floor(Date.now() / 1000)
  if (iat !== undefined && typeof iat !== 'number') throw new Error('iat is not a number')
  if (nbf !== undefined && !(typeof nbf === 'number' && nbf <= nowS + SKEW_S)) throw new Error('not valid yet')
  if (typeof exp !== 'number' || exp <= nowS - SKEW_S) throw new Error('expired')
}

interface ClientKey extends SignatureKey {
  /** True if a signature takes about as long as a call. */
  readonly isQuick: boolean
}

/** The keys for Node. jose makes one key for each algorithm. */
const converted = new WeakMap<CryptoKey, ClientKey>()

/** Throws an Error if the key is weak. */
function toKey(found: CryptoKey, alg: string): ClientKey {
  const known = converted.get(found)
  if (known !== undefined) return known
  const algorithm = SIGNATURE_ALGORITHMS.get(alg)
  const object = KeyObject.from(found)
  const { modulusLength: bits = RSA_BITS.least } = object.asymmetricKeyDetails ?? {}
  if (algorithm === undefined || bits < RSA_BITS.least) throw new Error('the key is weak')
  const key = { ...keyFor(object, algorithm), isQuick: alg !== 'ES384' && bits <= RSA_BITS.quick }
  converted.set(found, key)
  return key
}
