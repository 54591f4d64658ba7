import type { Expr } from '@cedar-policy/cedar-wasm/nodejs'
import { isObject } from '../../../crds/settings/json.ts'
import type { CedarValue } from '../values.ts'
import { Entity, type Situation } from './situation.ts'

type Value = CedarValue | Entity | readonly Value[]

type Evaluate = (situation: Situation) => Value

/**
 * The error for an expression whose value this evaluator can't determine: an error by Cedar's rules, or a rare type of
 * value.
 */
export const UNSURE = Symbol('unsure')

/** The error of an expression that this evaluator does not support. */
export class Unsupported extends Error {
  override readonly name = 'Unsupported'
}

type Operand = Readonly<Record<string, unknown>>
type Compile = (operand: Operand) => Evaluate

/**
 * Compiles an expression in Cedar's JSON form: common operators on Booleans, Longs, texts, sets, records and entities
 * (Cedar, policy syntax: operators). Errors and unsupported comparisons throw UNSURE at evaluation. Throws Unsupported
 * for other expressions.
 */
function compileExpression(expression: Expr | unknown): Evaluate {
  if (!isObject(expression)) throw new Unsupported('no expression')
  const [[operator, operand] = ['', undefined], ...more] = Object.entries(expression)
  if (more.length > 0) throw new Unsupported('several operators')
  if (operator === 'Value') return literal(operand)
  if (operator === 'Var') return variable(operand)
  if (operator === 'Set') return set(operand)
  const compile = Object.hasOwn(operators, operator) ? operators[operator] : undefined
  if (compile === undefined || !isObject(operand)) throw new Unsupported(operator)
  return compile(operand)
}

export function compileCondition(expression: unknown): (situation: Situation) => boolean {
  const evaluate = compileExpression(expression)
  return (situation) => bool(evaluate(situation))
}

const unsure = (): never => {
  throw UNSURE
}

const bool = (value: Value): boolean => (typeof value === 'boolean' ? value : unsure())
const long = (value: Value): number => (typeof value === 'number' && Number.isSafeInteger(value) ? value : unsure())
const text = (value: Value): string => (typeof value === 'string' ? value : unsure())
const entity = (value: Value): Entity => (value instanceof Entity ? value : unsure())
const elements = (value: Value): readonly Value[] => (Array.isArray(value) ? value : unsure())

type Scalar = boolean | number | string
const isScalar = (value: Value): value is Scalar =>
  typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && Number.isSafeInteger(value))

function areEqual(one: Value, two: Value): boolean {
  if (isScalar(one) && isScalar(two)) return one === two
  if (one instanceof Entity && two instanceof Entity) return one.key === two.key
  return unsure()
}

function has(values: readonly Value[], wanted: Value): boolean {
  if (isScalar(wanted)) return values.includes(wanted)
  const { key } = entity(wanted)
  return values.some((value) => value instanceof Entity && value.key === key)
}

/** Tells for each element of the right set whether it is in the left one. */
function found(left: Value, right: Value): readonly boolean[] {
  const values = elements(left)
  return elements(right).map((one) => has(values, one))
}

const named = (name: unknown): string => {
  if (typeof name !== 'string') throw new Unsupported('a path of attributes')
  return name
}

function literal(value: unknown): Evaluate {
  if (typeof value === 'string' || typeof value === 'boolean') return () => value
  if (typeof value === 'number' && Number.isSafeInteger(value)) return () => value
  const constant = entityOf(isObject(value) ? value['__entity'] : undefined)
  return () => constant
}

export function entityOf(value: unknown): Entity {
  const { type, id } = isObject(value) ? value : {}
  if (typeof type !== 'string' || typeof id !== 'string') throw new Unsupported('a literal')
  return new Entity(type, id)
}

function variable(name: unknown): Evaluate {
  if (name !== 'principal' && name !== 'action' && name !== 'resource') throw new Unsupported('context as a whole')
  return (situation) => situation[name]
}

function set(operands: unknown): Evaluate {
  if (!Array.isArray(operands)) throw new Unsupported('a set')
  const items = operands.map(compileExpression)
  return (situation) => items.map((item) => item(situation))
}

