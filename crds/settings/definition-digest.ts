import { hash } from 'node:crypto'

/**
 * Digests of definitions of tools, prompts, resources and templates, instructions, and pages of apps, by version 1 of
 * the tool definition hash (GautamTalksDev/mcp-pin, docs/TOOL_DEFINITION_HASH.md): SHA-256 over the canonical form of
 * RFC 8785. The prefix `sha256:` stands for it.
 */

/** The form of a digest, as a pattern of JSON Schema. */
export const DIGEST_PATTERN = '^sha256:[0-9a-f]{64}$'

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
 * Returns the digest of a definition's JSON text as the server sent it; undefined if it repeats a member name, is
 * nested deeper than 64, holds a number that no double can hold, or is not JSON.
 */
export function definitionDigest(text: string): string | undefined {
  const canonical = canonicalDefinition(text)
  return canonical === undefined ? undefined : digestText(canonical)
}

/** Returns the digest of a server's instructions: of their UTF-8 bytes, unchanged. */
export const instructionsDigest = (instructions: string): string => digestText(instructions)

/**
 * Returns the digest of an app's page by `contents` of `resources/read`, so that it covers `_meta.ui` too (SEP-1865).
 */
export const pageDigest = (contents: string): string | undefined => definitionDigest(contents)

/** Returns the digest of a list of definitions in any order; undefined if one has no digest or no name. */
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
  return digestText(lines.map((line) => `${line.name}:${line.hash}`).join('\n'))
}

const PREFIX = 'sha256:'
const digestText = (text: string): string => PREFIX + hash('sha256', text)

/** Compares by UTF-16 code units (RFC 8785 section 3.2.3). */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/**
 * Converts JSON text to the canonical form of RFC 8785; undefined if it has none. It reads the text, because a parser
 * drops repeated members. Linear time except for sorting names.
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

function stringEnd(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  for (;;) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return end + 1
    end = text.indexOf('"', end + 1)
  }
}

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
  readonly key: string
  value: string
}

interface Open {
  readonly members: Member[] | undefined
  elements: string
  awaitsValue: boolean
}

/** Builds the canonical form. Texts are joined without a copy, so that depth does not multiply the work. */
class CanonicalWriter {
  whole: string | undefined
  readonly #open: Open[] = []

  /** Adds the next token. `isPlain`: it needs no escapes. Returns false if there is no canonical form. */
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

  #opened(isObject: boolean): boolean {
    this.#open.push({ members: isObject ? [] : undefined, elements: '', awaitsValue: false })
    return this.#open.length <= DEEPEST
  }

  #closed(): boolean {
    const { members, elements } = this.#open.pop() as Open
    const text = members === undefined ? `[${elements}]` : objectText(members)
    if (text === undefined) return false
    this.#value(text)
    return true
  }

  #string(value: string, key: string = JSON.stringify(value)): void {
    const around = this.#open.at(-1)
    if (around?.members === undefined || around.awaitsValue) this.#value(key)
    else {
      around.members.push({ name: value, key, value: '' })
      around.awaitsValue = true
    }
  }

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
