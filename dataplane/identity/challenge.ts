import { PublicError } from '../server/errors.ts'
import { advertisedScopes } from './scopes.ts'

export interface ChallengeOptions {
  readonly realm: string
  readonly resourceMetadataUrl: string | undefined
  readonly scopes: readonly string[] | undefined
  /** The scheme of the request; absent: none, or Bearer. */
  readonly scheme?: 'DPoP' | undefined
  /** The settings for proofs of possession; absent: none are read. */
  readonly proofs?: { readonly isRequired: boolean; readonly algs: readonly string[] } | undefined
  /** Absent if no token was sent. */
  readonly error?: 'invalid_token' | 'insufficient_scope' | 'invalid_dpop_proof' | 'use_dpop_nonce'
  /** The problem of the token that was sent, as a fixed text. */
  readonly problem?: string
}

/**
 * Returns the value of `WWW-Authenticate` (RFC 6750 section 3, RFC 9449 section 7.1, RFC 9728 section 5.1), with an
 * `error` only if a token was sent (RFC 6750 section 3.1). If tokens are accepted with and without a proof, it names
 * both schemes.
 */
export function challenge(options: ChallengeOptions): string {
  const { scheme, proofs } = options
  if (proofs === undefined) return schemeChallenge('Bearer', options)
  const { algs, isRequired } = proofs
  if (scheme === 'DPoP' || isRequired) return schemeChallenge('DPoP', { ...options, algs })
  const { realm } = options
  const other = schemeChallenge('DPoP', { realm, resourceMetadataUrl: undefined, scopes: undefined, algs })
  return `${schemeChallenge('Bearer', options)}, ${other}`
}

interface SchemeOptions extends Omit<ChallengeOptions, 'scheme' | 'proofs'> {
  /** The accepted signature algorithms of proofs. */
  readonly algs?: readonly string[]
}

function schemeChallenge(scheme: 'Bearer' | 'DPoP', options: SchemeOptions): string {
  const { realm, resourceMetadataUrl, scopes, error, problem, algs } = options
  const advertised = advertisedScopes(scopes)
  const parameters = [
    ['realm', realm],
    ['resource_metadata', resourceMetadataUrl],
    ['scope', advertised.length === 0 ? undefined : advertised.join(' ')],
    ['error', error],
    ['error_description', problem],
    ['algs', algs?.join(' ')],
  ] as const
  return `${scheme} ${parameters
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${quotable(value as string)}"`)
    .join(', ')}`
}

interface Refusal {
  /** Response headers besides the challenge. */
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** Returns the error for a caller without a valid token, with the challenge. `problem`: of the token that was sent. */
export function unauthenticated(options: ChallengeOptions, { headers, cause }: Refusal = {}): PublicError {
  const { problem } = options
  return new PublicError('unauthenticated', {
    ...(problem === undefined ? {} : { message: problem }),
    headers: { 'WWW-Authenticate': challenge(options), ...headers },
    cause,
  })
}

/**
 * Returns the error for a valid token that lacks scopes. It names all required ones, so that the client requests all at
 * once (RFC 6750 section 3.1).
 */
export function insufficientScope(options: Omit<ChallengeOptions, 'error' | 'problem'>): PublicError {
  const problem = 'The token lacks a scope that is needed here.'
  return new PublicError('insufficient_scope', {
    headers: { 'WWW-Authenticate': challenge({ ...options, error: 'insufficient_scope', problem }) },
  })
}

/** Keeps printable ASCII without quotes and backslashes, whose escapes clients get wrong. */
const quotable = (text: string): string => text.replace(/[^\x20-\x7e]|["\\]/g, '')
