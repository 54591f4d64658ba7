import { PublicError } from '../server/errors.ts'

interface ChallengeOptions {
  readonly realm: string
  readonly resourceMetadataUrl: string | undefined
  readonly scopes: readonly string[] | undefined
  /** What is wrong with the token that was sent, in a fixed text; absent where none was sent. */
  readonly problem?: string
}

/**
 * The value of `WWW-Authenticate` (RFC 6750 section 3, RFC 9728 section 5.1). There is an `error` only where a token
 * was sent (RFC 6750 section 3.1).
 */
export function challenge({ realm, resourceMetadataUrl, scopes, problem }: ChallengeOptions): string {
  const parameters = [
    ['realm', realm],
    ['resource_metadata', resourceMetadataUrl],
    ['scope', scopes?.length ? scopes.join(' ') : undefined],
    ['error', problem === undefined ? undefined : 'invalid_token'],
    ['error_description', problem],
  ] as const
  return `Bearer ${parameters
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${quotable(value as string)}"`)
    .join(', ')}`
}

/** The refusal that carries the challenge. */
export function unauthenticated(options: ChallengeOptions, cause?: unknown): PublicError {
  return new PublicError('unauthenticated', {
    ...(options.problem === undefined ? {} : { message: options.problem }),
    headers: { 'WWW-Authenticate': challenge(options) },
    cause,
  })
}

/** Printable ASCII without quotes and backslashes, which would need escapes that clients get wrong. */
const quotable = (text: string): string => text.replace(/[^\x20-\x7e]|["\\]/g, '')
