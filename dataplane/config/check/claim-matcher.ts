import { createRequire } from 'node:module'
import type * as cel from '@marcbachmann/cel-js'
import { isObject } from '../../../crds/settings/json.ts'

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

interface Node {
  readonly op: string
  readonly args: unknown
}

/**
 * Compiles a CEL expression over `claims`. Conditions come from manifests and claims from identity providers, so the
 * language is limited: evaluation time grows with the size of the claims alone. Throws a TypeError with the reason if
 * the expression is not allowed. An expression that can't be evaluated for some claims does not match them.
 */
export function compileClaimMatcher(text: string): ClaimMatcher {
  const program = parse(text)
  checkNode(program.ast as unknown as Node, false)
  const { valid, type, error } = program.check()
  if (!valid) throw new TypeError(firstLine(error))
  if (type !== 'bool' && type !== 'dyn') throw new TypeError(`returns ${type}, but must return bool`)
  return function matchesClaims(claims) {
    try {
      return program({ claims: celValue(claims) }) === true
    } catch {
      return false
    }
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

/** Checks a node. `inLoop`: the node is evaluated for each item of a list, and so may read no other list. */
function checkNode({ op, args }: Node, inLoop: boolean): void {
  if (!OPERATORS.has(op)) throw notAllowed(op)
  if (op === 'id' && args === 'claims' && inLoop) throw notAllowed('claims for each item of a list')
  if (op === 'value' || op === 'id') return
  if (op === 'call' || op === 'rcall') checkCall(op, args as readonly [string, ...unknown[]], inLoop)
  else checkParts(Array.isArray(args) ? args : [args], inLoop)
}

/** A function `[name, operands]`, or a method `[name, receiver, operands]`. */
function checkCall(op: 'call' | 'rcall', [name, ...others]: readonly [string, ...unknown[]], inLoop: boolean): void {
  const isLoop = op === 'rcall' && LOOPS.has(name)
  if (!isLoop && !FUNCTIONS.has(name)) throw notAllowed(`${name}()`)
  if (isLoop && inLoop) throw notAllowed(`${name}() for each item of a list`)
  checkParts(others.slice(0, -1), inLoop)
  checkParts(others.at(-1) as readonly unknown[], inLoop || isLoop)
}

function checkParts(parts: readonly unknown[], inLoop: boolean): void {
  for (const part of parts) if (isNode(part)) checkNode(part, inLoop)
}

const notAllowed = (what: string) => new TypeError(`uses ${what}, which is not allowed here`)

const isNode = (part: unknown): part is Node => isObject(part) && typeof part['op'] === 'string'

/** Converts objects to maps, so that a key such as `constructor` is a key like any other. */
function celValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(celValue)
  return isObject(value) ? new Map(Object.entries(value).map(([key, inner]) => [key, celValue(inner)])) : value
}
