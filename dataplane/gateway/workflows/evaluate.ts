import { isObject } from '../../../crds/settings/json.ts'
import { workflowLimits } from '../../config/workflow/limits.ts'
import type { Expression, Part, Template } from '../../config/workflow/template.ts'
import type { Values } from '../../config/workflow/values.ts'
import { parseExact, readDigits } from '../mcp/json.ts'
import { StepFailure } from './host.ts'

export interface Scope {
  readonly params: unknown
  readonly steps: unknown
  readonly forEach: unknown
}

/**
 * Evaluates a template: a single expression keeps its JSON type, everything else is a text; undefined if a path leads
 * nowhere. Throws a StepFailure.
 */
export function evaluate({ whole, parts }: Template, scope: Scope): unknown {
  return whole === undefined ? show(parts, scope, '') : evaluateExpression(whole, scope)
}

export function textFrom(template: Template, scope: Scope): string {
  return toText(evaluate(template, scope))
}

/** Evaluates the templates in JSON; members and arguments whose path leads nowhere are left out. */
export function evaluateValues(values: Values, scope: Scope): unknown {
  switch (values.kind) {
    case 'constant':
      return values.value
    case 'template':
      return evaluate(values.template, scope)
    case 'list':
      return values.items.map((item) => evaluateValues(item, scope) ?? null)
    default:
      return Object.fromEntries(values.members.map(([name, value]) => [name, evaluateValues(value, scope)]))
  }
}

/** Appends the text of a template's parts to the text before them, up to a bound. */
function show(parts: readonly Part[], scope: Scope, before: string): string {
  let text = before
  for (const part of parts) {
    if (typeof part === 'string') text = checkLength(text + part)
    else if (part.kind !== 'choice') text = checkLength(text + toText(evaluateExpression(part, scope)))
    else {
      const branch = part.branches.find(({ condition }) => isTrue(evaluateExpression(condition, scope)))
      text = show(branch?.parts ?? part.otherwise, scope, text)
    }
  }
  return text
}

function evaluateExpression(expression: Expression, scope: Scope): unknown {
  switch (expression.kind) {
    case 'literal':
      return expression.value
    case 'path':
      return readPath(scope[expression.root], expression.steps)
    case 'member':
      return readPath(evaluateExpression(expression.of, scope), expression.steps)
    default:
      return call(expression.name, expression.args, scope)
  }
}

function call(name: string, args: readonly Expression[], scope: Scope): unknown {
  // Only these functions may leave arguments out.
  if (name === 'and' || name === 'or') {
    let value: unknown
    for (const arg of args) {
      value = evaluateExpression(arg, scope)
      if (isTrue(value) === (name === 'or')) break
    }
    return value
  }
  const run = functions.get(name)
  if (run === undefined) throw new TypeError(`no function ${name}`)
  return run(args.map((arg) => evaluateExpression(arg, scope)))
}

/** Returns the value at a path: only own members of objects, so that inherited names mean nothing. */
function readPath(value: unknown, steps: readonly string[]): unknown {
  let at = value
  for (const step of steps) {
    if (!isObject(at) || !Object.hasOwn(at, step) || readDigits(at) !== undefined) return undefined
    at = at[step]
  }
  return at
}

/** The functions of templates, except `and` and `or`. Each takes time linear in its arguments. */
const functions: ReadonlyMap<string, (args: readonly unknown[]) => unknown> = new Map<
  string,
  (args: readonly unknown[]) => unknown
>([
  ['not', ([value]) => !isTrue(value)],
  ['eq', ([value, ...others]) => others.some((other) => isEqual(value, other))],
  ['ne', ([value, other]) => !isEqual(value, other)],
  ['lt', ([value, other]) => compareValues(value, other) < 0],
  ['le', ([value, other]) => compareValues(value, other) <= 0],
  ['gt', ([value, other]) => compareValues(value, other) > 0],
  ['ge', ([value, other]) => compareValues(value, other) >= 0],
  ['len', ([value]) => measureLength(value)],
  ['index', ([value, ...keys]) => keys.reduce(at, value)],
  ['json', ([value]) => checkLength(JSON.stringify(value ?? null))],
  ['fromJson', ([value]) => fromJson(value)],
  ['quote', ([value]) => checkLength(JSON.stringify(toText(value)))],
  ['string', ([value]) => checkLength(toText(value))],
  ['default', ([usual, value]) => (isTrue(value) ? value : usual)],
  ['printf', ([format, ...values]) => printf(format, values)],
])

