import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { ConfigError, type Finding } from '../load.ts'

/** A check that certain input makes slow. Input and result are plain data, so another thread can run it. */
interface LongCheck {
  readonly run: (input: never) => object
  /** Makes the result for a check that did not finish, with the reason. */
  readonly refuse: (why: string) => object
}

/** Thrown instead of running a check that must run in another thread. */
export class Unchecked extends Error {
  override readonly name = 'Unchecked'
  readonly check: string
  readonly input: unknown
  /** A key that is equal for the same check of the same input. */
  readonly key: string

  constructor(check: string, input: unknown, key: string) {
    super(`${check} are to be checked elsewhere`)
    this.check = check
    this.input = input
    this.key = key
  }
}

/** The total of characters of all inputs whose results are kept. */
const MOST_KEPT = 32 * 1024 * 1024
/** The characters that an empty input counts for. */
const ENTRY = 1000
/** The milliseconds after which a check that did not finish is tried again. */
const REFUSED_MS = 600_000

const checks = new Map<string, LongCheck>()
const results = new LRUCache<string, object>({ maxSize: MOST_KEPT })
let isElsewhere = false

/**
 * Makes a check that runs once for each input, as long as the cache has room. Inside `checkedElsewhere` it throws an
 * Unchecked for an input without a result. `name`: unique in the program.
 */
export function longCheck<I, R extends object>(
  name: string,
  run: (input: I) => R,
  refuse: (why: string) => R,
): (input: I) => R {
  checks.set(name, { run: run as LongCheck['run'], refuse })
  return function check(input) {
    const text = JSON.stringify(input)
    const key = computeKey(name, text)
    const known = results.get(key)
    if (known !== undefined) return known as R
    if (isElsewhere) throw new Unchecked(name, input, key)
    const result = run(input)
    results.set(key, result, { size: text.length + ENTRY })
    return result
  }
}

const computeKey = (name: string, text: string): string =>
  `${name} ${createHash('sha256').update(text).digest('base64')}`

/** Runs a synchronous function; any long check in it without a cached result throws an Unchecked. */
export function checkedElsewhere<T>(make: () => T): T {
  const before = isElsewhere
  isElsewhere = true
  try {
    return make()
  } finally {
    isElsewhere = before
  }
}

export const runCheck = (name: string, input: unknown): object => named(name).run(input as never)

/** Caches the result that another thread has found. */
export function keepResult({ input, key }: Unchecked, result: object): void {
  results.set(key, result, { size: JSON.stringify(input).length + ENTRY })
}

/** Caches a result that was found in this thread by other means than running the check in one go. */
export function keepFound(name: string, input: unknown, result: object): void {
  const text = JSON.stringify(input)
  results.set(computeKey(name, text), result, { size: text.length + ENTRY })
}

/** Caches for a while that a check did not finish. */
export function keepRefusal({ check, key }: Unchecked, why: string): void {
  results.set(key, named(check).refuse(why), { size: ENTRY, ttl: REFUSED_MS })
}

function named(name: string): LongCheck {
  const check = checks.get(name)
  if (check === undefined) throw new TypeError(`unknown check: ${name}`)
  return check
}

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
