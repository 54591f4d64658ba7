import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'
import { createLocalJWKSet, type JSONWebKeySet, type JWK } from 'jose'
import { isObject, withoutNulls } from '../../crds/settings/json.ts'

export type KeySet = ReturnType<typeof createLocalJWKSet>

/** The most keys of an issuer. A token without a key id is tried with each of them. */
const MOST_KEYS = 100
const KINDS = new Set<unknown>(['RSA', 'EC', 'OKP'])

/** The set of an issuer that has withdrawn all its keys, so that no token is valid. */
export const NO_KEYS: KeySet = createLocalJWKSet({ keys: [] })

/**
 * Returns the signature keys of a JWK set (RFC 7517 section 5), without unusable ones. Undefined if the set is empty.
 * Throws an Error if it is not a set, has more than 100 keys, or no usable one.
 */
export function keySetOf(document: unknown): KeySet | undefined {
  const { keys } = (document ?? {}) as { readonly keys?: unknown }
  if (!Array.isArray(keys)) throw new Error('the answer is not a set of keys (JWK set)')
  if (keys.length === 0) return undefined
  if (keys.length > MOST_KEYS) throw new Error(`the set holds more than ${MOST_KEYS} keys`)
  const usable = keys.map((key) => (isObject(key) ? withoutNulls(key) : key)).filter(isUsable)
  if (usable.length === 0) throw new Error(`none of the ${keys.length} keys of the set can be used`)
  return createLocalJWKSet({ keys: usable } satisfies JSONWebKeySet)
}

/** Tells whether it is a readable public key for signatures. */
function isUsable(key: unknown): key is JWK {
  if (typeof key !== 'object' || key === null || Array.isArray(key)) return false
  const { kty, use, kid, alg, key_ops: operations } = key as Record<string, unknown>
  const isText = (value: unknown) => value === undefined || typeof value === 'string'
  if (!KINDS.has(kty) || !isText(kid) || !isText(alg) || (use !== undefined && use !== 'sig')) return false
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return false
  try {
    createPublicKey({ key, format: 'jwk' } as JsonWebKeyInput)
    return true
  } catch {
    return false
  }
}
