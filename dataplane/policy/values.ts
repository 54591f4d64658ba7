import { isObject } from '../../crds/settings/json.ts'

export type CedarValue = boolean | number | string | readonly CedarValue[] | { readonly [name: string]: CedarValue }

/** The error of a value that Cedar can't represent, or that is too large. A policy that reads it can't be evaluated. */
export class UnsupportedValue extends Error {
  override readonly name = 'UnsupportedValue'
}

const DEEPEST = 10
/** The largest decimal: four decimal places in a 64-bit integer of ten-thousandths (Cedar, decimal). */
const LARGEST_DECIMAL = 9e14

/**
 * Converts a JSON value to Cedar: an array becomes a set, a whole number a Long, another number a decimal. Undefined
 * for null. Throws UnsupportedValue for other values, and for members named like the engine's escapes (`__entity`).
 */
export function toCedarValue(value: unknown, depth = 0): CedarValue | undefined {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return toNumber(value)
  if (value === null || value === undefined) return undefined
  if (depth >= DEEPEST) throw new UnsupportedValue(`it is nested deeper than ${DEEPEST}`)
  if (Array.isArray(value)) return value.flatMap((item) => present(toCedarValue(item, depth + 1)))
  if (isObject(value)) return toRecord(value, depth)
  throw new UnsupportedValue('it is not a JSON value')
}

const present = (value: CedarValue | undefined): readonly CedarValue[] => (value === undefined ? [] : [value])

function toRecord(object: Readonly<Record<string, unknown>>, depth: number): CedarValue {
  const members: [string, CedarValue][] = []
  for (const [name, member] of Object.entries(object)) {
    if (name.startsWith('__')) throw new UnsupportedValue(`a member is named ${JSON.stringify(name.slice(0, 32))}`)
    const value = toCedarValue(member, depth + 1)
    if (value !== undefined) members.push([name.toWellFormed(), value])
  }
  return Object.fromEntries(members)
}

function toNumber(value: number): CedarValue {
  if (Number.isSafeInteger(value)) return value
  const text = value.toFixed(4)
  if (Number.isInteger(value) || Math.abs(value) > LARGEST_DECIMAL || Number(text) !== value)
    throw new UnsupportedValue('a number has more digits than Cedar has')
  return { __extn: { fn: 'decimal', arg: text } }
}

const ARGUMENT = 'arg_'
const PRESENT = '_present'
/** The most bytes of all arguments that policies read, as JSON: matching takes time that grows with them. */
const MOST_BYTES = 16 * 1024

export type Arguments = Readonly<Record<string, unknown>>

/** Converts the arguments of calls for some policies. */
export class ReadArguments {
  readonly #values: readonly string[]
  readonly #presences: readonly string[]
  readonly names: ReadonlySet<string>

  constructor(attributes: readonly string[]) {
    const own = new Set(attributes.filter((name) => name.startsWith(ARGUMENT)))
    const read = [...own].map((name) => name.slice(ARGUMENT.length))
    this.#values = read
    this.#presences = read.filter((name) => name.endsWith(PRESENT)).map((name) => name.slice(0, -PRESENT.length))
    this.names = new Set([...this.#values, ...this.#presences])
  }

  /**
   * Returns `arg_<name>` for scalars and lists of scalars, and `arg_<name>_present` for other values. Undefined if
   * policies read none. Throws UnsupportedValue for an object that a policy reads: without it a policy that forbids values
   * would not see this one.
   */
  of(given: Arguments): Readonly<Record<string, CedarValue>> | undefined {
    const values: Record<string, CedarValue> = {}
    let isEmpty = true
    const set = (name: string, value: CedarValue) => {
      values[ARGUMENT + name] = value
      isEmpty = false
    }
    for (const name of this.#presences)
      if (Object.hasOwn(given, name) && !isScalar(given[name])) set(name + PRESENT, true)
    for (const name of this.#values) {
      if (!Object.hasOwn(given, name)) continue
      const value = argumentValue(name, given[name])
      if (value !== undefined) set(name, value)
    }
    if (isEmpty) return undefined
    if (JSON.stringify(values).length > MOST_BYTES)
      throw new UnsupportedValue('the arguments that policies read are too large')
    return values
  }
}

const isScalar = (value: unknown): boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

function argumentValue(name: string, value: unknown): CedarValue | undefined {
  const isPlain = value === null || isScalar(value) || (Array.isArray(value) && value.every(isScalar))
  try {
    if (!isPlain) throw new UnsupportedValue('it is neither a scalar nor a list of scalars')
    return toCedarValue(value)
  } catch (error) {
    if (error instanceof UnsupportedValue)
      throw new UnsupportedValue(`argument ${JSON.stringify(name)}: ${error.message}`)
    throw error
  }
}
