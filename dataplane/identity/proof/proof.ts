import { hash } from 'node:crypto'
import { isSigned } from '../signature.ts'
import type { ProofKeys } from './proof-keys.ts'

/** The longest proof in characters: a key of RSA with 4096 bits and its signature take 1,800. */
const LONGEST = 8192
const LONGEST_JTI_BYTES = 256
/** The compact form (RFC 7515 section 3.1) without padding, blanks or letters of plain base64. */
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/

/** The reason why a proof is refused. `text` is for the caller and repeats nothing of the proof. */
export class ProofError extends Error {
  override readonly name = 'ProofError'
  readonly code: 'invalid_dpop_proof' | 'invalid_token' | 'use_dpop_nonce'

  constructor(code: ProofError['code'], text: string) {
    super(text)
    this.code = code
  }
}

interface ProvenRequest {
  readonly method: string | undefined
  /** The URL of the endpoint as configured, normalized as `URL.href`, without query and fragment. */
  readonly url: string
  readonly token?: string | undefined
  readonly jkt?: string | undefined
}

export interface Proof {
  readonly jkt: string
  readonly jti: string
  readonly iat: number
  readonly nonce: string | undefined
}

/**
 * Checks a proof, the value of the header `DPoP` (RFC 9449 section 4.3), the signature last. Throws a ProofError.
 * `maxAgeS`: the largest difference between `iat` and the clock, in seconds. `nowS`: seconds since 1970.
 */
export function checkProof(
  value: string | string[] | undefined,
  request: ProvenRequest,
  { keys, maxAgeS }: { readonly keys: ProofKeys; readonly maxAgeS: number },
  nowS: number = Date.now() / 1000,
): Proof {
  if (value === undefined) throw invalidProof('A proof is required in the header DPoP.')
  // Node joins repeated headers by commas, so more than one proof is not in the compact form.
  const [, head, body, signature] = (typeof value === 'string' && value.length <= LONGEST && COMPACT.exec(value)) || []
  if (head === undefined || body === undefined || signature === undefined) throw invalidProof('The proof is malformed.')
  const key = keys.read(head)
  if (key === undefined) throw invalidProof('The type, algorithm or key of the proof is not accepted.')
  const claims = parseClaims(body)
  const proof = requireClaims(claims, request, maxAgeS, nowS)
  if (request.jkt !== undefined && key.jkt !== request.jkt)
    throw new ProofError('invalid_token', 'The token is bound to another key than that of the proof.')
  if (!isSigned(`${head}.${body}`, signature, key)) throw invalidProof('The signature of the proof is wrong.')
  keys.keep(head, key)
  return { ...proof, jkt: key.jkt }
}

const invalidProof = (text: string) => new ProofError('invalid_dpop_proof', text)

function parseClaims(body: string): Readonly<Record<string, unknown>> {
  try {
    const claims: unknown = JSON.parse(Buffer.from(body, 'base64url').toString('utf8'))
    if (typeof claims === 'object' && claims !== null && !Array.isArray(claims))
      return claims as Record<string, unknown>
  } catch {
    // A body that is no JSON is answered like one that is no object.
  }
  throw invalidProof('The proof is malformed.')
}

function requireClaims(
  { jti, htm, htu, iat, exp, nbf, ath, nonce }: Readonly<Record<string, unknown>>,
  { method, url, token }: ProvenRequest,
  maxAgeS: number,
  nowS: number,
): Omit<Proof, 'jkt'> {
  if (typeof jti !== 'string' || jti === '' || Buffer.byteLength(jti) > LONGEST_JTI_BYTES)
    throw invalidProof('The proof needs a jti of at most 256 bytes.')
  if (typeof htm !== 'string' || htm !== method) throw invalidProof('The proof is for another method (htm).')
  if (typeof htu !== 'string' || !isSameTarget(htu, url)) throw invalidProof('The proof is for another URL (htu).')
  const isRecent = typeof iat === 'number' && Math.abs(nowS - iat) <= maxAgeS
  if (!isRecent || (exp !== undefined && !isAfter(exp, nowS)) || !isBegun(nbf, nowS + maxAgeS))
    throw invalidProof('The proof was made too long ago, or in the future (iat).')
  if (token !== undefined && ath !== hash('sha256', token, 'base64url'))
    throw invalidProof('The proof is for another token (ath).')
  if (nonce !== undefined && typeof nonce !== 'string') throw invalidProof('The nonce of the proof is not a string.')
  return { jti, iat, nonce }
}

/** Tells whether a time claim is after `nowS`. A claim that is no number is after nothing. */
const isAfter = (time: unknown, nowS: number): boolean => typeof time === 'number' && time > nowS

/** Tells whether `nbf`, if present, is not after `latestS`. */
const isBegun = (nbf: unknown, latestS: number): boolean =>
  nbf === undefined || (typeof nbf === 'number' && nbf <= latestS)

/** Compares `htu` with a URL, without query and fragment and after normalization (RFC 9449 section 4.3, item 9). */
function isSameTarget(htu: string, url: string): boolean {
  if (htu === url) return true
  const target = URL.parse(htu)
  return target !== null && formatTarget(target) === url
}

/** Returns a URL as `checkProof` compares it: normalized, without query and fragment. */
export const proofTarget = (url: string): string => formatTarget(new URL(url))

function formatTarget(target: URL): string {
  target.search = ''
  target.hash = ''
  return target.href
}