function checkLength(text: string): string {
  if (text.length > workflowLimits.output) throw new StepFailure('a template gives more than 10 MB')
  return text
}

/** Returns a number that is kept as digits as a BigInt, so that two large numbers are not confused. */
const plain = (value: unknown): unknown => {
  const digits = readDigits(value)
  return digits === undefined ? (value ?? null) : BigInt(digits)
}

function isEqual(one: unknown, other: unknown): boolean {
  const [a, b] = [plain(one), plain(other)]
  // biome-ignore lint/suspicious/noDoubleEquals: 1 and 1n are one number.
  return a === b || (isNumeric(a) && isNumeric(b) && a == b)
}

const isNumeric = (value: unknown): value is number | bigint => typeof value === 'number' || typeof value === 'bigint'

function compareValues(one: unknown, other: unknown): number {
  const [a, b] = [plain(one), plain(other)]
  if ((isNumeric(a) && isNumeric(b)) || (typeof a === 'string' && typeof b === 'string'))
    return a < b ? -1 : a > b ? 1 : 0
  throw new StepFailure('a template compares what has no order: two numbers or two texts have one')
}

function measureLength(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (Array.isArray(value)) return value.length
  if (isObject(value) && readDigits(value) === undefined) return Object.keys(value).length
  if (value === undefined || value === null) return 0
  throw new StepFailure('a template asks for the length of something that has none')
}

/** Returns an element of a list, or an own member of an object. */
function at(value: unknown, key: unknown): unknown {
  if (Array.isArray(value)) return typeof key === 'number' && Number.isInteger(key) ? value[key] : undefined
  if (!isObject(value) || readDigits(value) !== undefined || typeof key !== 'string') return undefined
  return Object.hasOwn(value, key) ? value[key] : undefined
}

function fromJson(value: unknown): unknown {
  if (typeof value !== 'string') return value
  const parsed = parseOrUndefined(value)
  if (parsed === undefined) throw new StepFailure('fromJson was given a text that is not valid JSON')
  return parsed
}

const VERB = /%(.?)/gs

/** Formats values by Go's verbs: %v and %s as text, %d as a number, %q in quotation marks, %% for itself. */
function printf(format: unknown, values: readonly unknown[]): string {
  let next = 0
  let size = 0
  const countSize = (text: string): string => {
    size += text.length
    if (size > workflowLimits.output) throw new StepFailure('a template gives more than 10 MB')
    return text
  }
  const text = toText(format).replace(VERB, (_, verb: string) => {
    if (verb === '%') return '%'
    if (next >= values.length) throw new StepFailure('printf has fewer values than verbs')
    const value = values[next++]
    if (verb === 'v' || verb === 's' || verb === 'd') return countSize(toText(value))
    if (verb === 'q') return countSize(JSON.stringify(toText(value)))
    throw new StepFailure(`printf knows no verb %${verb}`)
  })
  return checkLength(text)
}

/** Tells whether a value is true as in Go's templates: empty values and zero are false. */
function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (!isObject(value)) return Boolean(value)
  if (readDigits(value) !== undefined) return true
  for (const _ in value) return true
  return false
}

/** Returns a value as a template shows it: texts as they are, nothing for missing values, all else as JSON. */
export function toText(value: unknown): string {
  if (typeof value === 'string') return value
  return value === undefined || value === null ? '' : JSON.stringify(value)
}

/** Parses JSON from outside; undefined if it is invalid or nested too deep. */
export function parseOrUndefined(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}
