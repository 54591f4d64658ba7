import type { Expr, PolicyJson } from '@cedar-policy/cedar-wasm/nodejs'
import { isObject } from '../../crds/settings/json.ts'
import { entityKey } from './expressions.ts'
import type { Subject } from './source.ts'
import type { CedarValue } from './values.ts'

/** Tells whether a policy applies. Throws UNSURE. */
type Applies = (request: DecisionRequest) => boolean

export interface Evaluated {
  readonly effect: 'permit' | 'forbid'
  readonly applies: Applies
}

/** Compiles a policy; undefined if it has unsupported parts. */
export function toEvaluated({ effect, principal, action, resource, conditions }: PolicyJson): Evaluated | undefined {
  try {
    const parts = [
      scope(principal, (request) => request.principal),
      scope(action, (request) => request.action),
      scope(resource, (request) => request.resource),
      ...conditions.map(({ kind, body }) => condition(kind, body)),
    ]
    return { effect, applies: (request) => parts.every((part) => part(request)) }
  } catch (error) {
    if (error instanceof Unsupported) return undefined
    throw error
  }
}

function condition(kind: unknown, body: unknown): Applies {
  const holds = compileCondition(body)
  if (kind === 'when') return holds
  if (kind === 'unless') return (request) => !holds(request)
  throw new Unsupported('a condition')
}

/** Compiles the scope of one variable (Cedar, JSON policy format). */
function scope(constraint: unknown, of: (request: DecisionRequest) => Entity): Applies {
  const { op, entity, entities, entity_type: type, in: above } = isObject(constraint) ? constraint : {}
  const isBelow = (others: readonly Entity[]): Applies => {
    return (request) => others.some((other) => request.isIn(of(request), other))
  }
  switch (op) {
    case 'All':
      return () => true
    case '==': {
      const { key } = parseScope(entity)
      return (request) => of(request).key === key
    }
    case 'in':
      return isBelow(Array.isArray(entities) ? entities.map(parseScope) : [parseScope(entity)])
    case 'is': {
      const isBelowToo =
        above === undefined ? () => true : isBelow([parseScope(isObject(above) ? above['entity'] : above)])
      return (request) => of(request).type === type && isBelowToo(request)
    }
    default:
      throw new Unsupported('a scope')
  }
}

/** Returns the entity of a scope, which may be plain or escaped. */
const parseScope = (value: unknown): Entity =>
  readEntity(isObject(value) && isObject(value['__entity']) ? value['__entity'] : value)

/**
 * Returns the decision: allowed if one policy permits and none forbids. Undefined if the engine must evaluate one: it
 * may have an error, which denies.
 */
export function decide(policies: readonly Evaluated[], request: DecisionRequest): boolean | undefined {
  let isPermitted = false
  try {
    for (const { effect, applies } of policies) {
      if (!applies(request)) continue
      if (effect === 'forbid') return false
      isPermitted = true
    }
    return isPermitted
  } catch (error) {
    if (error === UNSURE) return undefined
    throw error
  }
}

type Value = CedarValue | Entity | readonly Value[]

type Evaluate = (request: DecisionRequest) => Value

/**
 * The error for an expression whose value this evaluator can't determine: an error by Cedar's rules, or a rare type of
 * value.
 */
const UNSURE = Symbol('unsure')

