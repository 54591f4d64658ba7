import { withoutUrlSecrets } from '../config/url-secrets.ts'
import { REDACTED, withoutCredentials } from '../server/credential-text.ts'
import { maskedWords, soundsSecret } from './masked-words.ts'

/** Characters of one text that are looked at for credentials, beyond what is written of it. */
export const LOOK_AHEAD = 4_096
/** JSON within texts within JSON: each level doubles the backslashes, so that nobody means more. */
const DEEPEST = 8
/** What may stand before and between the strings of a JSON text. */
const STRUCTURE = /^[\s,:{}[\]]*(?:(?:true|false|null|-?\d[\d.eE+-]*)[\s,:{}[\]]+)*$/
/** The same behind the last of them, where a literal may have lost its end. */
const LAST_STRUCTURE = /^[\s,:{}[\]]*(?:(?:true|false|null|-?\d[\d.eE+-]*)[\s,:{}[\]]+)*[a-z\d.E+-]*$/
/** An escape whose end is missing, at the end of a string that has been cut. */
const CUT_ESCAPE = /\\(?:u[\da-f]{0,3})?$/i

interface Masked {
  readonly text: string
  /** Whether something was cut off. */
  readonly isCut: boolean
}

/**
 * A JSON text without the values of members that sound like secrets, without credentials and without what keys of URLs
 * stand in, cut at so many bytes of UTF-8. A string in it that is JSON itself is masked as JSON, and other texts by the
 * same words. Linear, and it reads no further than it writes but for what it leaves out. What is no JSON is masked by words.
 */
export function maskedJson(json: string, maxBytes: number): Masked {
  const { text, isWhole } = scanned(json, maxBytes, 0) ?? wordsOf(json, maxBytes)
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return { text, isCut: !isWhole }
  // A character that is cut in two is left out.
  const whole = bytes.subarray(0, maxBytes).toString('utf8')
  return { text: whole.endsWith('\u{fffd}') ? whole.slice(0, -1) : whole, isCut: true }
}

interface Part {
  readonly text: string
  /** Whether it is all of the text, and not its beginning. */
  readonly isWhole: boolean
}

/** A text that is no JSON. */
function wordsOf(text: string, most: number): Part {
  return { text: maskedText(text.slice(0, most + LOOK_AHEAD)), isWhole: text.length <= most + LOOK_AHEAD }
}

/**
 * A JSON text, or the beginning of one, as far as `most` characters of it are written; undefined where it is none.
 * `depth`: of texts within texts.
 */
function scanned(json: string, most: number, depth: number): Part | undefined {
  let text = ''
  let at = 0
  while (at < json.length && text.length <= most) {
    const piece = json[at] === '"' ? stringAt(json, at, { most, depth }) : structureAt(json, at, most)
    if (piece === undefined) return undefined
    text += piece.text
    if (piece.end === undefined) return { text, isWhole: false }
    at = piece.end
  }
  return { text, isWhole: at >= json.length }
}

/** A piece of a JSON text as it is written, and the index behind what it is made of; undefined where that has been cut. */
interface Piece {
  readonly text: string
  readonly end: number | undefined
}

/** What stands between two strings; undefined where JSON has no such thing. */
function structureAt(json: string, start: number, most: number): Piece | undefined {
  const quote = json.indexOf('"', start)
  const end = Math.min(quote === -1 ? json.length : quote, start + most + 1)
  const text = json.slice(start, end)
  return (end === quote ? STRUCTURE : LAST_STRUCTURE).test(text) ? { text, end } : undefined
}

/** A string, or a member whose name sounds like a secret's. */
function stringAt(
  json: string,
  start: number,
  { most, depth }: { readonly most: number; readonly depth: number },
): Piece | undefined {
  const end = endOfString(json, start)
  const colon = skipSpace(json, end)
  const name = json[colon] === ':' ? json.slice(start, Math.min(end, start + LOOK_AHEAD)) : undefined
  if (name !== undefined && isSecret(name))
    return { text: `${maskedString(name, depth)}:"${REDACTED}"`, end: endOfValue(json, skipSpace(json, colon + 1)) }
  // Two strings side by side: what was taken for their quotes is something else.
  if (json[end] === '"') return undefined
  const read = Math.min(end, start + most + LOOK_AHEAD)
  return { text: maskedString(json.slice(start, read), depth), end: read < end ? undefined : end }
}

/** A string of a JSON text, as such a string; its end may be missing. */
function maskedString(literal: string, depth: number): string {
  const whole = parsed(literal)
  const text = whole ?? parsed(`${literal}"`) ?? parsed(`${literal.replace(CUT_ESCAPE, '')}"`)
  // No string that JSON allows: it is masked as it is written.
  if (text === undefined) return maskedText(literal)
  const masked = maskedValue(text, depth)
  if (masked === text) return literal
  const written = JSON.stringify(masked)
  return whole === undefined ? written.slice(0, -1) : written
}

/** What a string says. */
function maskedValue(text: string, depth: number): string {
  const first = text[skipSpace(text, 0)]
  const isJson = depth < DEEPEST && (first === '{' || first === '[' || first === '"')
  return (isJson ? scanned(text, Number.POSITIVE_INFINITY, depth + 1)?.text : undefined) ?? maskedText(text)
}

const maskedText = (text: string): string => maskedWords(withoutUrlSecrets(withoutCredentials(text)))

function parsed(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string
  } catch {
    return undefined
  }
}

/** Whether the name of a member, as JSON text, sounds like one of a secret, however it is escaped. */
function isSecret(name: string): boolean {
  if (!name.includes('\\')) return soundsSecret(name)
  const text = parsed(name)
  return text === undefined || soundsSecret(text)
}

/** The index behind a string that begins at `start`. */
function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === 0x5c) at++
    else if (code === 0x22) return at + 1
  }
  return json.length
}

function skipSpace(json: string, start: number): number {
  let at = start
  while (at < json.length && json.charCodeAt(at) <= 0x20) at++
  return at
}

/** The index behind a value that begins at `start`. */
function endOfValue(json: string, start: number): number {
  const first = json[start]
  if (first === '"') return endOfString(json, start)
  return first === '{' || first === '[' ? endOfNested(json, start) : endOfScalar(json, start)
}

function endOfScalar(json: string, start: number): number {
  let at = start
  while (at < json.length && !',}]'.includes(json[at] as string)) at++
  return at
}

function endOfNested(json: string, start: number): number {
  let depth = 0
  let at = start
  do {
    const char = json[at]
    if (char === '"') at = endOfString(json, at) - 1
    else if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    at++
  } while (depth > 0 && at < json.length)
  return at
}
