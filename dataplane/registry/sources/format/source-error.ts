import { withoutUrlSecrets } from '../../../config/url-secrets.ts'

export type SourceErrorCode =
  | 'file_missing'
  | 'file_unreadable'
  | 'too_large'
  | 'not_json'
  | 'wrong_shape'
  | 'no_usable_entry'
  | 'store_failed'
  | 'unreachable'
  | 'timed_out'
  | 'refused'
  | 'rate_limited'
  | 'upstream_failed'
  | 'endless'
  | 'private_address'
  | 'moved'
  | 'no_such_ref'
  | 'no_repository'
  | 'git_failed'
  | 'no_shallow'
  | 'forbidden'
  /** The writing thread has ended, or stood still, with it. */
  | 'put_aside'
  | 'stopped'

interface SourceErrorOptions {
  /** How long the other side asks us to wait. */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
  /** HTTP status of the answer that it is about. */
  readonly status?: number
  /** Cursor of the content that it is about: as long as a source is there, reading it comes to the same again. */
  readonly cursor?: string
}

/** Faults of what was read: another look at the same finds them again. */
const FAULTS: ReadonlySet<SourceErrorCode> = new Set([
  'file_missing',
  'too_large',
  'not_json',
  'wrong_shape',
  'no_usable_entry',
])

/** Why a source could not be synced; what it brought before stays in force. The message is shown on `/status`. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
  readonly code: SourceErrorCode
  readonly retryAfterMs: number | undefined
  readonly status: number | undefined
  readonly cursor: string | undefined

  constructor(
    code: SourceErrorCode,
    message: string,
    { retryAfterMs, cause, status, cursor }: SourceErrorOptions = {},
  ) {
    super(withoutUrlSecrets(message), cause === undefined ? undefined : { cause })
    this.code = code
    this.retryAfterMs = retryAfterMs
    this.status = status
    this.cursor = cursor
  }
}

/** An error, with the cursor of what was read where that is at fault. */
export function ofContent(error: unknown, cursor: string): unknown {
  if (!(error instanceof SourceError) || !FAULTS.has(error.code)) return error
  const { code, message, cause, status } = error
  return new SourceError(code, message, { cause, cursor, ...(status !== undefined && { status }) })
}

/** The same items; what they throw is of the content with this cursor. */
export async function* withCursor<T>(items: AsyncIterable<T>, cursor: string): AsyncGenerator<T> {
  try {
    yield* items
  } catch (error) {
    throw ofContent(error, cursor)
  }
}
