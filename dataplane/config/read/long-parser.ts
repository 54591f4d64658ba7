import { longCheck } from '../check/long-check.ts'
import { ConfigError, type Finding } from '../load.ts'

/** A text may have as many findings as keys. The rest are reported once these are fixed. */
const MOST_FINDINGS = 100

export type Parsed<T> = { readonly value: T } | { readonly findings: readonly Finding[] }

/**
 * Makes a long check from a parser that throws a ConfigError. Callers share the value and must not change it. `name` as
 * for `longCheck`.
 */
export function longParser<T>(name: string, parse: (text: string) => T): (text: string) => Parsed<T> {
  const run = (text: string) => parsedBy(parse, text)
  return longCheck(name, run, (message) => ({ findings: [{ pointer: '', message }] }))
}

/** Parses a text with a parser that throws a ConfigError. */
export function parsedBy<T>(parse: (text: string) => T, text: string): Parsed<T> {
  try {
    return { value: parse(text) }
  } catch (error) {
    if (error instanceof ConfigError) return { findings: error.findings.slice(0, MOST_FINDINGS) }
    throw error
  }
}
