import { isObject } from '../../../crds/settings/json.ts'
import { isSpace } from '../../server/json-lexer.ts'

/**
 * Reads JSON text without building values, so that relayed text stays unchanged: integers beyond 2^53, number
 * spellings, member order. It never throws and never loops on malformed text.
 */

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c

/** Copies a text, because a slice would keep the whole original text in memory. */
export const detach = (text: string): string => Buffer.from(text).toString()

export function skipSpace(text: string, at: number): number {
  let index = at
  while (index < text.length && isSpace(text.charCodeAt(index))) index++
  return index
}

/** Returns the index after the string that begins at `at`, or -1 if it does not end. */
export function skipString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  while (end !== -1) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return end + 1
    end = text.indexOf('"', end + 1)
  }
  return -1
}

/** Returns the index after the value that begins at `at`, or -1 if it does not end. */
export function skipValue(text: string, at: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return skipString(text, at)
  return first === 0x7b || first === 0x5b ? skipNested(text, at) : skipScalar(text, at)
}

function skipScalar(text: string, at: number): number {
  let index = at
  while (index < text.length) {
    const code = text.charCodeAt(index)
    if (code === COMMA || code === 0x7d || code === 0x5d || isSpace(code)) break
    index++
  }
  return index === at ? -1 : index
}

function skipNested(text: string, at: number): number {
  let depth = 0
  let index = at
  while (index < text.length) {
    const code = text.charCodeAt(index)
    if (code === QUOTE) {
      index = skipString(text, index)
      if (index === -1) return -1
      continue
    }
    if (code === 0x7b || code === 0x5b) depth++
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return index + 1
    index++
  }
  return -1
}

/**
 * Iterates over the members of one object: `while (members.next()) …`. After the last one, or if the text is malformed,
 * `next` returns false; `end` is then the index after the closing brace, or -1.
 */
export class Members {
  readonly text: string
  /** The decoded name of the member. */
  key = ''
  keyStart = 0
  valueStart = 0
  valueEnd = 0
  end = -1
  #at: number

  /** @param at the index of the opening brace */
  constructor(text: string, at: number) {
    this.text = text
    this.#at = text.charCodeAt(at) === 0x7b ? at + 1 : -1
  }

