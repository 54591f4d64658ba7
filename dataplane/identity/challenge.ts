import { PublicError } from '../server/errors.ts'
import { advertisedScopes } from './scopes.ts'

interface ChallengeOptions {
  readonly realm: string
  readonly resourceMetadataUrl: string | undefined
  readonly scopes: readonly string[] | undefined
  /** Absent if no token was sent. */
  readonly error?: 'invalid_token' | 'insufficient_scope'
  /** The problem of the token that was sent, as a fixed text. */
  readonly problem?: string
}

/**
 * Returns the value of `WWW-Authenticate` (RFC 6750 section 3, RFC 9728 section 5.1). It has an `error` only if a token
 * was sent (RFC 6750 section 3.1).
 */
export function challenge({ realm, resourceMetadataUrl, scopes, error, problem }: ChallengeOptions): string {
  const advertised = advertisedScopes(scopes)
  const parameters = [
    ['realm', realm],
    ['resource_metadata', resourceMetadataUrl],
    ['scope', advertised.length === 0 ? undefined : advertised.join(' ')],
    ['error', error],
    ['error_description', problem],
  ] as const
  return `Bearer ${parameters
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${quotable(value as string)}"`)
    .join(', ')}`
}

/** Returns the error for a caller without a valid token, with the challenge. `problem`: of the token that was sent. */
export function unauthenticated(options: Omit<ChallengeOptions, 'error'>, cause?: unknown): PublicError {
  const { problem } = options
  return new PublicError('unauthenticated', {
    ...(problem === undefined ? {} : { message: problem }),
    headers: {
      'WWW-Authenticate': challenge(problem === undefined ? options : { ...options, error: 'invalid_token' }),
    },
    cause,
  })
}

/**
 * Returns the error for a valid token that lacks scopes. It names all required ones, so that the client requests all at
 * once (RFC 6750 section 3.1; MCP authorization, scope challenge).
 */
export function insufficientScope(options: Omit<ChallengeOptions, 'error' | 'problem'>): PublicError {
  const problem = 'The token lacks a scope that is needed here.'
  return new PublicError('insufficient_scope', {
    headers: { 'WWW-Authenticate': challenge({ ...options, error: 'insufficient_scope', problem }) },
  })
}

/** Keeps printable ASCII without quotes and backslashes, whose escapes clients get wrong. */
const quotable = (text: string): string => text.replace(/[^\x20-\x7e]|["\\]/g, '')
