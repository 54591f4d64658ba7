import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  endsScalar,
  isSpace,
  JsonSkipper,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../server/json-lexer.ts'
import { decodeName, tryParse } from './json.ts'

const COLON = 0x3a
const BACKSLASH = 0x5c
/** The longest name in bytes of JSON text, in which each letter may be escaped. */
const LONGEST_NAME = 128
/** The longest URI that is replaced, in bytes of JSON text. */
const LONGEST_URI = 64 * 1024

/** The treatment of a value in an answer, and of the values in it. */
interface Place {
  /** The places of an object's members, by name. */
  readonly members?: readonly Member[]
  /** The place of an array's elements. */
  readonly items?: Place
  /** `uri`: the string is a URI to rename. A Buffer replaces a string or other scalar. */
  readonly value?: 'uri' | Buffer
}

interface Member {
  readonly name: Buffer
  readonly place: Place
}

/** Returns a URI as the client knows it. */
type Rename = (uri: string) => string

const members = (places: Readonly<Record<string, Place>>): Place => ({
  members: Object.entries(places).map(([name, place]) => ({ name: Buffer.from(name), place })),
})

/** The places of resource URIs in answers: contents, links, embedded resources, pages of apps, and errors. */
const uri: Place = { value: 'uri' }
const block = members({ uri, resource: members({ uri }) })
const resultPlaces = {
  contents: { items: members({ uri }) },
  content: { items: block },
  messages: { items: members({ content: { ...block, items: block } }) },
  _meta: members({ ui: members({ resourceUri: uri }), 'ui/resourceUri': uri }),
}
const error = members({ data: members({ uri }) })
/** A result may contain the result of a task. */
const placesOfResult = { ...resultPlaces, result: members(resultPlaces) }
const ANSWER = members({ error, result: members(placesOfResult) })
/** The same places. The result's caching members are replaced: private, and not to be cached. */
const PRIVATE_ANSWER = members({
  error,
  result: members({
    ...placesOfResult,
    ttlMs: { value: Buffer.from('0') },
    cacheScope: { value: Buffer.from('"private"') },
  }),
})
const NOWHERE: Place = {}

/**
 * Replaces resource URIs in a JSON-RPC answer while its bytes pass, in chunks of any size. Everything else stays byte
 * for byte, in particular the texts of resources. The input must be well-formed JSON.
 */
export class UriRewriter {
  readonly #rename: Rename
  /** Skips names, strings, and arrays and objects without places. */
  readonly #skipper = new JsonSkipper()
  /** The open arrays and objects with places. */
  readonly #open: Place[] = []
  #place: Place
  #isNameNext = false
  /** The bytes from earlier chunks of the name or value that is being read. */
  #held: Buffer[] = []
  #heldSize = 0
  /** The token that is being read: a name, a string or scalar that may be replaced, or anything else. */
  #reading: 'name' | 'string' | 'scalar' | 'other' = 'other'
  /** The index in the chunk of that token's first byte. */
  #start = 0
  /** The index in the chunk of the first byte that has not been passed on. */
  #from = 0

  /** @param isPrivate replaces the caching members of the result: private, and not to be cached */
  constructor(rename: Rename, isPrivate = false) {
    this.#rename = rename
    this.#place = isPrivate ? PRIVATE_ANSWER : ANSWER
  }

