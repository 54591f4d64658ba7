import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Static, TSchema } from 'typebox'
import { isMap, isScalar, isSeq, LineCounter, type Node, type ParsedNode, parseDocument } from 'yaml'
import { stepsOf } from '../../crds/shared/json.ts'
import { compile, type Violation } from './schema-violations.ts'
import { standIn } from './stand-in.ts'

/** One thing that is wrong in a file. `line` counts from 1; `pointer` is a JSON pointer (RFC 6901), empty for the whole. */
export interface Finding {
  readonly pointer: string
  readonly message: string
  readonly line?: number
  readonly file?: string
}

/** An invalid file, with everything that is wrong in it; the message has one line for each finding. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly findings: readonly Finding[]

  constructor(findings: readonly Finding[]) {
    super(findings.map(findingLine).join('\n'))
    this.findings = findings
  }
}

/** `file:line: pointer: message`, without the parts that are not known. */
export function findingLine(finding: Finding): string {
  const place = [finding.file, finding.line].filter((part) => part !== undefined).join(':')
  return [place, finding.pointer, finding.message].filter((part) => part !== '').join(': ')
}

export interface Loaded<T> {
  readonly config: T
  /** `sha256:` and the hex digest of the file's bytes. */
  readonly hash: string
  /** Absolute path of the file's folder, as it was named: symbolic links are not resolved. */
  readonly directory: string
}

/** Rules across fields, which a schema can't express. Called with values that the schema accepts, unknown fields aside. */
export type Check<T> = (config: T) => readonly Finding[]

/** The content of a file at one time. */
interface ConfigText {
  readonly text: string
  readonly hash: string
}

/** Reads the bytes and their hash. Throws a ConfigError where the file can't be read. */
export async function readConfigText(file: string): Promise<ConfigText> {
  try {
    const bytes = await readFile(file)
    return { text: bytes.toString('utf8'), hash: `sha256:${createHash('sha256').update(bytes).digest('hex')}` }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    const message = code === 'ENOENT' ? 'there is no such file' : `can’t be read (${code})`
    throw new ConfigError([{ pointer: '', message, file }])
  }
}

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
  const violations = compile(schema)

  return function parseConfig(text, file) {
    const source = { text, file }
    const value = jsonOf(text) ?? yamlOf(source)
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

interface ConfigSource {
  readonly text: string
  readonly file: string | undefined
}

/** Measured: 800 kB take 10 ms as JSON and half a second as YAML, during which no request would be served. */
function jsonOf(text: string): unknown {
  if (!/^\s*\{/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function yamlOf({ text, file }: ConfigSource): unknown {
  const { document, lineAt } = read(text)
  const refuse = (findings: readonly Finding[]) =>
    new ConfigError(file === undefined ? findings : findings.map((finding) => ({ ...finding, file })))
  if (document.errors.length > 0)
    throw refuse(document.errors.map(({ message, pos }) => ({ pointer: '', message, line: lineAt(pos[0]) })))
  if (document.contents === null) throw refuse([{ pointer: '', message: 'the file is empty' }])
  try {
    return document.toJS()
  } catch (error) {
    // An alias that expands without end, or that refers to no anchor.
    throw refuse([{ pointer: '', message: (error as Error).message }])
  }
}

function located(findings: readonly Finding[], { text, file }: ConfigSource): readonly Finding[] {
  const { document, lineAt } = read(text)
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

function read(text: string) {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false })
  return { document, lineAt: (offset: number) => lines.linePos(offset).line }
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
