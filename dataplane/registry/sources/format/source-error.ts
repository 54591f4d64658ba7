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
  /** The wait that the other side asks for. */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
  /** The HTTP status of the response in question. */
  readonly status?: number
  /** The cursor of the content in question: while the source has this content, reading it fails in the same way. */
  readonly cursor?: string
}

/** The faults of a content: reading it again finds them again. */
const FAULTS: ReadonlySet<SourceErrorCode> = new Set([
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

/** Adds the cursor of the content to an error, if the content is at fault. */
export function ofContent(error: unknown, cursor: string): unknown {
  if (!(error instanceof SourceError) || !FAULTS.has(error.code)) return error
  const { code, message, cause, status } = error
  return new SourceError(code, message, { cause, cursor, ...(status !== undefined && { status }) })
}

/** Passes the items on. Errors that they throw get the cursor of the content. */
export async function* withCursor<T>(items: AsyncIterable<T>, cursor: string): AsyncGenerator<T> {
  try {
    yield* items
  } catch (error) {
    throw ofContent(error, cursor)
  }
}
