/** Runs `x-kubernetes-validations` like the API server: on values with defaults, typed by their schema. */
import { Environment } from '@marcbachmann/cel-js'
import { at, isObject } from './settings/json.ts'
import type { CelRule } from './settings/schema.ts'
import { childSchema, type SchemaNode } from './walk.ts'

const environment = new Environment().registerVariable('self', 'dyn')

type Program = (context: { self: unknown }) => unknown

const programs = new Map<string, Program>()

function parseRule({ rule }: CelRule): Program {
  const known = programs.get(rule)
  if (known) return known
  const program = environment.parse(rule) as unknown as Program
  programs.set(rule, program)
  return program
}

/**
 * Converts a value to what CEL sees. Integers become BigInt by the schema. Objects become Map, so that a key such as
 * `constructor` is an ordinary key.
 */
export function celValue(node: SchemaNode | undefined, value: unknown): unknown {
  if (typeof value === 'number') return Number.isInteger(value) && node?.type !== 'number' ? BigInt(value) : value
  if (Array.isArray(value)) return value.map((item) => celValue(node?.items, item))
  if (!isObject(value)) return value
  return new Map(Object.entries(value).map(([key, inner]) => [key, celValue(node && childSchema(node, key), inner)]))
}

function holds(rule: CelRule, self: unknown): boolean {
  try {
    return parseRule(rule)({ self }) === true
  } catch {
    // The API server also refuses what it can't evaluate, such as an invalid duration.
    return false
  }
}

/** Returns the rules that do not hold for a value. */
export const brokenRules = (rules: readonly CelRule[], self: unknown): CelRule[] =>
  rules.filter((rule) => !holds(rule, self))

interface RuleVisitor {
  /** Tells whether the rules of the value at this pointer are skipped, because its structure is already wrong. */
  skip(pointer: string): boolean
  broken(pointer: string, rule: CelRule): void
}

/** Evaluates every rule of a schema on a value (made by `celValue`) and calls back for each that does not hold. */
export function eachBrokenRule(node: SchemaNode, value: unknown, pointer: string, visitor: RuleVisitor): void {
  const rules = node['x-kubernetes-validations']
  if (rules && !visitor.skip(pointer)) for (const rule of brokenRules(rules, value)) visitor.broken(pointer, rule)
  const descend = (child: SchemaNode | undefined, inner: unknown, step: string | number) => {
    if (child) eachBrokenRule(child, inner, at(pointer, step), visitor)
  }
  if (Array.isArray(value)) for (const [index, item] of value.entries()) descend(node.items, item, index)
  else if (value instanceof Map) for (const [key, inner] of value) descend(childSchema(node, key), inner, key)
}
