import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** A check that what somebody wrote can make long. Input and result are plain data, so another thread can run it. */
interface LongCheck {
  readonly run: (input: never) => object
  /** The result where the check did not come to an end, and why. */
  readonly refuse: (why: string) => object
}

/** Thrown in place of a check that is to run elsewhere. */
export class Unchecked extends Error {
  override readonly name = 'Unchecked'
  readonly check: string
  readonly input: unknown
  /** The same for the same check of the same input. */
  readonly key: string

  constructor(check: string, input: unknown, key: string) {
    super(`${check} are to be checked elsewhere`)
    this.check = check
    this.input = input
    this.key = key
  }
}

/** Characters of all inputs whose results are kept. */
const MOST_KEPT = 32 * 1024 * 1024
/** What an input without a character counts for. */
const ENTRY = 1000
/** Milliseconds after which a check that did not come to an end is tried again. */
const REFUSED_MS = 600_000

const checks = new Map<string, LongCheck>()
const results = new LRUCache<string, object>({ maxSize: MOST_KEPT })
let isElsewhere = false

/**
 * Makes a check that is run once for each input, as long as there is room. Inside of `checkedElsewhere` it throws an
 * Unchecked for an input without a result. `name`: what is checked, unique in the program.
 */
export function longCheck<I, R extends object>(
  name: string,
  run: (input: I) => R,
  refuse: (why: string) => R,
): (input: I) => R {
  checks.set(name, { run: run as LongCheck['run'], refuse })
  return function check(input) {
    const text = JSON.stringify(input)
    const key = keyOf(name, text)
    const known = results.get(key)
    if (known !== undefined) return known as R
    if (isElsewhere) throw new Unchecked(name, input, key)
    const result = run(input)
    results.set(key, result, { size: text.length + ENTRY })
    return result
  }
}

const keyOf = (name: string, text: string): string => `${name} ${createHash('sha256').update(text).digest('base64')}`

/** Runs a function, which must not wait for anything, without any long check whose result is not known yet. */
export function checkedElsewhere<T>(make: () => T): T {
  const before = isElsewhere
  isElsewhere = true
  try {
    return make()
  } finally {
    isElsewhere = before
  }
}

/** Runs a check by its name: for the thread that does nothing else. */
export const runCheck = (name: string, input: unknown): object => named(name).run(input as never)

/** Takes over the result that another thread has found. */
export function keepResult({ input, key }: Unchecked, result: object): void {
  results.set(key, result, { size: JSON.stringify(input).length + ENTRY })
}

/** Takes over a result that was found here, in another way than by running the check at once. */
export function keepFound(name: string, input: unknown, result: object): void {
  const text = JSON.stringify(input)
  results.set(keyOf(name, text), result, { size: text.length + ENTRY })
}

/** Keeps for a while that a check has not come to an end. */
export function keepRefusal({ check, key }: Unchecked, why: string): void {
  results.set(key, named(check).refuse(why), { size: ENTRY, ttl: REFUSED_MS })
}

function named(name: string): LongCheck {
  const check = checks.get(name)
  if (check === undefined) throw new TypeError(`no check of ours: ${name}`)
  return check
}
