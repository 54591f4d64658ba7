import { createRequire } from 'node:module'
import type * as cel from '@marcbachmann/cel-js'
import { isObject } from '../../../crds/settings/json.ts'
import type { Finding } from '../load.ts'
import { unusable } from './lists.ts'

/** Tells whether verified claims fulfil a condition. */
export type ClaimMatcher = (claims: Readonly<Record<string, unknown>>) => boolean

const PACKAGE = '@marcbachmann/cel-js'
const require = createRequire(import.meta.url)

let made: cel.Environment | undefined
/** Loads the environment with the first condition: most gateways have none. */
function environment(): cel.Environment {
  if (made !== undefined) return made
  const { Environment } = require(PACKAGE) as typeof cel
  made = new Environment({ limits: { maxAstNodes: 256, maxDepth: 32 } }).registerVariable('claims', 'map')
  return made
}

const OPERATORS = new Set([
  ...['value', 'id', '.', '[]', 'call', 'rcall', 'list', '?:', '||', '&&', '!_'],
  ...['==', '!=', '<', '<=', '>', '>=', 'in'],
])
/** Functions whose time is at most linear in their input, and whose result is no larger than the input. */
const FUNCTIONS = new Set(['has', 'size', 'startsWith', 'endsWith', 'contains', 'lowerAscii', 'upperAscii', 'trim'])
/** Functions that evaluate their second argument for each item of a list. */
const LOOPS = new Set(['exists', 'all', 'exists_one'])

/** Operators that never fail by themselves, so that they cost little in a loop: an error takes 8 to 20 µs. */
const CHEAP = new Set(['value', 'id', 'list', '==', '!='])
/** The same if their operands are conditions. */
const LOGIC = new Set(['||', '&&', '!_', '?:'])
const MAYBE_NO_CONDITION = new Set(['value', 'id', '.', '[]'])
const COSTLY = 100
/** The most that all loops of an expression may cost for the longest list: 10,000 operations that may fail. */
const MOST_COST = 1_000_000
/** Looking for one text of the claims in another takes time by the product of their lengths. */
const LONGEST_SEARCHED = 4_096

interface Node {
  readonly op: string
  readonly args: unknown
}

interface Cost {
  /** The cost of all loops together, for each item of a list. */
  ofItem: number
  /** Tells whether texts are looked for that may come from the claims. */
  isSearching: boolean
}

/**
 * Compiles a CEL expression over `claims`. The language is limited: evaluation time grows only with the size of the
 * claims. Throws a TypeError if the expression is not allowed. An expression that fails for some claims does not match
 * them, nor claims with too long lists or texts.
 */
export function compileClaimMatcher(text: string): ClaimMatcher {
  const program = parse(text)
  const cost: Cost = { ofItem: 0, isSearching: false }
  checkNode(program.ast as unknown as Node, { inLoop: false, cost })
  const { valid, type, error } = program.check()
  if (!valid) throw new TypeError(firstLine(error))
  if (type !== 'bool' && type !== 'dyn') throw new TypeError(`returns ${type}, but must return bool`)
  return function matchesClaims(claims) {
    try {
      const { value, longestList, longestText } = converted(claims)
      if (cost.ofItem * longestList > MOST_COST || (cost.isSearching && longestText > LONGEST_SEARCHED)) return false
      return withoutStacks(() => program({ claims: value })) === true
    } catch {
      return false
    }
  }
}

/** Checks an expression; absent: there is none. */
export const matcherFindings = (text: string | undefined, pointer: string): Iterable<Finding> =>
  text === undefined ? [] : unusable(() => compileClaimMatcher(text), pointer, UNUSABLE)

export const UNUSABLE = 'can’t be used: '

/** Runs a function whose errors have no stack: a condition over a long list may fail for each item of it. */
function withoutStacks<T>(run: () => T): T {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return run()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

function parse(text: string) {
  try {
    return environment().parse(text)
  } catch (error) {
    throw new TypeError(firstLine(error))
  }
}

const firstLine = (error: unknown) => (error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error))

interface Place {
  readonly inLoop: boolean
  readonly cost: Cost
}

function checkNode({ op, args }: Node, place: Place): void {
  if (!OPERATORS.has(op)) throw notAllowed(op)
  if (op === 'id' && args === 'claims' && place.inLoop) throw notAllowed('claims for each item of a list')
  if (place.inLoop) place.cost.ofItem += isCheap(op, args) ? 1 : COSTLY
  if (op === 'value' || op === 'id') return
  if (op === 'call' || op === 'rcall') checkCall(op, args as readonly [string, ...unknown[]], place)
  else checkParts(Array.isArray(args) ? args : [args], place)
}

function isCheap(op: string, args: unknown): boolean {
  if (!LOGIC.has(op)) return CHEAP.has(op)
  return [args].flat().every((part) => !isNode(part) || !MAYBE_NO_CONDITION.has(part.op))
}

/** A function `[name, operands]`, or a method `[name, receiver, operands]`. */
function checkCall(op: 'call' | 'rcall', [name, ...others]: readonly [string, ...unknown[]], place: Place): void {
  const isLoop = op === 'rcall' && LOOPS.has(name)
  if (!isLoop && !FUNCTIONS.has(name)) throw notAllowed(`${name}()`)
  if (isLoop && place.inLoop) throw notAllowed(`${name}() for each item of a list`)
  const operands = others.at(-1) as readonly unknown[]
  if (name === 'contains' && !operands.every((part) => isNode(part) && part.op === 'value'))
    place.cost.isSearching = true
  checkParts(others.slice(0, -1), place)
  checkParts(operands, { ...place, inLoop: place.inLoop || isLoop })
}

function checkParts(parts: readonly unknown[], place: Place): void {
  for (const part of parts) if (isNode(part)) checkNode(part, place)
}

const notAllowed = (what: string) => new TypeError(`uses ${what}, which is not allowed here`)

const isNode = (part: unknown): part is Node => isObject(part) && typeof part['op'] === 'string'

interface Converted {
  readonly value: unknown
  longestList: number
  longestText: number
}

/** The claims that were converted last: all rules of an issuer are asked about the same ones. */
let latest: { readonly of: WeakRef<object>; readonly as: Converted } | undefined

function converted(claims: Readonly<Record<string, unknown>>): Converted {
  if (latest?.of.deref() === claims) return latest.as
  const sizes = { longestList: 0, longestText: 0 }
  const as = { value: celValue(claims, sizes), ...sizes }
  latest = { of: new WeakRef(claims), as }
  return as
}

/** Converts objects to maps, so that a key such as `constructor` is a key like any other. */
function celValue(value: unknown, sizes: Pick<Converted, 'longestList' | 'longestText'>): unknown {
  if (typeof value === 'string') sizes.longestText = Math.max(sizes.longestText, value.length)
  if (Array.isArray(value)) {
    sizes.longestList = Math.max(sizes.longestList, value.length)
    return value.map((item) => celValue(item, sizes))
  }
  if (!isObject(value)) return value
  const entries = Object.entries(value)
  sizes.longestList = Math.max(sizes.longestList, entries.length)
  return new Map(entries.map(([key, inner]) => [key, celValue(inner, sizes)]))
}