  next(): boolean {
    if (this.#at === -1) return false
    const { text } = this
    let at = skipSpace(text, this.#at)
    this.#at = -1
    if (text.charCodeAt(at) === 0x7d) {
      this.end = at + 1
      return false
    }
    if (text.charCodeAt(at) !== QUOTE) return false
    const keyEnd = skipString(text, at)
    if (keyEnd === -1) return false
    this.keyStart = at
    const raw = text.slice(at + 1, keyEnd - 1)
    this.key = raw.includes('\\') ? decodeName(raw) : raw
    at = skipSpace(text, keyEnd)
    if (text.charCodeAt(at) !== COLON) return false
    this.valueStart = skipSpace(text, at + 1)
    this.valueEnd = skipValue(text, this.valueStart)
    if (this.valueEnd === -1) return false
    at = skipSpace(text, this.valueEnd)
    if (text.charCodeAt(at) === COMMA) this.#at = at + 1
    else if (text.charCodeAt(at) === 0x7d) this.#at = at
    else return false
    return true
  }

  /** The original text of the member's value. */
  get value(): string {
    return this.text.slice(this.valueStart, this.valueEnd)
  }
}

/**
 * Iterates over the elements of one array: `while (elements.next()) …`. After the last one, or if the text is
 * malformed, `next` returns false; `end` is then the index after the closing bracket, or -1.
 */
export class Elements {
  readonly text: string
  valueStart = 0
  valueEnd = 0
  end = -1
  #at: number

  /** @param at the index of the opening bracket */
  constructor(text: string, at: number) {
    this.text = text
    this.#at = text.charCodeAt(at) === 0x5b ? at + 1 : -1
  }

  next(): boolean {
    if (this.#at === -1) return false
    this.valueStart = skipSpace(this.text, this.#at)
    this.#at = -1
    if (this.text.charCodeAt(this.valueStart) === 0x5d) {
      this.end = this.valueStart + 1
      return false
    }
    this.valueEnd = skipValue(this.text, this.valueStart)
    if (this.valueEnd === -1) return false
    const at = skipSpace(this.text, this.valueEnd)
    if (this.text.charCodeAt(at) === COMMA) this.#at = at + 1
    else if (this.text.charCodeAt(at) === 0x5d) this.end = at + 1
    return true
  }

  /** The original text of the element. */
  get value(): string {
    return this.text.slice(this.valueStart, this.valueEnd)
  }
}

/** Returns the text of the member `name` of an object (JSON text), or undefined. */
export function memberText(text: string, name: string): string | undefined {
  const members = new Members(text, skipSpace(text, 0))
  while (members.next()) if (members.key === name) return members.value
  return undefined
}

/** Returns the text of the `params` of a JSON-RPC message or request (JSON text), or of an empty object. */
export function paramsText(text: string): string {
  const params = memberText(text, 'params')
  return params?.startsWith('{') ? params : '{}'
}

/** Returns a member's name as its reader sees it. `raw`: its JSON text without the quotes. */
export function decodeName(raw: string): string {
  try {
    return JSON.parse(`"${raw}"`) as string
  } catch {
    return raw
  }
}

/**
 * Normalizes a member name as the most lenient parsers do. Go's encoding/json ignores case by Unicode simple folding,
 * so it treats `ſ` as `s` and the Kelvin sign as `k`.
 */
export const foldName = (name: string): string => name.toUpperCase().toLowerCase()

/**
 * Returns an object (JSON text) with some members replaced by JSON text, removed (undefined), or appended if absent.
 */
export function editObject(text: string, edits: Readonly<Record<string, string | undefined>>): string {
  const members = new Members(text, skipSpace(text, 0))
  const parts: string[] = []
  const seen = new Set<string>()
  while (members.next()) {
    if (!Object.hasOwn(edits, members.key)) {
      parts.push(text.slice(members.keyStart, members.valueEnd))
      continue
    }
    if (seen.has(members.key)) continue
    seen.add(members.key)
    const value = edits[members.key]
    if (value !== undefined) parts.push(text.slice(members.keyStart, members.valueStart) + value)
  }
  for (const [key, value] of Object.entries(edits)) {
    if (value !== undefined && !seen.has(key)) parts.push(`${JSON.stringify(key)}:${value}`)
  }
  return `{${parts.join(',')}}`
}

/**
 * The deepest nesting that is accepted. Deeper values overflow the stack of recursive code; V8's `JSON.stringify` fails
 * at some thousand levels.
 */
const DEEPEST = 1000
/** A shorter text can't exceed that nesting, because each level takes an opening and a closing character. */
const SHALLOW = 2 * DEEPEST
/** The least memory of a value: an array or object with its slot in the outer one, and the slot of any other value. */
const NESTED_BYTES = 64
const PLACE_BYTES = 16

/** Parses JSON from outside. Throws a SyntaxError if it is not JSON or has more than 1000 levels. */
export function parseJson(text: string): unknown {
  if (text.length > SHALLOW) structureBytes(text)
  return JSON.parse(text)
}

/** Parses JSON from outside; undefined if it is not JSON or is nested too deeply. */
export function tryParse(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

/** Parses a JSON object from outside; undefined if it is not JSON, not an object, or nested too deeply. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  const value = tryParse(text)
  return isObject(value) ? value : undefined
}

/**
 * Estimates the bytes of the values of a JSON text without the characters of their strings, because a few characters of
 * text make an object. Takes linear time. Throws a SyntaxError if it has more than 1000 levels.
 */
export function structureBytes(text: string): number {
  const { length } = text
  let bytes = 0
  let depth = 0
  let at = 0
  while (at < length) {
    const code = text.charCodeAt(at)
    if (code === 0x22) {
      at = endOfString(text, at)
      continue
    }
    if (code === 0x2c) bytes += PLACE_BYTES
    else if (code === 0x7b || code === 0x5b) {
      bytes += NESTED_BYTES
      if (++depth > DEEPEST) throw new SyntaxError(`nested deeper than ${DEEPEST} levels`)
    } else if (code === 0x7d || code === 0x5d) depth--
    at++
  }
  return bytes
}

/** Returns the index after the string that begins at `at`, or the length of the text if it does not end. */
function endOfString(text: string, at: number): number {
  const end = skipString(text, at)
  return end === -1 ? text.length : end
}

/** Parses a backend's message; undefined if it is not JSON or is nested too deeply. */
export const parseBytes = (bytes: Buffer): unknown => tryParse(bytes.toString('utf8'))

/** JSON with integers beyond the precision of JavaScript's numbers, which stay as written (`JSON.rawJSON`). */

/** Declarations that TypeScript's library lacks (ECMAScript, JSON.parse source text access). */
const json = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): object
  isRawJSON(value: unknown): value is { readonly rawJSON: string }
}
const LONG = /[0-9]{16}/

/** Parses JSON from outside. Throws a SyntaxError if it is invalid or nested too deep. */
export function parseExact(text: string): unknown {
  if (!LONG.test(text)) return parseJson(text)
  structureBytes(text)
  return json.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && isInexact(value, source) ? json.rawJSON(source) : value,
  )
}

const isInexact = (value: number, source: string): boolean =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(source)

/** Returns the digits of a number that is kept as it was written; undefined for every other value. */
export const readDigits = (value: unknown): string | undefined => (json.isRawJSON(value) ? value.rawJSON : undefined)
