import { createRequire } from 'node:module'
import type * as re2 from 're2js'

const PACKAGE = 're2js'
const require = createRequire(import.meta.url)

/** The most instructions of a compiled pattern. */
const LARGEST = 5_000

export interface KeyPattern {
  /** The steps that a match takes at most, for each character of a key. */
  readonly size: number
  /** Tells whether the pattern matches a key as a whole, in time proportional to `size` and the length of the key. */
  matches(key: string): boolean
}

/** Compiles an RE2 regular expression, which never backtracks. Throws a TypeError with the reason. */
export function compileKeyPattern(text: string): KeyPattern {
  const { RE2JS } = require(PACKAGE) as typeof re2
  let compiled: re2.RE2JS
  try {
    compiled = RE2JS.compile(text)
  } catch (error) {
    const [, reason = String(error)] = /error parsing regexp: (.*)/s.exec((error as Error).message) ?? []
    throw new TypeError(`is not a regular expression of RE2: ${reason}`)
  }
  const size = compiled.programSize()
  if (size > LARGEST) throw new TypeError(`is too large: it takes ${size} steps a character, and may take ${LARGEST}`)
  return { size, matches: (key) => compiled.matches(key) }
}
