import type { Static, TSchema } from 'typebox'
import { isMap, isScalar, isSeq, type Node, type Pair, type YAMLMap } from 'yaml'
import { splitPointer } from '../../../crds/settings/json.ts'
import type { SchemaNode } from '../../../crds/settings/schema.ts'
import { type Check, ConfigError, type Finding, findingLine, parseJsonObject } from '../load.ts'
import { compile, type Violation } from '../schema-violations.ts'
import { readYaml, valueOfYaml, type YamlText } from './yaml.ts'

/** The schema keywords that this module reads; all of them may be absent. */
interface Shape extends SchemaNode {
  readonly const?: unknown
  readonly anyOf?: readonly Shape[]
  readonly oneOf?: readonly Shape[]
  readonly minItems?: number
}

/** Texts that fit the patterns of our schemas: names, URLs, durations, paths, addresses. */
const TEXTS = ['a', 'https://a.example', '1s', '/a', 'a:1', 'postgres://a', 'a'.repeat(40)]

/**
 * Makes a function that turns a configuration's text into its validated value, with defaults. It throws a ConfigError
 * with all findings. YAML is read by the 1.2 core schema: `no` stays a string.
 */
export function configParser<S extends TSchema>(
  schema: S,
  check?: Check<Static<S>>,
): (text: string, file?: string) => Static<S> {
  let compiled: ReturnType<typeof compile> | undefined

  return function parseConfig(text, file) {
    // The schema is compiled at the first text: an operator has parsers for kinds that most clusters never use.
    compiled ??= compile(schema)
    const violations = compiled
    const json = parseJsonObject(text)
    const yaml = json === undefined ? readYaml(text) : undefined
    const value = yaml === undefined ? json : valueOfYaml(yaml, file)
    const violated = violations(value)
    const findings = [
      ...violated.map(({ pointer, message }) => ({ pointer, message })),
      ...(check === undefined ? [] : acrossFields(value, violated, { violations, check })),
    ]
    if (findings.length > 0) throw new ConfigError(locateFindings(findings, yaml ?? readYaml(text), file))
    return value as Static<S>
  }
}

interface Rules<T> {
  readonly violations: (value: unknown) => readonly Violation[]
  readonly check: Check<T>
}

/** A stand-in may itself lack required fields, which get stand-ins in the next round. None of our schemas is deeper. */
const ROUNDS = 8

/**
 * Checks the rules across fields of a value that violates its schema, with stand-ins for missing and wrong values.
 * Findings that depend on a stand-in are left out.
 */
function acrossFields<T>(value: unknown, violated: readonly Violation[], rules: Rules<T>): readonly Finding[] {
  const broken = violated.filter(({ isUnknownField }) => !isUnknownField)
  if (broken.length === 0) return rules.check(value as T)
  const asItIs = checkMended(value, broken, ({ isTyped }) => !isTyped, rules)
  if (asItIs.length === 0) return []
  const known = new Set(checkMended(value, broken, () => true, rules).map(findingLine))
  const replaced = new Set(broken.map(({ pointer }) => pointer))
  return asItIs.filter((finding) => known.has(findingLine(finding)) && !isWithin(finding.pointer, replaced))
}

/** Tells whether a set of pointers contains a pointer or one above it. */
function isWithin(pointer: string, others: ReadonlySet<string>): boolean {
  for (let end = pointer.length; end >= 0; end = end === 0 ? -1 : pointer.lastIndexOf('/', end - 1))
    if (others.has(pointer.slice(0, end))) return true
  return false
}

function checkMended<T>(
  value: unknown,
  broken: readonly Violation[],
  isReplaced: (violation: Violation) => boolean,
  { violations, check }: Rules<T>,
): readonly Finding[] {
  const toReplace = (all: readonly Violation[]) => all.filter((one) => one.wanted !== undefined && isReplaced(one))
  const mended: unknown = structuredClone(value)
  for (let round = 0, open = toReplace(broken); round < ROUNDS && open.length > 0; round++) {
    for (const { pointer, wanted } of open) if (!putAt(mended, pointer, standIn(wanted as Shape))) return []
    open = toReplace(violations(mended))
  }
  try {
    return check(mended as T)
  } catch {
    // A value of the right type that breaks another rule of the schema may be too much for the check.
    return []
  }
}

/** Puts a value at a pointer. Returns false if there is no such place: the whole value is of the wrong type. */
function putAt(root: unknown, pointer: string, value: unknown): boolean {
  const steps = [...splitPointer(pointer)]
  const last = steps.pop()
  let parent = root
  for (const step of steps) parent = (parent as Record<string, unknown> | undefined)?.[step]
  if (last === undefined || typeof parent !== 'object' || parent === null) return false
  Object.defineProperty(parent, last, { value, writable: true, enumerable: true, configurable: true })
  return true
}

function locateFindings(
  findings: readonly Finding[],
  { document, lineAt }: YamlText,
  file: string | undefined,
): readonly Finding[] {
  const known: Pairs = new Map()
  return findings.map(({ pointer, message }) => {
    const offset = findOffset(document.contents, pointer, known)
    return {
      pointer,
      message,
      ...(offset === undefined ? {} : { line: lineAt(offset) }),
      ...(file === undefined ? {} : { file }),
    }
  })
}

/** The pairs of the visited maps, by key: a text may have as many findings as keys. */
type Pairs = Map<YAMLMap, ReadonlyMap<string, Pair>>

function readPairs(map: YAMLMap, known: Pairs): ReadonlyMap<string, Pair> {
  let pairs = known.get(map)
  if (pairs === undefined) {
    pairs = new Map(map.items.flatMap((pair) => (isScalar(pair.key) ? [[String(pair.key.value), pair]] : [])))
    known.set(map, pairs)
  }
  return pairs
}

/** Returns the offset of `pointer` in the text: of its key, or of its closest parent. */
function findOffset(root: Node | null, pointer: string, known: Pairs): number | undefined {
  let node: unknown = root
  let offset = root?.range?.[0]
  for (const step of splitPointer(pointer)) {
    if (isMap(node)) {
      const pair = readPairs(node, known).get(step)
      if (pair === undefined) break
      offset = (pair.key as Node).range?.[0] ?? offset
      node = pair.value
    } else if (isSeq(node)) {
      node = node.items[Number(step)]
      offset = (node as Node | undefined)?.range?.[0] ?? offset
    } else break
  }
  return offset
}

/** Makes a small value of a schema, in place of one that is missing or of the wrong type. */
function standIn(shape: Shape): unknown {
  if (shape.default !== undefined) return structuredClone(shape.default)
  if (shape.const !== undefined) return shape.const
  if (shape.enum !== undefined) return shape.enum[0]
  const [member] = shape.anyOf ?? shape.oneOf ?? []
  if (member !== undefined) return standIn(member)
  switch (shape.type) {
    case 'object':
      return Object.fromEntries((shape.required ?? []).map((name) => [name, standIn(shape.properties?.[name] ?? {})]))
    case 'array':
      return Array.from({ length: shape.minItems ?? 0 }, () => standIn(shape.items ?? {}))
    case 'integer':
    case 'number':
      return shape.minimum ?? 0
    case 'boolean':
      return false
    default: {
      const pattern = new RegExp(shape.pattern ?? '', 'u')
      return TEXTS.find((text) => pattern.test(text)) ?? ''
    }
  }
}
