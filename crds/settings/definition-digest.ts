import { hash } from 'node:crypto'

/**
 * Digests of what an MCP server shows: definitions of tools, prompts, resources and templates, instructions, and pages
 * of apps. The formula is version 1 of the tool definition hash (GautamTalksDev/mcp-pin, docs/TOOL_DEFINITION_HASH.md):
 * SHA-256 over the canonical form of RFC 8785. The prefix `sha256:` stands for this formula.
 */

/** The form of a digest, as a pattern of JSON Schema. */
export const DIGEST_PATTERN = '^sha256:[0-9a-f]{64}$'

/** The deepest nesting of objects and lists in a definition that has a digest. */
const DEEPEST = 64

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const SPACE = 0x20
const BACKSLASH = 0x5c
const BRACKET = 0x5b
const BRACKET_END = 0x5d
const BRACE = 0x7b
const BRACE_END = 0x7d

/**
 * Returns the digest of a definition by its JSON text as the server sent it; undefined if no digest can stand for it:
 * it repeats a member name, is nested deeper than 64, holds a number that no double can hold, or is not JSON.
 */
export function definitionDigest(text: string): string | undefined {
  const canonical = canonicalDefinition(text)
  return canonical === undefined ? undefined : digestOfText(canonical)
}

/** Returns the digest of a server's instructions: of their UTF-8 bytes, unchanged. */
export const instructionsDigest = (instructions: string): string => digestOfText(instructions)

/**
 * Returns the digest of an app's page by the JSON text of `contents` in the result of `resources/read`, so that it
 * covers `_meta.ui` too (SEP-1865: what the read says wins over the list); undefined as for a definition.
 */
export const pageDigest = (contents: string): string | undefined => definitionDigest(contents)

/**
 * Returns the digest of a whole list of definitions (JSON texts), in any order; undefined if one of them has no digest
 * or no name.
 */
export function setDigest(definitions: readonly string[]): string | undefined {
  const lines: { readonly name: string; readonly hash: string }[] = []
  for (const text of definitions) {
    const digest = definitionDigest(text)
    const name: unknown =
      digest === undefined ? undefined : (JSON.parse(text) as { readonly name?: unknown } | null)?.name
    if (digest === undefined || typeof name !== 'string') return undefined
    lines.push({ name, hash: digest.slice(PREFIX.length) })
  }
  lines.sort((a, b) => compare(a.name, b.name) || compare(a.hash, b.hash))
  return digestOfText(lines.map((line) => `${line.name}:${line.hash}`).join('\n'))
}

const PREFIX = 'sha256:'
const digestOfText = (text: string): string => PREFIX + hash('sha256', text)

/** Compares by UTF-16 code units (RFC 8785 section 3.2.3). */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/**
 * Converts JSON text to the canonical form of RFC 8785; undefined if it has none (see `definitionDigest`). It reads the
 * text and not a parsed value, because a parser drops repeated members. Takes linear time except for sorting names.
 */
export function canonicalDefinition(text: string): string | undefined {
  if (!isJson(text)) return undefined
  const writer = new CanonicalWriter()
  const isWellFormed = text.isWellFormed()
  for (let at = 0; at < text.length; ) {
    const end = tokenEnd(text, at)
    const token = text.slice(at, end)
    if (!writer.add(token, isWellFormed && !token.includes('\\'))) return undefined
    at = end
  }
  return writer.whole
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Returns the index behind the token of valid JSON text that begins at `at`. */
function tokenEnd(text: string, at: number): number {
  const code = text.charCodeAt(at)
  if (code === QUOTE) return stringEnd(text, at)
  return isMark(code) ? at + 1 : scalarEnd(text, at)
}

const isMark = (code: number): boolean =>
  code <= SPACE ||
  code === COMMA ||
  code === COLON ||
  code === BRACE ||
  code === BRACE_END ||
  code === BRACKET ||
  code === BRACKET_END

/** Returns the index behind the string that opens at `at` in valid JSON text. */
function stringEnd(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  for (;;) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return end + 1
    end = text.indexOf('"', end + 1)
  }
}

/** Returns the index behind the number or literal that begins at `at`. */
function scalarEnd(text: string, at: number): number {
  let end = at + 1
  for (; end < text.length; end++) {
    if (isMark(text.charCodeAt(end))) break
  }
  return end
}

/** Writes a number as ECMAScript does (RFC 8785 section 3.2.2.3), and a literal unchanged. */
function scalarText(written: string): string | undefined {
  if (written === 'true' || written === 'false' || written === 'null') return written
  const value = Number(written)
  return Number.isFinite(value) ? String(value) : undefined
}

interface Member {
  readonly name: string
  /** The name as JSON text. */
  readonly key: string
  value: string
}

/** An object or list whose end has not been reached. */
interface Open {
  /** The members of an object; undefined in a list. */
  readonly members: Member[] | undefined
  /** The elements of a list, joined. */
  elements: string
  /** True if the last member has no value yet. */
  awaitsValue: boolean
}

/** Builds the canonical form. Texts are joined without a copy, so that depth does not multiply the work. */
class CanonicalWriter {
  whole: string | undefined
  readonly #open: Open[] = []

  /**
   * Adds the next token. `isPlain`: its text has no escapes and needs none. Returns false if there is no canonical form.
   */
  add(token: string, isPlain: boolean): boolean {
    const code = token.charCodeAt(0)
    if (code === BRACE || code === BRACKET) return this.#opened(code === BRACE)
    if (code === BRACE_END || code === BRACKET_END) return this.#closed()
    if (isMark(code)) return true
    if (code !== QUOTE) return this.#scalar(token)
    if (isPlain) this.#string(token.slice(1, -1), token)
    else this.#string(JSON.parse(token) as string)
    return true
  }

  #scalar(token: string): boolean {
    const text = scalarText(token)
    if (text !== undefined) this.#value(text)
    return text !== undefined
  }

  /** Opens an object or a list. Returns false if it is too deep. */
  #opened(isObject: boolean): boolean {
    this.#open.push({ members: isObject ? [] : undefined, elements: '', awaitsValue: false })
    return this.#open.length <= DEEPEST
  }

  /** Closes the innermost object or list. Returns false if a member is repeated in it. */
  #closed(): boolean {
    const { members, elements } = this.#open.pop() as Open
    const text = members === undefined ? `[${elements}]` : objectText(members)
    if (text === undefined) return false
    this.#value(text)
    return true
  }

  /** Adds a string: a name or a value. `key` is its canonical text, if known. */
  #string(value: string, key: string = JSON.stringify(value)): void {
    const around = this.#open.at(-1)
    if (around?.members === undefined || around.awaitsValue) this.#value(key)
    else {
      around.members.push({ name: value, key, value: '' })
      around.awaitsValue = true
    }
  }

  /** Adds the canonical text of a value. */
  #value(text: string): void {
    const around = this.#open.at(-1)
    if (around === undefined) this.whole = text
    else if (around.members === undefined) around.elements += around.elements === '' ? text : `,${text}`
    else {
      const member = around.members.at(-1) as Member
      member.value = text
      around.awaitsValue = false
    }
  }
}

/** Returns the text of an object in the order of its names; undefined if a name is repeated. */
function objectText(members: Member[]): string | undefined {
  members.sort((a, b) => compare(a.name, b.name))
  let text = ''
  let last: string | undefined
  for (const { name, key, value } of members) {
    if (name === last) return undefined
    last = name
    text += text === '' ? `${key}:${value}` : `,${key}:${value}`
  }
  return `{${text}}`
}
