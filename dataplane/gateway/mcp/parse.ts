import { isObject } from '../../../crds/settings/json.ts'
import { skipString } from './json.ts'

/** Deeper values overflow the stack of whoever walks them: V8 writes objects as JSON down to some thousand levels. */
const DEEPEST = 1000
/** A shorter text can't be nested deeper: each level opens and closes. */
const SHALLOW = 2 * DEEPEST
/** What a value costs at least: an array or object and its place in another one; any other value's place. */
const NESTED_BYTES = 64
const PLACE_BYTES = 16

/** JSON from outside as a value. Throws a SyntaxError where it is no JSON, or is nested deeper than 1000 levels. */
export function parseJson(text: string): unknown {
  if (text.length > SHALLOW) structureBytes(text)
  return JSON.parse(text)
}

/** JSON from outside as an object; undefined where it is none, is no JSON, or is nested too deep. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJson(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/**
 * About how many bytes the values in a JSON text take beside the characters of their strings: a few bytes of text make
 * an object. Throws a SyntaxError where it is nested deeper than 1000 levels. Takes time linear in the text.
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

/** Index behind the string that opens at `at`; the length of the text where it never closes. */
function endOfString(text: string, at: number): number {
  const end = skipString(text, at)
  return end === -1 ? text.length : end
}

/** A backend's message as a value; undefined for what is no JSON, or is nested too deep. */
export function parseBytes(bytes: Buffer): unknown {
  try {
    return parseJson(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
