import { isObject } from '../../../crds/settings/json.ts'
import { workflowLimits } from '../../config/workflow/limits.ts'
import { digitsOf, parseExact } from './exact-json.ts'
import { StepFailure } from './failure.ts'

/** The functions of templates, except `and` and `or`. Each takes time linear in its arguments. */
export const functions: ReadonlyMap<string, (args: readonly unknown[]) => unknown> = new Map<
  string,
  (args: readonly unknown[]) => unknown
>([
  ['not', ([value]) => !isTrue(value)],
  ['eq', ([value, ...others]) => others.some((other) => isEqual(value, other))],
  ['ne', ([value, other]) => !isEqual(value, other)],
  ['lt', ([value, other]) => order(value, other) < 0],
  ['le', ([value, other]) => order(value, other) <= 0],
  ['gt', ([value, other]) => order(value, other) > 0],
  ['ge', ([value, other]) => order(value, other) >= 0],
  ['len', ([value]) => measureLength(value)],
  ['index', ([value, ...keys]) => keys.reduce(at, value)],
  ['json', ([value]) => bounded(JSON.stringify(value ?? null))],
  ['fromJson', ([value]) => fromJson(value)],
  ['quote', ([value]) => bounded(JSON.stringify(toText(value)))],
  ['string', ([value]) => bounded(toText(value))],
  ['default', ([usual, value]) => (isTrue(value) ? value : usual)],
  ['printf', ([format, ...values]) => printf(format, values)],
])

function bounded(text: string): string {
  if (text.length > workflowLimits.output) throw new StepFailure('a template gives more than 10 MB')
  return text
}

/** Returns numbers by their digits, so that two large ones are not confused. */
const plain = (value: unknown): unknown => {
  const digits = digitsOf(value)
  return digits === undefined ? (value ?? null) : BigInt(digits)
}

function isEqual(one: unknown, other: unknown): boolean {
  const [a, b] = [plain(one), plain(other)]
  // biome-ignore lint/suspicious/noDoubleEquals: 1 and 1n are one number.
  return a === b || (isNumeric(a) && isNumeric(b) && a == b)
}

const isNumeric = (value: unknown): value is number | bigint => typeof value === 'number' || typeof value === 'bigint'

function order(one: unknown, other: unknown): number {
  const [a, b] = [plain(one), plain(other)]
  if ((isNumeric(a) && isNumeric(b)) || (typeof a === 'string' && typeof b === 'string'))
    return a < b ? -1 : a > b ? 1 : 0
  throw new StepFailure('a template compares what has no order: two numbers or two texts have one')
}

function measureLength(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (Array.isArray(value)) return value.length
  if (isObject(value) && digitsOf(value) === undefined) return Object.keys(value).length
  if (value === undefined || value === null) return 0
  throw new StepFailure('a template asks for the length of something that has none')
}

/** Returns an element of a list, or an own member of an object. */
function at(value: unknown, key: unknown): unknown {
  if (Array.isArray(value)) return typeof key === 'number' && Number.isInteger(key) ? value[key] : undefined
  if (!isObject(value) || digitsOf(value) !== undefined || typeof key !== 'string') return undefined
  return Object.hasOwn(value, key) ? value[key] : undefined
}

function fromJson(value: unknown): unknown {
  if (typeof value !== 'string') return value
  try {
    return parseExact(value)
  } catch {
    throw new StepFailure('fromJson was given a text that is not valid JSON')
  }
}

const VERB = /%(.?)/gs

/** Formats values by Go's verbs: %v and %s as text, %d as a number, %q in quotation marks, %% for itself. */
function printf(format: unknown, values: readonly unknown[]): string {
  let next = 0
  let size = 0
  const shown = (text: string): string => {
    size += text.length
    if (size > workflowLimits.output) throw new StepFailure('a template gives more than 10 MB')
    return text
  }
  const text = toText(format).replace(VERB, (_, verb: string) => {
    if (verb === '%') return '%'
    if (next >= values.length) throw new StepFailure('printf has fewer values than verbs')
    const value = values[next++]
    if (verb === 'v' || verb === 's' || verb === 'd') return shown(toText(value))
    if (verb === 'q') return shown(JSON.stringify(toText(value)))
    throw new StepFailure(`printf knows no verb %${verb}`)
  })
  return bounded(text)
}

/** Tells whether a value is true as in Go's templates: empty values and zero are false. */
export function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (!isObject(value)) return Boolean(value)
  if (digitsOf(value) !== undefined) return true
  for (const _ in value) return true
  return false
}

/** Returns a value as a template shows it: texts as they are, nothing for missing values, all else as JSON. */
export function toText(value: unknown): string {
  if (typeof value === 'string') return value
  return value === undefined || value === null ? '' : JSON.stringify(value)
}
