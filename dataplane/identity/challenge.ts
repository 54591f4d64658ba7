import { PublicError } from '../server/errors.ts'
import { advertisedScopes } from './scopes.ts'

interface ChallengeOptions {
  readonly realm: string
  readonly resourceMetadataUrl: string | undefined
  readonly scopes: readonly string[] | undefined
  /** Absent where no token was sent. */
  readonly error?: 'invalid_token' | 'insufficient_scope'
  /** What is wrong with the token that was sent, in a fixed text. */
  readonly problem?: string
}

/**
 * The value of `WWW-Authenticate` (RFC 6750 section 3, RFC 9728 section 5.1). There is an `error` only where a token
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

/** The refusal of a caller without a valid token, with the challenge. `problem`: of the token that was sent. */
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
 * The refusal of a valid token that lacks scopes. It names all that are needed, so that the client asks for all at once
 * (RFC 6750 section 3.1; MCP authorization, scope challenge).
 */
export function insufficientScope(options: Omit<ChallengeOptions, 'error' | 'problem'>): PublicError {
  const problem = 'The token lacks a scope that is needed here.'
  return new PublicError('insufficient_scope', {
    headers: { 'WWW-Authenticate': challenge({ ...options, error: 'insufficient_scope', problem }) },
  })
}

/** Printable ASCII without quotes and backslashes, which would need escapes that clients get wrong. */
const quotable = (text: string): string => text.replace(/[^\x20-\x7e]|["\\]/g, '')
