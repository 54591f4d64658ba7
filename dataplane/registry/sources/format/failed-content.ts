import { SourceError, type SourceErrorCode } from './source-error.ts'

/** Faults of what was read: another look at the same finds them again. */
const FAULTS: ReadonlySet<SourceErrorCode> = new Set([
  'file_missing',
  'too_large',
  'not_json',
  'wrong_shape',
  'no_usable_entry',
])

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
