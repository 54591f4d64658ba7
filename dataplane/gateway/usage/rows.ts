import { type PromptRedis, RedisScript } from '../../storage/redis.ts'

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

const cutText = (text: string): string => (text.length > LONGEST ? text.slice(0, LONGEST) : text)

export const formatKey = ({ person, client, tool, backend, outcome }: Counted): string =>
  JSON.stringify([cutText(person), cutText(client), cutText(tool), cutText(backend), outcome])

/** Parses a key; undefined for `OTHER` and for an invalid text. */
export function parseKey(key: string): Counted | undefined {
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

/**
 * Adds rows to the day KEYS[1]. ARGV: the most rows of a day, its lifetime in seconds, then the field, calls and
 * milliseconds of each row. Rows beyond the limit are added to the row without names.
 */
const ADD = new RedisScript(`
local most, size = tonumber(ARGV[1]), redis.call('HLEN', KEYS[1])
for i = 3, #ARGV, 3 do
  local field = ARGV[i]
  local kept = redis.call('HGET', KEYS[1], field)
  if not kept and size >= most then
    field = ''
    kept = redis.call('HGET', KEYS[1], field)
  end
  if not kept then size = size + 1 end
  local calls, ms = string.match(kept or '', '^(%d+) (%d+)$')
  calls = (tonumber(calls) or 0) + ARGV[i + 1]
  ms = (tonumber(ms) or 0) + ARGV[i + 2]
  redis.call('HSET', KEYS[1], field, string.format('%.0f %.0f', calls, ms))
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return size`)

const AT_ONCE = 500
const DAY_S = DAY_MS / 1000

export class RedisRows {
  readonly #redis: PromptRedis
  readonly #prefix: string

  /** @param prefix the prefix of all keys, with the hash tag that keeps them in one slot of a Cluster */
  constructor(redis: PromptRedis, prefix: string) {
    this.#redis = redis
    this.#prefix = `${prefix}usage:`
  }

  /** Adds rows to a day, and removes the added ones from `rows`. Rejects if Redis is unavailable. */
  async add(day: string, rows: Rows, keptDays: number): Promise<void> {
    while (rows.size > 0) {
      const some = [...rows].slice(0, AT_ONCE)
      const fields = some.flatMap(([key, { calls, ms }]) => [key, calls, Math.round(ms)])
      // Calls that are counted meanwhile create new rows.
      for (const [key] of some) rows.delete(key)
      try {
        const args = [MOST_ROWS, (keptDays + 1) * DAY_S, ...fields]
        await this.#redis.ask((redis) => ADD.run(redis, [this.#prefix + day], args))
      } catch (error) {
        for (const [key, row] of some) addTo(rows, key, row)
        throw error
      }
    }
  }

  /** Reads the rows of a day. Rejects if Redis is unavailable. */
  async read(day: string): Promise<Rows> {
    const rows: Rows = new Map()
    let cursor = '0'
    do {
      const [next, fields] = await this.#redis.ask((redis) => redis.hscan(this.#prefix + day, cursor, 'COUNT', 1_000))
      for (let at = 0; at < fields.length; at += 2) {
        const [calls, ms] = (fields[at + 1] ?? '').split(' ').map(Number)
        if (Number.isFinite(calls) && Number.isFinite(ms))
          rows.set(fields[at] ?? OTHER, { calls: calls as number, ms: ms as number })
      }
      cursor = next
    } while (cursor !== '0')
    return rows
  }
}
