export type SourceErrorCode =
  | 'file_missing'
  | 'file_unreadable'
  | 'too_large'
  | 'not_json'
  | 'wrong_shape'
  | 'no_usable_entry'
  | 'store_failed'

/** Why a source could not be synced; what it brought before stays in force. The message is shown on `/status`. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
  readonly code: SourceErrorCode

  constructor(code: SourceErrorCode, message: string) {
    super(message)
    this.code = code
  }
}
