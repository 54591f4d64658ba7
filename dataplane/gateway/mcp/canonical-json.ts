import { skipString, skipValue } from './json.ts'

/** An array or object whose end has not been reached. */
interface Open {
  /** The members of an object by name, in the order of the text; undefined in an array. */
  readonly members: (readonly [key: string, value: string])[] | undefined
  /** The elements of an array, joined. */
  elements: string
  key: string | undefined
}

/**
 * Converts JSON text (which `JSON.parse` has accepted) to one canonical form: no white space, sorted names, strings and
 * numbers as JavaScript writes them. Integers beyond its precision stay unchanged. It takes one pass in linear time,
 * except for sorting the names, and does not recurse, so nesting has no extra cost.
 */
export function canonicalJson(text: string): string {
  const value = new OpenValues()
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === BRACE || code === BRACKET) {
      value.open(code === BRACE)
      at++
    } else if (code === BRACE_END || code === BRACKET_END) {
      value.close()
      at++
    } else if (code === QUOTE) {
      const end = skipString(text, at)
      const written = text.slice(at, end)
      value.add(unescaped(written))
      at = end
    } else if (code <= SPACE || code === COMMA || code === COLON) at++
    else {
      const end = skipValue(text, at)
      value.add(scalar(text.slice(at, end)))
      at = end
    }
  }
  return value.whole
}

/** The arrays and objects that enclose the current position. */
class OpenValues {
  whole = ''
  readonly #open: Open[] = []

  open(isObject: boolean): void {
    this.#open.push({ members: isObject ? [] : undefined, elements: '', key: undefined })
  }

  close(): void {
    this.add(closed(this.#open.pop() as Open))
  }

  /** Adds a key, a member's value, an element or the whole value. */
  add(text: string): void {
    const around = this.#open.at(-1)
    if (around === undefined) this.whole = text
    else if (around.members === undefined) around.elements += around.elements === '' ? text : `,${text}`
    else if (around.key === undefined) around.key = text
    else {
      around.members.push([around.key, text])
      around.key = undefined
    }
  }
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const SPACE = 0x20
const BRACE = 0x7b
const BRACE_END = 0x7d
const BRACKET = 0x5b
const BRACKET_END = 0x5d

/** Builds the text by concatenation without copies, so that the work does not grow with the nesting. */
function closed({ members, elements }: Open): string {
  if (members === undefined) return `[${elements}]`
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  let text = ''
  for (const [key, value] of members) text += text === '' ? `${key}:${value}` : `,${key}:${value}`
  return `{${text}}`
}

const unescaped = (written: string): string => (written.includes('\\') ? JSON.stringify(JSON.parse(written)) : written)

function scalar(written: string): string {
  const value = Number(written)
  if (Number.isNaN(value)) return written
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? written : String(value)
}