  /** Reads the next bytes, and appends the bytes to pass on to `out`. */
  push(chunk: Buffer, out: Buffer[]): void {
    const { length } = chunk
    const skipper = this.#skipper
    this.#from = 0
    this.#start = 0
    let at = 0
    while (at < length) {
      if (skipper.isOpen) {
        at = skipper.skip(chunk, at)
        if (!skipper.isOpen) this.#endRead(chunk, at, out)
      } else if (this.#reading === 'scalar') at = this.#scalar(chunk, at, out)
      else at = this.#structure(chunk, at)
    }
    this.#hold(chunk, out)
    if (length > this.#from) out.push(this.#from === 0 ? chunk : chunk.subarray(this.#from))
  }

  #structure(chunk: Buffer, at: number): number {
    const code = chunk[at] as number
    if (code === QUOTE) this.#openString(at)
    else if (code === COMMA) this.#begin(this.#open[this.#open.length - 1])
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) this.#openNested(code === OPEN_OBJECT)
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) this.#open.pop()
    else if (code !== COLON && !isSpace(code)) return this.#openScalar(at)
    return at + 1
  }

  /** Prepares for the next member or element of the open object or array. */
  #begin(open: Place | undefined): void {
    this.#isNameNext = open?.items === undefined
    this.#place = open?.items ?? NOWHERE
  }

  #openString(at: number): void {
    this.#skipper.inString = true
    this.#start = at
    this.#reading = this.#isNameNext ? 'name' : this.#place.value === undefined ? 'other' : 'string'
    this.#isNameNext = false
  }

  #openScalar(at: number): number {
    if (this.#place.value === undefined) return at + 1
    this.#start = at
    this.#reading = 'scalar'
    return at
  }

  #openNested(isObject: boolean): void {
    const { members, items } = this.#place
    const open = isObject ? members && { members } : items && { items }
    if (open === undefined) {
      this.#reading = 'other'
      this.#skipper.depth = 1
    } else {
      this.#open.push(open)
      this.#begin(open)
    }
  }

  #scalar(chunk: Buffer, start: number, out: Buffer[]): number {
    let at = start
    while (at < chunk.length && !endsScalar(chunk[at] as number)) at++
    if (at < chunk.length) this.#endRead(chunk, at, out)
    return at
  }

  /** Handles the end of a name or value. */
  #endRead(chunk: Buffer, behind: number, out: Buffer[]): void {
    const reading = this.#reading
    this.#reading = 'other'
    if (reading === 'name') this.#endName(chunk, behind)
    else if (reading !== 'other') this.#endValue(chunk, behind, out)
  }

  #endName(chunk: Buffer, behind: number): void {
    const places = this.#open.at(-1)?.members
    const isWhole = this.#held.length === 0
    const bytes = isWhole ? chunk : this.#taken(chunk, behind)
    const end = isWhole ? behind - 1 : bytes.length - 1
    this.#place = (places && findPlace(places, bytes, isWhole ? this.#start + 1 : 1, end)) ?? NOWHERE
  }

  #endValue(chunk: Buffer, behind: number, out: Buffer[]): void {
    const isWhole = this.#held.length === 0
    const bytes = isWhole ? chunk : this.#taken(chunk, behind)
    const start = isWhole ? this.#start : 0
    const end = isWhole ? behind : bytes.length
    const shown = this.#shown(bytes, start, end)
    // Most values are whole in one chunk and stay unchanged.
    if (isWhole && shown === undefined) return
    if (this.#start > this.#from) out.push(chunk.subarray(this.#from, this.#start))
    out.push(shown ?? bytes)
    this.#from = behind
  }

  /** Returns the replacement for the value of these bytes; undefined if it stays. */
  #shown(bytes: Buffer, from: number, to: number): Buffer | undefined {
    const { value } = this.#place
    if (value === undefined || to - from > LONGEST_URI) return undefined
    if (value === 'uri') return renameText(bytes.toString('utf8', from, to), this.#rename)
    return isAt(bytes, from, to, value) ? undefined : value
  }

  /** Returns the bytes of the current token up to this end. */
  #taken(chunk: Buffer, behind: number): Buffer {
    const taken = Buffer.concat([...this.#held, chunk.subarray(0, behind)])
    this.#held = []
    this.#heldSize = 0
    return taken
  }

  /** Buffers an incomplete name or value. If it is too long, it is passed on unchanged. */
  #hold(chunk: Buffer, out: Buffer[]): void {
    const reading = this.#reading
    if (reading === 'other') return
    this.#heldSize += chunk.length - this.#start
    // The size includes the opening quote.
    const isTooLong = this.#heldSize > (reading === 'name' ? LONGEST_NAME + 1 : LONGEST_URI)
    if (!isTooLong) this.#held.push(Buffer.from(chunk.subarray(this.#start)))
    // A name is passed on immediately.
    if (reading !== 'name') {
      if (this.#start > this.#from) out.push(chunk.subarray(this.#from, this.#start))
      this.#from = this.#start
      if (isTooLong) out.push(...this.#held)
      else this.#from = chunk.length
    }
    if (!isTooLong) return
    this.#held = []
    this.#heldSize = 0
    this.#reading = 'other'
    this.#place = NOWHERE
  }
}

/** Finds the place of a member by the bytes of its name. */
function findPlace(places: readonly Member[], bytes: Buffer, from: number, to: number): Place | undefined {
  for (const { name, place } of places) if (isAt(bytes, from, to, name)) return place
  // A name with escapes means the same name to the client.
  const at = to - from > LONGEST_NAME ? -1 : bytes.indexOf(BACKSLASH, from)
  if (at === -1 || at >= to) return undefined
  const name = Buffer.from(decodeName(bytes.toString('latin1', from, to)), 'latin1')
  return places.find((one) => one.name.equals(name))?.place
}

function isAt(bytes: Buffer, from: number, to: number, name: Buffer): boolean {
  if (to - from !== name.length) return false
  for (let index = 0; index < name.length; index++) if (bytes[from + index] !== name[index]) return false
  return true
}

/** Returns the URI (JSON text) that the client knows; undefined if it stays or is no text. */
function renameText(text: string, rename: Rename): Buffer | undefined {
  const uri = tryParse(text)
  const shown = typeof uri === 'string' ? rename(uri) : uri
  return shown === uri ? undefined : Buffer.from(JSON.stringify(shown))
}

/** Replaces resource URIs in a whole answer. */
export function renameUris(answer: Buffer, rename: Rename, isPrivate = false): Buffer {
  const parts: Buffer[] = []
  new UriRewriter(rename, isPrivate).push(answer, parts)
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
}
