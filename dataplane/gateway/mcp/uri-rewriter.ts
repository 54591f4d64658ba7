import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  JsonSkipper,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../server/json-lexer.ts'

const SPACE = 0x20

/** The places of URIs of resources in answers: contents, links, embedded resources, pages of apps; in errors, too. */
const OF_RESULT = [
  'contents/*/uri',
  'content/*/uri',
  'content/*/resource/uri',
  'messages/*/content/uri',
  'messages/*/content/resource/uri',
  'messages/*/content/*/uri',
  'messages/*/content/*/resource/uri',
  '_meta/ui/resourceUri',
  '_meta/ui~1resourceUri',
]
const PLACES: ReadonlySet<string> = new Set([
  'error/data/uri',
  ...OF_RESULT.map((place) => `result/${place}`),
  // The result of a task.
  ...OF_RESULT.map((place) => `result/result/${place}`),
])
/** The members that say how long a result may be kept, and the values that a result for one caller has. */
const CACHE: ReadonlyMap<string, string> = new Map([
  ['result/ttlMs', '0'],
  ['result/cacheScope', '"private"'],
])
const DEEPEST = 8
/** In bytes of JSON text: each letter may be escaped. */
const LONGEST_NAME = 128
/** The longest URI in bytes of JSON text that is changed. */
const LONGEST_URI = 64 * 1024

/** Returns a URI as the client knows it. */
type Rename = (uri: string) => string

/**
 * Changes the URIs of resources in a JSON-RPC answer as its bytes pass, in chunks of any size. Everything else stays
 * byte for byte, the texts of resources above all. The input must be well-formed JSON.
 */
export class UriRewriter {
  readonly #rename: Rename
  readonly #isPrivate: boolean
  readonly #skipper = new JsonSkipper()
  /** The names of the open members, `*` for an element, and whether each open value is an object. */
  readonly #path: string[] = []
  readonly #objects: boolean[] = []
  #depth = 0
  /** The name of the member whose value is next or open. */
  #name = ''
  #nameIsNext = false
  #isInName = false
  /** The bytes of a value that may be changed; undefined elsewhere. */
  #held: Buffer[] | undefined
  #heldSize = 0
  /** The text that replaces the held value, whatever it is. */
  #replacement: string | undefined
  #from = 0

  /** @param isPrivate replaces what the result says of caching: it may be kept for one caller and no time */
  constructor(rename: Rename, isPrivate = false) {
    this.#rename = rename
    this.#isPrivate = isPrivate
  }