/** Returns an attribute of the left value; undefined if it has none. */
function attribute(left: unknown, name: string): (situation: Situation) => CedarValue | undefined {
  if (isObject(left) && left['Var'] === 'context') return (situation) => situation.context(name)
  const evaluate = compileExpression(left)
  return (situation) => {
    const value = evaluate(situation)
    if (value instanceof Entity) return situation.attribute(value, name)
    // A decimal has the form of a record, so it is excluded here.
    if (!isObject(value) || Object.hasOwn(value, '__extn')) return unsure()
    return Object.hasOwn(value, name) ? (value[name] as CedarValue) : undefined
  }
}

type Combine = (left: Value, right: Value, situation: Situation) => Value
const both =
  (combine: Combine): Compile =>
  ({ left, right }) => {
    const [one, two] = [compileExpression(left), compileExpression(right)]
    return (situation) => combine(one(situation), two(situation), situation)
  }

function isIn(left: Value, right: Value, situation: Situation): boolean {
  const below = entity(left)
  // All elements of a set are checked: one that is not an entity is an error at any position.
  const above = right instanceof Entity ? [right] : elements(right).map(entity)
  return above.some((other) => situation.isIn(below, other))
}

/** Tells whether a text matches a pattern, given as the texts between its wildcards. */
function matches(value: string, [first = '', ...rest]: readonly string[]): boolean {
  const last = rest.pop()
  if (last === undefined) return value === first
  if (value.length < first.length + last.length || !value.startsWith(first) || !value.endsWith(last)) return false
  let from = first.length
  for (const part of rest) {
    const at = value.indexOf(part, from)
    if (at === -1) return false
    from = at + part.length
  }
  return from <= value.length - last.length
}

function patternOf(pattern: unknown): readonly string[] {
  const parts = ['']
  for (const item of Array.isArray(pattern) ? pattern : [undefined]) {
    if (item === 'Wildcard') parts.push('')
    else if (isObject(item) && typeof item['Literal'] === 'string') parts[parts.length - 1] += item['Literal']
    else throw new Unsupported('a pattern')
  }
  return parts
}

const operators: Readonly<Record<string, Compile>> = {
  '!': ({ arg }) => {
    const condition = compileCondition(arg)
    return (situation) => !condition(situation)
  },
  '&&': ({ left, right }) => {
    const [one, two] = [compileCondition(left), compileCondition(right)]
    return (situation) => one(situation) && two(situation)
  },
  '||': ({ left, right }) => {
    const [one, two] = [compileCondition(left), compileCondition(right)]
    return (situation) => one(situation) || two(situation)
  },
  'if-then-else': (operand) => {
    const condition = compileCondition(operand['if'])
    const [then, otherwise] = [compileExpression(operand['then']), compileExpression(operand['else'])]
    return (situation) => (condition(situation) ? then(situation) : otherwise(situation))
  },
  '==': both(areEqual),
  '!=': both((left, right) => !areEqual(left, right)),
  '<': both((left, right) => long(left) < long(right)),
  '<=': both((left, right) => long(left) <= long(right)),
  '>': both((left, right) => long(left) > long(right)),
  '>=': both((left, right) => long(left) >= long(right)),
  in: both(isIn),
  contains: both((left, right) => has(elements(left), right)),
  containsAll: both((left, right) => found(left, right).every((one) => one)),
  containsAny: both((left, right) => found(left, right).includes(true)),
  isEmpty: ({ arg }) => {
    const evaluate = compileExpression(arg)
    return (situation) => elements(evaluate(situation)).length === 0
  },
  is: (operand) => {
    const evaluate = compileExpression(operand['left'])
    const type = named(operand['entity_type'])
    const above = operand['in'] === undefined ? undefined : compileExpression(operand['in'])
    return (situation) => {
      const value = entity(evaluate(situation))
      return value.type === type && (above === undefined || isIn(value, above(situation), situation))
    }
  },
  like: ({ left, pattern }) => {
    const [evaluate, parts] = [compileExpression(left), patternOf(pattern)]
    return (situation) => matches(text(evaluate(situation)), parts)
  },
  has: ({ left, attr }) => {
    const find = attribute(left, named(attr))
    return (situation) => find(situation) !== undefined
  },
  '.': ({ left, attr }) => {
    const find = attribute(left, named(attr))
    return (situation) => find(situation) ?? unsure()
  },
}
