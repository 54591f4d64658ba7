import { withoutUrlSecrets } from '../../../config/check/url.ts'

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
  /** The writing thread ended or stalled during its sync. */
  | 'put_aside'
  | 'stopped'

interface SourceErrorOptions {
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
  readonly status?: number
  /** The cursor of the content that is at fault: while the source has this content, reading it fails again. */
  readonly cursor?: string
}

/** The codes of faults in the content itself: reading the same content again fails again. */
const CONTENT_FAULTS: ReadonlySet<SourceErrorCode> = new Set([
  'file_missing',
  'too_large',
  'not_json',
  'wrong_shape',
  'no_usable_entry',
])

/** The reason why a source could not be synced, shown on `/status`. */
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

/** Adds the cursor of the content to an error if the content is at fault. */
export function addCursor(error: unknown, cursor: string): unknown {
  if (!(error instanceof SourceError) || !CONTENT_FAULTS.has(error.code)) return error
  const { code, message, cause, status } = error
  return new SourceError(code, message, { cause, cursor, ...(status !== undefined && { status }) })
}

/** Yields the items, and adds the cursor of the content to an error that they throw. */
export async function* withCursor<T>(items: AsyncIterable<T>, cursor: string): AsyncGenerator<T> {
  try {
    yield* items
  } catch (error) {
    throw addCursor(error, cursor)
  }
}