  /** Takes the next bytes and appends those to pass on to `out`. */
  push(chunk: Buffer, out: Buffer[]): void {
    this.#from = 0
    let at = 0
    while (at < chunk.length)
      at = this.#skipper.inString ? this.#string(chunk, at, out) : this.#structure(chunk, at, out)
    if (this.#held === undefined) {
      if (chunk.length > this.#from) out.push(this.#from === 0 ? chunk : chunk.subarray(this.#from))
    } else this.#hold(chunk, chunk.length, out)
  }

  #structure(chunk: Buffer, at: number, out: Buffer[]): number {
    const code = chunk[at] as number
    if (code === QUOTE) this.#openString(chunk, at, out)
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) this.#open(code === OPEN_OBJECT)
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      this.#endScalar(chunk, at, out)
      this.#close()
    } else if (code === COMMA) {
      this.#endScalar(chunk, at, out)
      this.#nameIsNext = this.#depth <= DEEPEST && this.#objects[this.#depth - 1] === true
    } else if (code === COLON) this.#nameIsNext = false
    else if (code > SPACE) this.#beginScalar(chunk, at, out)
    return at + 1
  }

  #open(isObject: boolean): void {
    if (this.#depth < DEEPEST) {
      if (this.#depth > 0) this.#path[this.#depth - 1] = this.#objects[this.#depth - 1] === true ? this.#name : '*'
      this.#objects[this.#depth] = isObject
    }
    this.#depth++
    this.#nameIsNext = isObject && this.#depth <= DEEPEST
  }

  #close(): void {
    this.#depth--
    this.#nameIsNext = false
  }

  /** The place of the value that begins here, as one of `PLACES`; undefined if it is deeper than those. */
  get #place(): string | undefined {
    if (this.#depth === 0 || this.#depth > DEEPEST || this.#objects[this.#depth - 1] !== true) return undefined
    if (this.#name !== 'uri' && !this.#name.endsWith('resourceUri') && this.#depth !== 2) return undefined
    return [...this.#path.slice(0, this.#depth - 1), this.#name.replace('/', '~1')].join('/')
  }

  #openString(chunk: Buffer, at: number, out: Buffer[]): void {
    this.#skipper.inString = true
    this.#isInName = this.#nameIsNext
    if (this.#isInName) {
      this.#name = ''
      this.#nameIsNext = false
      return
    }
    const place = this.#held === undefined ? this.#place : undefined
    if (place === undefined) return
    if (PLACES.has(place)) this.#beginHeld(chunk, at, out)
    else if (this.#isPrivate && CACHE.has(place)) {
      this.#beginHeld(chunk, at, out)
      this.#replacement = CACHE.get(place)
    }
  }

  #beginScalar(chunk: Buffer, at: number, out: Buffer[]): void {
    if (!this.#isPrivate || this.#held !== undefined || this.#depth !== 2) return
    const place = this.#place
    if (place === undefined || !CACHE.has(place)) return
    this.#beginHeld(chunk, at, out)
    this.#replacement = CACHE.get(place)
  }

  #endScalar(chunk: Buffer, at: number, out: Buffer[]): void {
    if (this.#held !== undefined) this.#endHeld(chunk, at, out)
  }

  #beginHeld(chunk: Buffer, at: number, out: Buffer[]): void {
    if (at > this.#from) out.push(chunk.subarray(this.#from, at))
    this.#from = at
    this.#held = []
    this.#heldSize = 0
    this.#replacement = undefined
  }

  /** Holds the bytes up to `to`; gives them back unchanged if the value is too long for a URI. */
  #hold(chunk: Buffer, to: number, out: Buffer[]): void {
    const held = this.#held as Buffer[]
    held.push(Buffer.from(chunk.subarray(this.#from, to)))
    this.#heldSize += to - this.#from
    this.#from = to
    if (this.#heldSize <= LONGEST_URI) return
    out.push(...held)
    this.#held = undefined
  }

  #endHeld(chunk: Buffer, behind: number, out: Buffer[]): void {
    this.#hold(chunk, behind, out)
    const held = this.#held
    if (held === undefined) return
    this.#held = undefined
    const text = Buffer.concat(held).toString('utf8')
    out.push(Buffer.from(this.#replacement ?? renamedText(text, this.#rename)))
  }

  #string(chunk: Buffer, start: number, out: Buffer[]): number {
    const behind = this.#skipper.skipString(chunk, start)
    const isOpen = this.#skipper.inString
    if (this.#isInName) {
      if (this.#name.length <= LONGEST_NAME) this.#name += chunk.toString('latin1', start, isOpen ? behind : behind - 1)
      if (!isOpen) this.#endName()
    } else if (!isOpen && this.#held !== undefined) this.#endHeld(chunk, behind, out)
    return behind
  }

  #endName(): void {
    this.#isInName = false
    // A name with escapes is the same name to the client.
    if (this.#name.includes('\\') && this.#name.length <= LONGEST_NAME) this.#name = decodedName(this.#name)
  }
}

function decodedName(name: string): string {
  try {
    return JSON.parse(`"${name}"`) as string
  } catch {
    return name
  }
}

function renamedText(text: string, rename: Rename): string {
  try {
    const uri: unknown = JSON.parse(text)
    if (typeof uri !== 'string') return text
    const shown = rename(uri)
    return shown === uri ? text : JSON.stringify(shown)
  } catch {
    return text
  }
}

/** Changes the URIs of resources in a whole answer. */
export function renameUris(answer: Buffer, rename: Rename, isPrivate = false): Buffer {
  const parts: Buffer[] = []
  new UriRewriter(rename, isPrivate).push(answer, parts)
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
}
