/** The calls of one day with the same caller, client, tool, backend and outcome. */
export interface Row {
  calls: number
  ms: number
}

export type UsageOutcome = 'ok' | 'error' | 'denied'

/** The properties by which calls are counted. An empty text means unknown or not recorded. */
export interface Counted {
  readonly person: string
  readonly client: string
  readonly tool: string
  readonly backend: string
  readonly outcome: UsageOutcome
}

export type Rows = Map<string, Row>

/** The name of the session note that holds the client's self-reported name. */
export const CLIENT_NOTE = 'client'

/** The key of the row for calls without a row of their own. */
export const OTHER = ''
export const MOST_ROWS = 20_000
/** The longest part of a key in UTF-16 units, because callers choose the names of clients. */
export const LONGEST = 128

const cut = (text: string): string => (text.length > LONGEST ? text.slice(0, LONGEST) : text)

export const formatKey = ({ person, client, tool, backend, outcome }: Counted): string =>
  JSON.stringify([cut(person), cut(client), cut(tool), cut(backend), outcome])

/** Parses a key; undefined for `OTHER` and for an invalid text. */
export function countedIn(key: string): Counted | undefined {
  try {
    const parts: unknown = JSON.parse(key)
    if (!Array.isArray(parts) || parts.length !== 5 || parts.some((part) => typeof part !== 'string')) return undefined
    const [person, client, tool, backend, outcome] = parts as [string, string, string, string, UsageOutcome]
    return { person, client, tool, backend, outcome }
  } catch {
    return undefined
  }
}

export const DAY_MS = 86_400_000

/** Returns the UTC day of a time (milliseconds since 1970), as YYYY-MM-DD. */
export const formatDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

export function addTo(rows: Rows, key: string, { calls, ms }: Row): void {
  const row = rows.get(key)
  if (row === undefined) rows.set(key, { calls, ms })
  else {
    row.calls += calls
    row.ms += ms
  }
}

/** Returns the estimated bytes of a row in a map. */
export const estimateBytes = (key: string): number => 120 + 2 * key.length
