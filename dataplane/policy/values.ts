import { isObject } from '../../crds/settings/json.ts'

/** A value in the form that the engine takes. */
export type CedarValue = boolean | number | string | readonly CedarValue[] | { readonly [name: string]: CedarValue }

/** A value that Cedar can't have, or that takes too much: a policy that reads it can't be judged. */
export class Unjudgeable extends Error {
  override readonly name = 'Unjudgeable'
}

const DEEPEST = 10
/** Four decimal places, and what a 64-bit integer of ten-thousandths holds (Cedar, decimal). */
const LARGEST_DECIMAL = 9e14

/**
 * A JSON value as one of Cedar's: an array is a set, a whole number a Long, another number a decimal; undefined for null,
 * which Cedar doesn't have. Throws Unjudgeable for what has no such form. Members named like the engine's escapes
 * (`__entity`) have none: a claim never becomes an entity.
 */
export function cedarValueOf(value: unknown, depth = 0): CedarValue | undefined {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return numberOf(value)
  if (value === null || value === undefined) return undefined
  if (depth >= DEEPEST) throw new Unjudgeable(`it is nested deeper than ${DEEPEST}`)
  if (Array.isArray(value)) return value.flatMap((item) => present(cedarValueOf(item, depth + 1)))
  if (isObject(value)) return recordOf(value, depth)
  throw new Unjudgeable('it is no JSON value')
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
