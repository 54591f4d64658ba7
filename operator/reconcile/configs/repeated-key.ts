import { at } from '../../../crds/settings/json.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Returns the offset behind the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let end = start + 1
  while (end < text.length && text.charCodeAt(end) !== QUOTE) end += text.charCodeAt(end) === BACKSLASH ? 2 : 1
  return end + 1
}

const PUNCTUATION = new Set('{}[],:')

/** Yields strings, with their quotes, and the punctuation between values. */
function* readTokens(text: string): Generator<string> {
  for (let offset = 0; offset < text.length; offset++) {
    const char = text[offset] as string
    if (PUNCTUATION.has(char)) yield char
    if (char !== '"') continue
    const end = endOfString(text, offset)
    yield text.slice(offset, end)
    offset = end - 1
  }
}

interface Open {
  readonly pointer: string
  readonly keys: Set<string>
  step: string | number
}

const openIn = (outer: Open | undefined): Open => ({
  pointer: outer ? at(outer.pointer, outer.step) : '',
  keys: new Set(),
  step: 0,
})

/** Records a key that is being read, and tells whether the object already had it. */
function isRepeated(object: Open, key: string): boolean {
  object.step = key
  return object.keys.size === object.keys.add(key).size
}

/** Returns the JSON pointer of the first repeated key, in linear time. `JSON.parse` silently takes the last. */
export function repeatedKey(text: string): string | undefined {
  const open: Open[] = []
  let before = ''
  for (const token of readTokens(text)) {
    const inner = open.at(-1)
    if (token === '{' || token === '[') open.push(openIn(inner))
    else if (token === '}' || token === ']') open.pop()
    else if (inner && token === ':' && isRepeated(inner, JSON.parse(before))) return at(inner.pointer, inner.step)
    else if (token === ',' && typeof inner?.step === 'number') inner.step++
    before = token
  }
  return undefined
}
