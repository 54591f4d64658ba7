import type { Static, TSchema } from 'typebox'
import { isMap, isScalar, isSeq, type Node, type ParsedNode } from 'yaml'
import { stepsOf } from '../../../crds/shared/json.ts'
import { type Check, ConfigError, type Finding, findingLine, jsonOf } from '../load.ts'
import { compile, type Violation } from '../schema-violations.ts'
import { standIn } from '../stand-in.ts'
import { type ConfigSource, readYaml, valueOfYaml } from './yaml.ts'

/**
 * Makes a function that turns a configuration's text (YAML 1.2 or JSON) into its validated value, with the schema's
 * defaults in place. It throws a ConfigError with all findings at once.
 *
 * YAML is read by the 1.2 core schema: `no` in a string's place stays the string that was written. JSON is a subset.
 */
export function configParser<S extends TSchema>(
  schema: S,
  check?: Check<Static<S>>,
): (text: string, file?: string) => Static<S> {
  let compiled: ReturnType<typeof compile> | undefined

  return function parseConfig(text, file) {
    // At the first text: an operator has parsers of what most clusters never have.
    compiled ??= compile(schema)
    const violations = compiled
    const source = { text, file }
    const value = jsonOf(text) ?? valueOfYaml(source)
    const violated = violations(value)
    const findings = [
      ...violated.map(({ pointer, message }) => ({ pointer, message })),
      ...(check === undefined ? [] : acrossFields(value, violated, { violations, check })),
    ]
    if (findings.length > 0) throw new ConfigError(located(findings, source))
    return value as Static<S>
  }
}

interface Rules<T> {
  readonly violations: (value: unknown) => readonly Violation[]
  readonly check: Check<T>
}

/** A stand-in may itself lack required fields, which get stand-ins in the next round; no schema of ours is deeper. */
const ROUNDS = 8

/**
 * Checks the rules across fields of a value that violates its schema. Each value that is missing or of the wrong type is
 * replaced by a stand-in that fits first. Findings at or below a replaced value are left out, and so are those that depend
 * on whether an unknown enum value is kept or replaced by a known one.
 */
function acrossFields<T>(value: unknown, violated: readonly Violation[], rules: Rules<T>): readonly Finding[] {
  const broken = violated.filter(({ isUnknownField }) => !isUnknownField)
  if (broken.length === 0) return rules.check(value as T)
  const asItIs = checkMended(value, broken, ({ isTyped }) => !isTyped, rules)
  if (asItIs.length === 0) return []
  const known = new Set(checkMended(value, broken, () => true, rules).map(findingLine))
  return asItIs.filter(
    (finding) =>
      known.has(findingLine(finding)) && !broken.some(({ pointer }) => `${finding.pointer}/`.startsWith(`${pointer}/`)),
  )
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
    for (const { pointer, wanted } of open) if (!putAt(mended, pointer, standIn(wanted as TSchema))) return []
    open = toReplace(violations(mended))
  }
  try {
    return check(mended as T)
  } catch {
    // A value of the right type that breaks another rule of the schema may be more than the check can take.
    return []
  }
}

/** False where there is no such place: the whole is of the wrong type. */
function putAt(root: unknown, pointer: string, value: unknown): boolean {
  const steps = [...stepsOf(pointer)]
  const last = steps.pop()
  let parent = root
  for (const step of steps) parent = (parent as Record<string, unknown> | undefined)?.[step]
  if (last === undefined || typeof parent !== 'object' || parent === null) return false
  Object.defineProperty(parent, last, { value, writable: true, enumerable: true, configurable: true })
  return true
}

function located(findings: readonly Finding[], { text, file }: ConfigSource): readonly Finding[] {
  const { document, lineAt } = readYaml(text)
  return findings.map(({ pointer, message }) => {
    const offset = offsetOf(document.contents, pointer)
    return {
      pointer,
      message,
      ...(offset === undefined ? {} : { line: lineAt(offset) }),
      ...(file === undefined ? {} : { file }),
    }
  })
}

/** Where the thing at `pointer` is in the text: its key where it has one; its closest parent where it isn't there. */
function offsetOf(root: ParsedNode | null, pointer: string): number | undefined {
  let node: unknown = root
  let offset = root?.range?.[0]
  for (const step of stepsOf(pointer)) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === step)
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
