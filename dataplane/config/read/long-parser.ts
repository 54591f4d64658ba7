import { longCheck } from '../check/long-check.ts'
import { ConfigError, type Finding } from '../load.ts'

/** A text may have as many as it has keys; what is not said of it is said once these are mended. */
const MOST_FINDINGS = 100

/** What came of a text: its value, or what is wrong with it. */
export type Parsed<T> = { readonly value: T } | { readonly findings: readonly Finding[] }

/**
 * Makes a long check of a parser that throws a ConfigError. The value is shared by all who parse the same text, and not to
 * be changed. `name` as for `longCheck`.
 */
export function longParser<T>(name: string, parse: (text: string) => T): (text: string) => Parsed<T> {
  const run = (text: string) => parsedBy(parse, text)
  return longCheck(name, run, (message) => ({ findings: [{ pointer: '', message }] }))
}

/** What comes of a text by a parser that throws a ConfigError. */
export function parsedBy<T>(parse: (text: string) => T, text: string): Parsed<T> {
  try {
    return { value: parse(text) }
  } catch (error) {
    if (error instanceof ConfigError) return { findings: error.findings.slice(0, MOST_FINDINGS) }
    throw error
  }
}
