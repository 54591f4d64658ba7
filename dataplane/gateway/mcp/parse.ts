import { isObject } from '../../../crds/settings/json.ts'
import { skipString } from './json.ts'

/**
 * The deepest nesting that is accepted. Deeper values overflow the stack of recursive code: V8 writes objects as JSON
 * down to some thousand levels.
 */
const DEEPEST = 1000
/** A shorter text can't be nested deeper, because each level opens and closes. */
const SHALLOW = 2 * DEEPEST
/** The least memory of a value: an array or object and its slot in another one; any other value's slot. */
const NESTED_BYTES = 64
const PLACE_BYTES = 16

/** Parses JSON from outside. Throws a SyntaxError if it is no JSON or is nested deeper than 1000 levels. */
export function parseJson(text: string): unknown {
  if (text.length > SHALLOW) structureBytes(text)
  return JSON.parse(text)
}

/** Parses JSON from outside as an object; undefined if it is none, is no JSON, or is nested too deep. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJson(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/**
 * Estimates the bytes of the values in a JSON text besides the characters of their strings: a few bytes of text make an
 * object. Throws a SyntaxError if it is nested deeper than 1000 levels. Takes linear time.
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

/** Returns the index behind the string that opens at `at`; the length of the text if it never closes. */
function endOfString(text: string, at: number): number {
  const end = skipString(text, at)
  return end === -1 ? text.length : end
}

/** Parses a backend's message; undefined if it is no JSON or is nested too deep. */
export function parseBytes(bytes: Buffer): unknown {
  try {
    return parseJson(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