/** The error of an expression that this evaluator does not support. */
class Unsupported extends Error {
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

function compileCondition(expression: unknown): (request: DecisionRequest) => boolean {
  const evaluate = compileExpression(expression)
  return (request) => bool(evaluate(request))
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
function containsEach(left: Value, right: Value): readonly boolean[] {
  const values = elements(left)
  return elements(right).map((one) => has(values, one))
}

const requireName = (name: unknown): string => {
  if (typeof name !== 'string') throw new Unsupported('a path of attributes')
  return name
}

function literal(value: unknown): Evaluate {
  if (typeof value === 'string' || typeof value === 'boolean') return () => value
  if (typeof value === 'number' && Number.isSafeInteger(value)) return () => value
  const constant = readEntity(isObject(value) ? value['__entity'] : undefined)
  return () => constant
}

function readEntity(value: unknown): Entity {
  const { type, id } = isObject(value) ? value : {}
  if (typeof type !== 'string' || typeof id !== 'string') throw new Unsupported('a literal')
  return new Entity(type, id)
}

function variable(name: unknown): Evaluate {
  if (name !== 'principal' && name !== 'action' && name !== 'resource') throw new Unsupported('context as a whole')
  return (request) => request[name]
}

function set(operands: unknown): Evaluate {
  if (!Array.isArray(operands)) throw new Unsupported('a set')
  const items = operands.map(compileExpression)
  return (request) => items.map((item) => item(request))
}

/** Returns an attribute of the left value; undefined if it has none. */
function attribute(left: unknown, name: string): (request: DecisionRequest) => CedarValue | undefined {
  if (isObject(left) && left['Var'] === 'context') return (request) => request.context(name)
  const evaluate = compileExpression(left)
  return (request) => {
    const value = evaluate(request)
    if (value instanceof Entity) return request.attribute(value, name)
    // A decimal has the form of a record, so it is excluded here.
    if (!isObject(value) || Object.hasOwn(value, '__extn')) return unsure()
    return Object.hasOwn(value, name) ? (value[name] as CedarValue) : undefined
  }
}

type Combine = (left: Value, right: Value, request: DecisionRequest) => Value
const both =
  (combine: Combine): Compile =>
  ({ left, right }) => {
    const [one, two] = [compileExpression(left), compileExpression(right)]
    return (request) => combine(one(request), two(request), request)
  }

function isIn(left: Value, right: Value, request: DecisionRequest): boolean {
  const below = entity(left)
  // All elements of a set are checked: one that is not an entity is an error at any position.
  const above = right instanceof Entity ? [right] : elements(right).map(entity)
  return above.some((other) => request.isIn(below, other))
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

function readPattern(pattern: unknown): readonly string[] {
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
    return (request) => !condition(request)
  },
  '&&': ({ left, right }) => {
    const [one, two] = [compileCondition(left), compileCondition(right)]
    return (request) => one(request) && two(request)
  },
  '||': ({ left, right }) => {
    const [one, two] = [compileCondition(left), compileCondition(right)]
    return (request) => one(request) || two(request)
  },
  'if-then-else': (operand) => {
    const condition = compileCondition(operand['if'])
    const [then, otherwise] = [compileExpression(operand['then']), compileExpression(operand['else'])]
    return (request) => (condition(request) ? then(request) : otherwise(request))
  },
  '==': both(areEqual),
  '!=': both((left, right) => !areEqual(left, right)),
  '<': both((left, right) => long(left) < long(right)),
  '<=': both((left, right) => long(left) <= long(right)),
  '>': both((left, right) => long(left) > long(right)),
  '>=': both((left, right) => long(left) >= long(right)),
  in: both(isIn),
  contains: both((left, right) => has(elements(left), right)),
  containsAll: both((left, right) => containsEach(left, right).every((one) => one)),
  containsAny: both((left, right) => containsEach(left, right).includes(true)),
  isEmpty: ({ arg }) => {
    const evaluate = compileExpression(arg)
    return (request) => elements(evaluate(request)).length === 0
  },
  is: (operand) => {
    const evaluate = compileExpression(operand['left'])
    const type = requireName(operand['entity_type'])
    const above = operand['in'] === undefined ? undefined : compileExpression(operand['in'])
    return (request) => {
      const value = entity(evaluate(request))
      return value.type === type && (above === undefined || isIn(value, above(request), request))
    }
  },
  like: ({ left, pattern }) => {
    const [evaluate, parts] = [compileExpression(left), readPattern(pattern)]
    return (request) => matches(text(evaluate(request)), parts)
  },
  has: ({ left, attr }) => {
    const find = attribute(left, requireName(attr))
    return (request) => find(request) !== undefined
  },
  '.': ({ left, attr }) => {
    const find = attribute(left, requireName(attr))
    return (request) => find(request) ?? unsure()
  },
}

type Values = Readonly<Record<string, CedarValue>>

class Entity {
  readonly type: string
  readonly key: string

  constructor(type: string, id: string) {
    this.type = type
    this.key = entityKey(type, id)
  }
}

export interface DecisionInput {
  readonly principal: { readonly id: string; readonly groups: readonly string[]; readonly claims: Values }
  readonly subject: Subject
  /** The arguments as `arg_<name>`. */
  readonly given: Values
  /** The parent of all resources. */
  readonly server: string
  readonly groupEntityType: string
}

const own = (values: Values, name: string): CedarValue | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined

/** The request in the form that expressions read. Only its entities have attributes or parents. */
export class DecisionRequest {
  readonly principal: Entity
  readonly action: Entity
  readonly resource: Entity
  readonly #input: DecisionInput
  readonly #attributes: Values
  #groups: ReadonlySet<string> | undefined

  /** `attributes`: those of the resource, without the call's arguments. */
  constructor(input: DecisionInput, attributes: Values) {
    const { principal, subject } = input
    this.#input = input
    this.#attributes = attributes
    this.principal = new Entity('Client', principal.id.toWellFormed())
    this.action = new Entity('Action', subject.action)
    this.resource = new Entity(subject.type, subject.id.toWellFormed())
  }

  attribute({ key }: Entity, name: string): CedarValue | undefined {
    if (key === this.principal.key) return own(this.#input.principal.claims, name)
    if (key === this.resource.key) return own(this.#input.given, name) ?? own(this.#attributes, name)
    return undefined
  }

  context(name: string): CedarValue | undefined {
    return own(this.#input.given, name) ?? own(this.#input.principal.claims, name)
  }

  /** Tells whether an entity is another one, or a descendant of it. */
  isIn({ key }: Entity, other: Entity): boolean {
    if (key === other.key) return true
    if (key === this.principal.key) return this.#groupsOfCaller().has(other.key)
    return key === this.resource.key && this.#isParentOfResource(other)
  }

  #groupsOfCaller(): ReadonlySet<string> {
    const { principal, groupEntityType } = this.#input
    this.#groups ??= new Set(principal.groups.map((group) => entityKey(groupEntityType, group)))
    return this.#groups
  }

  #isParentOfResource({ type, key }: Entity): boolean {
    const { subject, server } = this.#input
    if (type === 'MCP') return key === entityKey('MCP', server)
    return type === 'Backend' && subject.backend !== undefined && key === entityKey('Backend', subject.backend)
  }
}
