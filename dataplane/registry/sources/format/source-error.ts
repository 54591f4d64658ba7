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
