/** Date and time of RFC 3339 section 5.6; `T` and `Z` in either case, as it allows. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i
/** The limits of four-digit years. Beyond them a time would have a sign, and not sort as text. */
const FIRST = Date.parse('0000-01-01T00:00:00.000Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

/**
 * Converts an RFC 3339 time to UTC with milliseconds (`2026-11-20T15:04:05.000Z`), which sorts as text. Undefined for
 * other texts.
 */
export function timestamp(text: string): string | undefined {
  const [, day] = DATE_TIME.exec(text) ?? []
  if (day === undefined || !isDay(day)) return undefined
  const time = Date.parse(text.toUpperCase())
  return Number.isNaN(time) ? undefined : new Date(Math.min(Math.max(time, FIRST), LAST)).toISOString()
}

/** Tells whether the calendar has such a day: JavaScript takes the 30th of February for the 2nd of March. */
function isDay(day: string): boolean {
  const time = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(day)
}
