const UNITS: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** Parses a Go duration such as `1h30m` (time.ParseDuration, without a sign) into milliseconds. Throws a TypeError. */
export function parseDuration(text: string): number {
  let total = 0
  let end = 0
  for (const part of text.matchAll(/([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)/gy)) {
    total += Number(part[1]) * (UNITS[part[2] as string] as number)
    end = part.index + part[0].length
  }
  if (end === 0 || end !== text.length)
    throw new TypeError(`not a duration: ${JSON.stringify(text)} (write 30s, 1h30m)`)
  return total
}

const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Parses a duration for a timer, in whole milliseconds, capped at the longest delay that a timer takes. */
export const parseTimer = (text: string): number => Math.min(Math.ceil(parseDuration(text)), LONGEST_TIMER_MS)
