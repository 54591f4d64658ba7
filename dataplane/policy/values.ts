import { isObject } from '../../crds/settings/json.ts'

export type CedarValue = boolean | number | string | readonly CedarValue[] | { readonly [name: string]: CedarValue }

/** The error of a value that Cedar can't represent, or that is too large. A policy that reads it can't be evaluated. */
export class Unjudgeable extends Error {
  override readonly name = 'Unjudgeable'
}

const DEEPEST = 10
/** The largest decimal: four decimal places in a 64-bit integer of ten-thousandths (Cedar, decimal). */
const LARGEST_DECIMAL = 9e14

/**
 * Converts a JSON value to Cedar: an array becomes a set, a whole number a Long, another number a decimal. Undefined
 * for null. Throws Unjudgeable for other values, and for members named like the engine's escapes (`__entity`).
 */
export function cedarValueOf(value: unknown, depth = 0): CedarValue | undefined {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return numberOf(value)
  if (value === null || value === undefined) return undefined
  if (depth >= DEEPEST) throw new Unjudgeable(`it is nested deeper than ${DEEPEST}`)
  if (Array.isArray(value)) return value.flatMap((item) => present(cedarValueOf(item, depth + 1)))
  if (isObject(value)) return recordOf(value, depth)
  throw new Unjudgeable('it is not a JSON value')
}

const present = (value: CedarValue | undefined): readonly CedarValue[] => (value === undefined ? [] : [value])

function recordOf(object: Readonly<Record<string, unknown>>, depth: number): CedarValue {
  const members: [string, CedarValue][] = []
  for (const [name, member] of Object.entries(object)) {
    if (name.startsWith('__')) throw new Unjudgeable(`a member is named ${JSON.stringify(name.slice(0, 32))}`)
    const value = cedarValueOf(member, depth + 1)
    if (value !== undefined) members.push([name.toWellFormed(), value])
  }
  return Object.fromEntries(members)
}

function numberOf(value: number): CedarValue {
  if (Number.isSafeInteger(value)) return value
  const text = value.toFixed(4)
  if (Number.isInteger(value) || Math.abs(value) > LARGEST_DECIMAL || Number(text) !== value)
    throw new Unjudgeable('a number has more digits than Cedar has')
  return { __extn: { fn: 'decimal', arg: text } }
}
