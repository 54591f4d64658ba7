/** Date and time of RFC 3339 section 5.6; `T` and `Z` in either case, as it allows. */
const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i

/**
 * An RFC 3339 time in the one form that the store holds: UTC with milliseconds (`2026-11-20T15:04:05.000Z`), which sorts
 * as text. Undefined where the text is no such time.
 */
export function timestamp(text: string): string | undefined {
  if (!DATE_TIME.test(text)) return undefined
  const time = new Date(text.toUpperCase())
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}
