import { type CedarValue, cedarValueOf, Unjudgeable } from './values.ts'

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
   * policies read none. Throws Unjudgeable for an object that a policy reads: without it a policy that forbids values
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
      throw new Unjudgeable('the arguments that policies read are too large')
    return values
  }
}

const isScalar = (value: unknown): boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

function argumentValue(name: string, value: unknown): CedarValue | undefined {
  const isPlain = value === null || isScalar(value) || (Array.isArray(value) && value.every(isScalar))
  try {
    if (!isPlain) throw new Unjudgeable('it is neither a scalar nor a list of scalars')
    return cedarValueOf(value)
  } catch (error) {
    if (error instanceof Unjudgeable) throw new Unjudgeable(`argument ${JSON.stringify(name)}: ${error.message}`)
    throw error
  }
}
