import { at, isObject } from '../../../crds/settings/json.ts'
import type { Finding } from '../load.ts'

/**
 * JSON schemas of arguments and answers. Only the part of JSON Schema (2020-12) that is checked in linear time is
 * supported.
 */
export type JsonSchema = Readonly<Record<string, unknown>>

const SAYING: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$comment',
  'title',
  'description',
  'examples',
  'default',
  'deprecated',
  'format',
  'enumNames',
])
const TYPES: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])

type Check = (value: unknown, rule: unknown) => boolean

const isSize = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0
const isNumber = (value: unknown): value is number => typeof value === 'number'
const isText = (value: unknown): value is string => typeof value === 'string'

/** The keywords that validate by themselves: the check of the keyword's own value, and its requirement. */
const rules: Readonly<Record<string, { isRight(rule: unknown): boolean; holds: Check; says(rule: unknown): string }>> =
  {
    type: {
      isRight: (rule) => [rule].flat().every((type) => TYPES.has(type)),
      holds: (value, rule) => [rule].flat().some((type) => isOfType(value, type)),
      says: (rule) => `must be of type ${[rule].flat().join(' or ')}`,
    },
    enum: {
      isRight: (rule) => Array.isArray(rule) && rule.length > 0,
      holds: (value, rule) => (rule as unknown[]).some((one) => isSame(one, value)),
      says: (rule) => `must be one of ${(rule as unknown[]).map((one) => JSON.stringify(one)).join(', ')}`,
    },
    const: {
      isRight: () => true,
      holds: (value, rule) => isSame(rule, value),
      says: (rule) => `must be ${JSON.stringify(rule)}`,
    },
    minimum: bound(isNumber, (value, rule) => !isNumber(value) || value >= rule, 'must be at least'),
    maximum: bound(isNumber, (value, rule) => !isNumber(value) || value <= rule, 'must be at most'),
    exclusiveMinimum: bound(isNumber, (value, rule) => !isNumber(value) || value > rule, 'must be more than'),
    exclusiveMaximum: bound(isNumber, (value, rule) => !isNumber(value) || value < rule, 'must be less than'),
    minLength: bound(isSize, (value, rule) => !isText(value) || countCharacters(value) >= rule, 'characters: at least'),
    maxLength: bound(isSize, (value, rule) => !isText(value) || countCharacters(value) <= rule, 'characters: at most'),
    minItems: bound(isSize, (value, rule) => !Array.isArray(value) || value.length >= rule, 'items: at least'),
    maxItems: bound(isSize, (value, rule) => !Array.isArray(value) || value.length <= rule, 'items: at most'),
    required: {
      isRight: (rule) => Array.isArray(rule) && rule.every(isText),
      holds: (value, rule) => !isObject(value) || (rule as string[]).every((name) => Object.hasOwn(value, name)),
      says: (rule) => `must have ${(rule as string[]).join(', ')}`,
    },
  }

function bound(isRight: (rule: unknown) => boolean, holds: (value: unknown, rule: number) => boolean, says: string) {
  return { isRight, holds: holds as Check, says: (rule: unknown) => `${says} ${String(rule)}` }
}

/** Counts characters as JSON Schema does, which are code points. */
function countCharacters(text: string): number {
  let pairs = 0
  for (let index = 0; index < text.length; index++) if ((text.charCodeAt(index) & 0xfc00) === 0xd800) pairs++
  return text.length - pairs
}

