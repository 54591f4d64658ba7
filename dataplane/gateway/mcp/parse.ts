import { isObject } from '../../../crds/settings/json.ts'
import { skipString } from './json.ts'

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

/** Parses a JSON object from outside; undefined if it is not JSON, not an object, or nested too deeply. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJson(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
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
export function parseBytes(bytes: Buffer): unknown {
  try {
    return parseJson(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
