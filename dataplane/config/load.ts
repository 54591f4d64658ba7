import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Static, TSchema } from 'typebox'
import { isMap, isScalar, isSeq, LineCounter, type Node, type ParsedNode, parseDocument } from 'yaml'
import { unescapeStep } from './pointer.ts'
import { compile } from './schema-violations.ts'

/** One thing that is wrong in a file. `line` counts from 1; `pointer` is a JSON pointer (RFC 6901), empty for the whole. */
export interface Finding {
  readonly pointer: string
  readonly message: string
  readonly line?: number
  readonly file?: string
}

/** A file that won't do, with everything that is wrong in it; the message has one line for each finding. */
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

/** Cross-field rules: what a schema can't say. Sees what the schema has accepted, but for fields that it doesn't know. */
export type Check<T> = (config: T) => readonly Finding[]

/** What is in one file at one time. */
export interface ConfigText {
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
    // A field too many leaves the others as their types say: the rules that lie across fields hold or break as well.
    const isTyped = violated.every(({ isUnknownField }) => isUnknownField)
    const findings = [
      ...violated.map(({ pointer, message }) => ({ pointer, message })),
      ...(isTyped ? (check?.(value as Static<S>) ?? []) : []),
    ]
    if (findings.length > 0) throw new ConfigError(located(findings, source))
    return value as Static<S>
  }
}

/** Loads and validates a configuration file. Throws a ConfigError with all findings at once. */
export async function loadConfig<S extends TSchema>(
  file: string,
  schema: S,
  check?: Check<Static<S>>,
): Promise<Loaded<Static<S>>> {
  const { text, hash } = await readConfigText(file)
  return { config: configParser(schema, check)(text, file), hash, directory: dirname(resolve(file)) }
}

interface Source {
  readonly text: string
  readonly file: string | undefined
}

/** Measured: 800 kB of JSON take 10 ms here, the YAML reader half a second, in which nobody would be served. */
function jsonOf(text: string): unknown {
  if (!/^\s*\{/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function yamlOf({ text, file }: Source): unknown {
  const { document, lineAt } = read(text)
  const refuse = (findings: readonly Finding[]) =>
    new ConfigError(file === undefined ? findings : findings.map((finding) => ({ ...finding, file })))
  if (document.errors.length > 0)
    throw refuse(document.errors.map(({ message, pos }) => ({ pointer: '', message, line: lineAt(pos[0]) })))
  if (document.contents === null) throw refuse([{ pointer: '', message: 'the file is empty' }])
  try {
    return document.toJS()
  } catch (error) {
    // An alias that multiplies without end, or one that names nothing.
    throw refuse([{ pointer: '', message: (error as Error).message }])
  }
}

function located(findings: readonly Finding[], { text, file }: Source): readonly Finding[] {
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
  for (const step of pointer.split('/').slice(1).map(unescapeStep)) {
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
