/** Checks objects like the API server: their structure, and `x-kubernetes-validations` on values with defaults. */
import { Environment } from '@marcbachmann/cel-js'
import { applyDefaults } from './defaults.ts'
import { formatApiVersion, type KindDeclaration, rootRules } from './define.ts'
import { findKind, kinds } from './kinds/index.ts'
import { closest } from './settings/closest.ts'
import { at, isObject, memoize } from './settings/json.ts'
import type { CelRule } from './settings/schema.ts'
import { compileStructure, type Finding } from './structure.ts'
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
const brokenRules = (rules: readonly CelRule[], self: unknown): CelRule[] => rules.filter((rule) => !holds(rule, self))

interface RuleVisitor {
  /** Tells whether the rules of the value at this pointer are skipped, because its structure is already wrong. */
  skip(pointer: string): boolean
  broken(pointer: string, rule: CelRule): void
}

/** Evaluates every rule of a schema on a value (made by `celValue`) and calls back for each that does not hold. */
function eachBrokenRule(node: SchemaNode, value: unknown, pointer: string, visitor: RuleVisitor): void {
  const rules = node['x-kubernetes-validations']
  if (rules && !visitor.skip(pointer)) for (const rule of brokenRules(rules, value)) visitor.broken(pointer, rule)
  const descend = (child: SchemaNode | undefined, inner: unknown, step: string | number) => {
    if (child) eachBrokenRule(child, inner, at(pointer, step), visitor)
  }
  if (Array.isArray(value)) for (const [index, item] of value.entries()) descend(node.items, item, index)
  else if (value instanceof Map) for (const [key, inner] of value) descend(childSchema(node, key), inner, key)
}

/** Returns the compiled validator, made at the first use of a schema. A command that validates nothing compiles none. */
const structureCheck = memoize(compileStructure)

/** Returns the pointers of findings and of everything around them. An author may make thousands of mistakes. */
function placesAround(findings: readonly Finding[]): ReadonlySet<string> {
  const places = new Set<string>()
  for (const { pointer } of findings)
    for (let place = pointer; !places.has(place); place = place.slice(0, Math.max(place.lastIndexOf('/'), 0)))
      places.add(place)
  return places
}

/** Checks the structure first, then the rules of every part with a valid structure. */
function checkPart(schema: SchemaNode, value: unknown, pointer: string): Finding[] {
  const structural = structureCheck(schema)(value).map((finding) => ({
    ...finding,
    pointer: pointer + finding.pointer,
  }))
  const wrong = placesAround(structural.filter(({ unknownField }) => !unknownField))
  const findings: Finding[] = structural.map(({ unknownField: _, ...finding }) => finding)
  eachBrokenRule(schema, celValue(schema, value), pointer, {
    skip: (place) => wrong.has(place),
    broken: (place, { message }) => findings.push({ pointer: place, message }),
  })
  return findings
}

function checkRoot(declaration: KindDeclaration, object: Record<string, unknown>): Finding[] {
  const rules: readonly CelRule[] = rootRules(declaration)
  const metadata = isObject(object['metadata']) ? object['metadata'] : {}
  if (rules.length === 0 || typeof metadata['name'] !== 'string') return []
  return brokenRules(rules, celValue(undefined, { metadata })).map(({ message }) => ({
    pointer: '/metadata/name',
    message,
  }))
}

const byPointer = (one: Finding, other: Finding) =>
  one.pointer === other.pointer ? 0 : one.pointer < other.pointer ? -1 : 1

function unknownKind(kind: unknown): Finding {
  const meant = typeof kind === 'string' ? closest(kind, Object.keys(kinds)) : undefined
  return { pointer: '/kind', message: meant ? `unknown kind; did you mean ${meant}?` : 'unknown kind' }
}

/**
 * Validates an object of any shape against its schema and CEL rules, with defaults. Of `metadata` only the name is
 * checked, `status` not at all. Returns findings with JSON pointers, sorted.
 */
export function validateObject(object: unknown, group: string): Finding[] {
  if (!isObject(object)) return [{ pointer: '', message: 'must be an object' }]
  const declaration = typeof object['kind'] === 'string' ? findKind(object['kind']) : undefined
  if (!declaration) return [unknownKind(object['kind'])]
  const findings: Finding[] = []
  const apiVersion = formatApiVersion(group)
  if (object['apiVersion'] !== apiVersion) findings.push({ pointer: '/apiVersion', message: `must be ${apiVersion}` })
  for (const field of Object.keys(object)) {
    if (!['apiVersion', 'kind', 'metadata', 'spec', 'status'].includes(field)) {
      findings.push({ pointer: at('', field), message: 'unknown field' })
    }
  }
  findings.push(...checkRoot(declaration, object))
  const { spec } = applyDefaults(declaration, object)
  if (spec === undefined || spec === null) findings.push({ pointer: '/spec', message: 'is required' })
  else findings.push(...checkPart(declaration.spec as SchemaNode, spec, '/spec'))
  return findings.sort(byPointer)
}

/** Validates a status of this kind against its schema. */
export const validateStatus = (declaration: KindDeclaration, status: unknown): Finding[] =>
  checkPart(declaration.status as SchemaNode, status, '/status').sort(byPointer)