function isOfType(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

const isSame = (one: unknown, other: unknown): boolean =>
  one === other ||
  (typeof one === 'object' && typeof other === 'object' && JSON.stringify(one) === JSON.stringify(other))

/** Checks a schema itself at `pointer`. `depth`: the deepest allowed nesting. */
export function schemaFindings(schema: unknown, pointer: string, depth: number): readonly Finding[] {
  if (typeof schema === 'boolean') return []
  if (!isObject(schema)) return [{ pointer, message: 'must be a JSON schema' }]
  if (depth === 0) return [{ pointer, message: 'is nested too deep' }]
  return Object.entries(schema).flatMap(([keyword, rule]) => {
    const there = at(pointer, keyword)
    if (SAYING.has(keyword)) return []
    if (Object.hasOwn(rules, keyword))
      return rules[keyword]?.isRight(rule) ? [] : [{ pointer: there, message: 'is not a valid value of this keyword' }]
    const inner = subschemas(keyword, rule)
    if (inner === undefined)
      return [{ pointer: there, message: 'is not a supported keyword: leave it out, and let the called tool check it' }]
    return inner.flatMap(([step, one]) => schemaFindings(one, step === '' ? there : at(there, step), depth - 1))
  })
}

/** Returns the schemas below a keyword, by the step to each; undefined if the keyword has none. */
function subschemas(keyword: string, rule: unknown): readonly (readonly [string, unknown])[] | undefined {
  if (keyword === 'properties') return isObject(rule) ? Object.entries(rule) : [['', undefined]]
  if (keyword === 'anyOf' || keyword === 'oneOf' || keyword === 'allOf')
    return Array.isArray(rule) ? rule.map((one, index) => [String(index), one]) : [['', undefined]]
  return keyword === 'items' || keyword === 'additionalProperties' || keyword === 'not' ? [['', rule]] : undefined
}

/** Returns the first place where a value violates a schema without findings; undefined if the value is valid. */
export function findViolation(schema: unknown, value: unknown, pointer = ''): Finding | undefined {
  if (schema === false) return { pointer, message: 'is not allowed here' }
  if (!isObject(schema)) return undefined
  for (const [keyword, rule] of Object.entries(schema)) {
    const known = Object.hasOwn(rules, keyword) ? rules[keyword] : undefined
    if (known !== undefined && !known.holds(value, rule)) return { pointer, message: known.says(rule) }
  }
  return (
    checkCombined(schema, value, pointer) ??
    (isObject(value) ? inObject(schema, value, pointer) : inArray(schema, value, pointer))
  )
}

function checkCombined(schema: JsonSchema, value: unknown, pointer: string): Finding | undefined {
  const { anyOf, oneOf, allOf, not } = schema
  const countHolding = (list: unknown): number =>
    (list as unknown[]).filter((one) => findViolation(one, value, pointer) === undefined).length
  if (anyOf !== undefined && countHolding(anyOf) === 0)
    return { pointer, message: 'must match one of the schemas in anyOf' }
  if (oneOf !== undefined && countHolding(oneOf) !== 1)
    return { pointer, message: 'must match exactly one of the schemas in oneOf' }
  if (not !== undefined && findViolation(not, value, pointer) === undefined)
    return { pointer, message: 'must not match the schema in not' }
  for (const one of (allOf as unknown[] | undefined) ?? []) {
    const violation = findViolation(one, value, pointer)
    if (violation !== undefined) return violation
  }
  return undefined
}

function inObject(schema: JsonSchema, value: Readonly<Record<string, unknown>>, pointer: string): Finding | undefined {
  const { properties, additionalProperties } = schema
  const own = isObject(properties) ? properties : {}
  for (const [name, inner] of Object.entries(value)) {
    const rule = Object.hasOwn(own, name) ? own[name] : additionalProperties
    const violation = findViolation(rule, inner, at(pointer, name))
    if (violation !== undefined) return violation
  }
  return undefined
}

function inArray({ items }: JsonSchema, value: unknown, pointer: string): Finding | undefined {
  if (items === undefined || !Array.isArray(value)) return undefined
  for (const [index, inner] of value.entries()) {
    const violation = findViolation(items, inner, at(pointer, index))
    if (violation !== undefined) return violation
  }
  return undefined
}

/** Adds a schema's defaults for the members that an object lacks. */
export function withDefaults(schema: JsonSchema, value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { properties } = schema
  const missing = Object.entries(isObject(properties) ? properties : {}).filter(
    ([name, inner]) => !Object.hasOwn(value, name) && isObject(inner) && inner['default'] !== undefined,
  )
  return Object.fromEntries([
    ...Object.entries(value),
    ...missing.map(([name, inner]) => [name, (inner as JsonSchema)['default']] as const),
  ])
}
