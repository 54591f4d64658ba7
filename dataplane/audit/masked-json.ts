import { REDACTED, withoutCredentials, withoutUrlSecrets } from '../config/check/url.ts'
import { maskedWords, soundsSecret } from './masked-words.ts'

/** Characters of one text that are scanned for credentials, beyond those that are written. */
export const LOOK_AHEAD = 4_096
/** The most levels of JSON in texts in JSON. Each level doubles the backslashes, so real data has fewer. */
const DEEPEST = 8
/** The characters that may stand before and between the strings of a JSON text. */
const STRUCTURE = /^[\s,:{}[\]]*(?:(?:true|false|null|-?\d[\d.eE+-]*)[\s,:{}[\]]+)*$/
/** The same after the last string, where a literal may be cut. */
const LAST_STRUCTURE = /^[\s,:{}[\]]*(?:(?:true|false|null|-?\d[\d.eE+-]*)[\s,:{}[\]]+)*[a-z\d.E+-]*$/
/** An incomplete escape at the end of a cut string. */
const CUT_ESCAPE = /\\(?:u[\da-f]{0,3})?$/i

interface Masked {
  readonly text: string
  readonly isCut: boolean
}

/**
 * Masks a JSON text at `maxBytes` bytes of UTF-8: values of secret names, credentials and keys in URLs. A string that
 * is JSON is masked as JSON, other text by words. It runs in linear time and reads no further than it writes, except
 * for what it masks.
 */
export function maskedJson(json: string, maxBytes: number): Masked {
  const { text, isWhole } = scanPart(json, maxBytes, 0) ?? maskAsWords(json, maxBytes)
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return { text, isCut: !isWhole }
  // A character that the cut splits is left out.
  const whole = bytes.subarray(0, maxBytes).toString('utf8')
  return { text: whole.endsWith('\u{fffd}') ? whole.slice(0, -1) : whole, isCut: true }
}

interface Part {
  readonly text: string
  readonly isWhole: boolean
}

function maskAsWords(text: string, most: number): Part {
  return { text: maskedText(text.slice(0, most + LOOK_AHEAD)), isWhole: text.length <= most + LOOK_AHEAD }
}

/**
 * Masks a JSON text, or its beginning, up to `most` characters. Returns undefined if it is not JSON. `depth`: texts in
 * texts.
 */
function scanPart(json: string, most: number, depth: number): Part | undefined {
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

interface Piece {
  readonly text: string
  readonly end: number | undefined
}

/** Reads the part between two strings. Returns undefined if JSON does not allow it. */
function structureAt(json: string, start: number, most: number): Piece | undefined {
  const quote = json.indexOf('"', start)
  const end = Math.min(quote === -1 ? json.length : quote, start + most + 1)
  const text = json.slice(start, end)
  return (end === quote ? STRUCTURE : LAST_STRUCTURE).test(text) ? { text, end } : undefined
}

function stringAt(
  json: string,
  start: number,
  { most, depth }: { readonly most: number; readonly depth: number },
): Piece | undefined {
  const end = endOfString(json, start)
  const colon = skipSpace(json, end)
  const name = json[colon] === ':' ? json.slice(start, Math.min(end, start + LOOK_AHEAD)) : undefined
  if (name !== undefined && isSecret(name))
    return { text: `${maskString(name, depth)}:"${REDACTED}"`, end: endOfValue(json, skipSpace(json, colon + 1)) }
  // Two adjacent strings: what looked like their quotes is something else.
  if (json[end] === '"') return undefined
  const read = Math.min(end, start + most + LOOK_AHEAD)
  return { text: maskString(json.slice(start, read), depth), end: read < end ? undefined : end }
}

function maskString(literal: string, depth: number): string {
  const whole = parseLiteral(literal)
  const text = whole ?? parseLiteral(`${literal}"`) ?? parseLiteral(`${literal.replace(CUT_ESCAPE, '')}"`)
  // JSON does not allow this string: it is masked as written.
  if (text === undefined) return maskedText(literal)
  const masked = maskedValue(text, depth)
  if (masked === text) return literal
  const written = JSON.stringify(masked)
  return whole === undefined ? written.slice(0, -1) : written
}

function maskedValue(text: string, depth: number): string {
  const first = text[skipSpace(text, 0)]
  const isJson = depth < DEEPEST && (first === '{' || first === '[' || first === '"')
  return (isJson ? scanPart(text, Number.POSITIVE_INFINITY, depth + 1)?.text : undefined) ?? maskedText(text)
}

const maskedText = (text: string): string => maskedWords(withoutUrlSecrets(withoutCredentials(text)))

function parseLiteral(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string
  } catch {
    return undefined
  }
}

/** Tells whether the name of a member (JSON text, escaped in any way) sounds like a secret. */
function isSecret(name: string): boolean {
  if (!name.includes('\\')) return soundsSecret(name)
  const text = parseLiteral(name)
  return text === undefined || soundsSecret(text)
}

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
