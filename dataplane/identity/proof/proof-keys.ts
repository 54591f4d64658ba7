import { createPublicKey, hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Algorithm, keyFor, SIGNATURE_ALGORITHMS, type SignatureKey } from '../signature.ts'

export interface ProofKey extends SignatureKey {
  /** The thumbprint (RFC 7638), base64url. */
  readonly jkt: string
}

/** The most bytes of all kept keys, and the bytes of a key in addition to its text. */
const MOST_BYTES = 4 * 1024 * 1024
const KEY_BYTES = 2_048
/** RSA with fewer bits is weak; with more, or with a long exponent, one signature would take long. */
const RSA_BITS = { least: 2048, most: 4096 }
const LONGEST_EXPONENT = 6

/** Members of private keys (RFC 7518 section 6). A proof that holds one has given its key away. */
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']
const BASE64URL = /^[\w-]+$/

/**
 * Caches the keys of proofs by the proof's header, which a client repeats, because making a key takes 40 to 80 µs. Only
 * keys of accepted proofs are kept, in at most 4 MiB.
 */
export class ProofKeys {
  readonly #algs: ReadonlySet<string>
  readonly #kept = new LRUCache<string, ProofKey>({ maxSize: MOST_BYTES })

  /** @param algs the accepted `alg`; `EdDSA` stands for its newer name `Ed25519` (RFC 9864), too */
  constructor(algs: readonly string[]) {
    this.#algs = new Set(algs.includes('EdDSA') ? [...algs, 'Ed25519'] : algs)
  }

  /** Reads the header of a proof, as it is in the compact form. Returns undefined if it is not acceptable. */
  read(head: string): ProofKey | undefined {
    return this.#kept.get(head) ?? this.#parse(head)
  }

  keep(head: string, key: ProofKey): void {
    if (!this.#kept.has(head)) this.#kept.set(head, key, { size: head.length + KEY_BYTES })
  }

  #parse(head: string): ProofKey | undefined {
    try {
      const header: unknown = JSON.parse(Buffer.from(head, 'base64url').toString('utf8'))
      if (typeof header !== 'object' || header === null) return undefined
      const { typ, alg, jwk, crit } = header as Readonly<Record<string, unknown>>
      // Extensions that must be understood (RFC 7515 section 4.1.11) are not understood here.
      if (typ !== 'dpop+jwt' || typeof alg !== 'string' || !this.#algs.has(alg) || crit !== undefined) return undefined
      const algorithm = SIGNATURE_ALGORITHMS.get(alg)
      return algorithm && makeKey(jwk, algorithm)
    } catch {
      return undefined
    }
  }
}

function makeKey(jwk: unknown, algorithm: Algorithm): ProofKey | undefined {
  const { kty, crv } = algorithm
  if (typeof jwk !== 'object' || jwk === null || PRIVATE.some((member) => Object.hasOwn(jwk, member))) return undefined
  const members = publicMembers(jwk as Readonly<Record<string, unknown>>, kty)
  if (members === undefined || (crv !== undefined && members['crv'] !== crv)) return undefined
  if (kty === 'RSA' && (members['e'] as string).length > LONGEST_EXPONENT) return undefined
  const key = createPublicKey({ key: members, format: 'jwk' })
  const { modulusLength: bits } = key.asymmetricKeyDetails ?? {}
  if (kty === 'RSA' && (bits === undefined || bits < RSA_BITS.least || bits > RSA_BITS.most)) return undefined
  // The members stand in the order of RFC 7638.
  const jkt = hash('sha256', JSON.stringify(members), 'base64url')
  return { jkt, ...keyFor(key, algorithm) }
}

/** Returns only the required public members of a key, in the order of their names. */
function publicMembers(
  jwk: Readonly<Record<string, unknown>>,
  kty: Algorithm['kty'],
): Record<string, string> | undefined {
  const names = { EC: ['crv', 'kty', 'x', 'y'], OKP: ['crv', 'kty', 'x'], RSA: ['e', 'kty', 'n'] }[kty]
  if (jwk['kty'] !== kty) return undefined
  const values = names.map((name) => jwk[name])
  if (!values.every((value) => typeof value === 'string' && BASE64URL.test(value))) return undefined
  return Object.fromEntries(names.map((name, index) => [name, values[index] as string]))
}
