import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  endsScalar,
  isSpace,
  JsonSkipper,
  NULL,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../server/json-lexer.ts'
import { CONTENT, type NullMender } from './answer-mender.ts'

/** The scanner's position among the members of the message. */
type ScanState =
  | 'start'
  | 'key'
  | 'in-key'
  | 'colon'
  | 'value'
  | 'in-scalar'
  | 'in-string'
  | 'nested'
  | 'after'
  | 'array-end'
  | 'next'
  | 'end'

/** The changes that the scanner makes. Undefined and empty values leave the bytes unchanged. */
export interface AnswerEdits {
  /** Replaces the id. It may be set until the id has been read. */
  id: Buffer | undefined
  /** JSON text of a member, without a comma. It is inserted at the beginning of a result that is an object. */
  readonly resultMember: string
}

const NOTHING: AnswerEdits = { id: undefined, resultMember: '' }
/** The longest id in bytes. A backend may return an id with more escapes than it was sent with. */
const LONGEST_ID = 8192
const LONGEST_KEY = 32
/** The value of `jsonrpc`. */
const VERSION = Buffer.from('"2.0"')
/** The members of a message. */
const KEYS = ['jsonrpc', 'id', 'result', 'error', 'method', 'params'].map((name) => ({
  name,
  bytes: Buffer.from(name),
}))

function isAt(chunk: Buffer, at: number, bytes: Buffer): boolean {
  for (let index = 0; index < bytes.length; index++) if (chunk[at + index] !== bytes[index]) return false
  return true
}

/** Returns the key at these bytes if it is one of a message. No string is made for it. */
function findKey(chunk: Buffer, from: number, to: number): string | undefined {
  for (const { name, bytes } of KEYS) if (bytes.length === to - from && isAt(chunk, from, bytes)) return name
  return undefined
}

/** UTF-8's byte order mark, which some servers write before JSON. */
const MARK: readonly number[] = [0xef, 0xbb, 0xbf]
const ASCII = /^[ -~]*$/

/**
 * Scans a backend's JSON-RPC message while its bytes arrive, in chunks of any size, and passes them on. It never
 * buffers a large result, and reads only the members of the message itself. It changes only the id and the beginning of
 * the result. Malformed text sets `bad`; it never throws.
 */
export class AnswerScanner {
  hasResult = false
  hasError = false
  hasMethod = false
  /** True if the message has members of a request, a result that is no object, or a null error. */
  #isUnusual = false
  #hasVersion = false
  /** True if the result begins with `content`. */
  beginsWithContent = false
  /** True for an element of an array that is no message. It is skipped, and the others are read. */
  #isSkipped = false
  /** True for an element of an array that is no object. */
  #isBare = false
  /** The id as the backend wrote it, before the edit. */
  id: string | undefined
  bad = false
  /** The bytes after the message, if an array contains another one. */
  rest: Buffer | undefined
  /** The id that was sent (JSON text). An id that is returned in another form is replaced by it. */
  sentId: string | undefined
  readonly #edits: AnswerEdits
  #state: ScanState = 'start'
  #isInArray = false
  /** The bytes of a byte order mark received so far. */
  #marked = 0
  /** Reads and repairs the rest of a result that is known to be large. */
  #mender: NullMender | undefined
  /** The index in `out` of the first bytes after the result that the mender has read; undefined before. */
  tailFrom: number | undefined
  /** Skips the rest of a key or of the current member's value. */
  #skipper = new JsonSkipper()
  #key = ''
  /** The bytes of a key, id or method that began in an earlier chunk. */
  #carried = ''
  #inId = false
  /** The index in the chunk of the id's first byte; -1 if it began in an earlier chunk. */
  #idFrom = -1
  #atResult = false
  /** The index in the chunk of the first byte that has not been passed on. */
  #from = 0

  constructor(edits: AnswerEdits = NOTHING) {
    this.#edits = edits
  }

  /** The member that the scanner adds to a result that is an object; empty: none. */
  get resultMember(): string {
    return this.#edits.resultMember
  }

  /** True once one whole object has been read. */
  get complete(): boolean {
    return this.#state === 'end' && !this.bad
  }

  /** True once one whole object has been read, even if an array contains another. */
  get hasWhole(): boolean {
    return this.complete || this.rest !== undefined
  }

  /** Continues with the array in which another scanner has read a message. */
  startBehind({ rest }: AnswerScanner): void {
    this.#isInArray = rest !== undefined
  }

  /** True once the message is known to be an answer, so that its bytes can be passed on immediately. */
  get isAnswer(): boolean {
    return (this.hasResult || this.hasError) && !this.#isSkipped
  }

  /** Lets a mender repair the rest of a large result while it passes. The mender has read all earlier bytes. */
  mendWith(mender: NullMender): void {
    if (this.#state === 'nested' && this.#key === 'result' && mender.depth >= IN_RESULT) this.#mender = mender
    else this.tailFrom = 0
  }

  /** Scans the next bytes, and appends the bytes to pass on to `out`. */
  scan(chunk: Buffer, out: Buffer[]): void {
    const { length } = chunk
    this.#from = 0
    this.#idFrom = -1
    if (this.tailFrom !== undefined) this.tailFrom = 0
    let at = 0
    while (at < length && !this.bad && this.rest === undefined) at = this.#next(chunk, at, out)
    if (this.bad || this.rest !== undefined) return
    if (this.#inId) {
      // An id that continues in the next chunk is passed on, or replaced, once it is complete.
      if (this.#edits.id === undefined && this.#idFrom > this.#from) this.#passUpTo(chunk, this.#idFrom, out)
      return
    }
    if (length > this.#from) out.push(this.#from === 0 ? chunk : chunk.subarray(this.#from))
  }

  /** Reads one token, or the part of it that has arrived. Returns the index after it. */
  #next(chunk: Buffer, at: number, out: Buffer[]): number {
    const state = this.#state
    if (state === 'nested' || state === 'in-string') return this.#inValue(chunk, at, out)
    if (state === 'in-key') return this.#inKey(chunk, at)
    if (state === 'in-scalar') return this.#inScalar(chunk, at, out)
    const code = chunk[at] as number
    if (isSpace(code)) return at + 1
    if (state === 'value') return this.#beginValue(chunk, at, out)
    // If the message is in an array, or follows a byte order mark, only the object itself is passed on.
    if (state === 'start' && (code !== OPEN_OBJECT || this.#isInArray || this.#marked > 0))
      this.#from = code === OPEN_OBJECT ? at : at + 1
    if (state === 'array-end') return this.#endArray(chunk, at, out)
    this.#step(code)
    return at + 1
  }

  /** Reads the end of an array, or the comma before its next message. */
  #endArray(chunk: Buffer, at: number, out: Buffer[]): number {
    const isLast = chunk[at] === CLOSE_ARRAY
    if (isLast || chunk[at] === COMMA) {
      this.#state = isLast ? 'end' : 'next'
      this.#passUpTo(chunk, at, out)
      this.#from = at + 1
      if (!isLast) this.rest = chunk.subarray(at + 1)
    } else this.bad = true
    return at + 1
  }

  /** Reads one structural byte between members. */
  #step(code: number): void {
    const state = this.#state
    if (state === 'start') this.#start(code)
    else if (state === 'key' && code === QUOTE) {
      this.#state = 'in-key'
      this.#skipper.inString = true
      this.#carried = ''
    } else if ((state === 'key' || state === 'after') && code === CLOSE_OBJECT)
      this.#state = this.#isInArray ? 'array-end' : 'end'
    else if (state === 'colon' && code === COLON) this.#state = 'value'
    else if (state === 'after' && code === COMMA) this.#state = 'key'
    else this.bad = true
  }

  /** Reads the first byte. A byte order mark and an array of messages are accepted. */
  #start(code: number): void {
    if (code === OPEN_OBJECT) this.#state = 'key'
    else if (this.#isInArray) this.#skipElement(code)
    else if (code === OPEN_ARRAY) this.#isInArray = true
    else if (code !== MARK[this.#marked++]) this.bad = true
  }

  #skipElement(code: number): void {
    this.#isSkipped = true
    this.#isBare = true
    this.#openValue(code)
  }

  #inKey(chunk: Buffer, at: number): number {
    const end = this.#skipper.skipString(chunk, at)
    const isEnded = !this.#skipper.inString
    const known = isEnded && this.#carried === '' ? findKey(chunk, at, end - 1) : undefined
    if (known === undefined) this.#carry(chunk, at, end)
    if (isEnded) this.#endKey(known ?? this.#carried.slice(0, -1))
    return end
  }

  #endKey(key: string): void {
    this.#state = 'colon'
    this.#key = key
    if (key === 'result') this.hasResult = true
    else if (key === 'error') this.hasError = true
    else if (key === 'id') this.bad ||= this.id !== undefined
    else if (key === 'method' || key === 'params') {
      this.hasMethod ||= key === 'method'
      this.#isUnusual = true
    }
  }

  /** True if an array or object in the message contains null. */
  get hasNull(): boolean {
    return this.#skipper.hasNull
  }

  /** True if the message is an answer in a form that official clients may refuse. */
  get needsMending(): boolean {
    return this.#isUnusual || this.hasError || !this.#hasVersion
  }

  #beginValue(chunk: Buffer, at: number, out: Buffer[]): number {
    this.#openValue(chunk[at] as number)
    if (this.#key === 'jsonrpc') this.#hasVersion = isAt(chunk, at, VERSION)
    else if (this.#key === 'result') this.beginsWithContent = isAt(chunk, at + 1, CONTENT)
    if (this.#inId) {
      if (this.#edits.id !== undefined) this.#passUpTo(chunk, at, out)
      this.#idFrom = at
      this.#carried = this.#state === 'in-string' ? '"' : ''
    }
    // The first byte of a scalar is read again with the others. A bracket or quote has been read here.
    return this.#state === 'in-scalar' ? at : at + 1
  }

  #openValue(code: number): void {
    this.#inId = this.#key === 'id'
    if (code === QUOTE) {
      this.#state = 'in-string'
      this.#skipper.inString = true
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      this.#state = 'nested'
      this.#skipper.depth = 1
      if (this.#inId) this.#refuseId()
      this.#atResult = code === OPEN_OBJECT && this.#key === 'result' && this.#edits.resultMember !== ''
    } else if (code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY || code === COLON) this.bad = true
    else this.#state = 'in-scalar'
    if (this.#key === 'result' && code !== OPEN_OBJECT) this.#isUnusual = true
    if (this.#key === 'error' && code === NULL) {
      this.#isUnusual = true
      this.hasError = false
    }
  }

  /** Refuses an id that is an object or an array. In an array of messages only that message is lost. */
  #refuseId(): void {
    this.bad = !this.#isInArray
    this.#isSkipped = true
    this.#inId = false
  }

  #inValue(chunk: Buffer, at: number, out: Buffer[]): number {
    if (this.#atResult) {
      const code = chunk[at] as number
      if (isSpace(code)) return at + 1
      this.#atResult = false
      this.#passUpTo(chunk, at, out)
      out.push(Buffer.from(this.#edits.resultMember + (code === CLOSE_OBJECT ? '' : ',')))
    }
    if (this.#mender !== undefined) return this.#inResult(this.#mender, chunk, at, out)
    const skipper = this.#skipper
    const end = skipper.skip(chunk, at)
    if (this.#inId) this.#carry(chunk, at, end)
    if (!skipper.isOpen) this.#endValue(chunk, end, out)
    return end
  }

  #inResult(mender: NullMender, chunk: Buffer, at: number, out: Buffer[]): number {
    mender.from = this.#from
    const end = mender.walk(chunk, at, IN_RESULT, out)
    this.#from = mender.from
    this.bad ||= mender.isLost
    if (mender.depth >= IN_RESULT) return end
    this.#mender = undefined
    this.#skipper = new JsonSkipper()
    this.#passUpTo(chunk, end, out)
    this.tailFrom = out.length
    this.#endValue(chunk, end, out)
    return end
  }

  #inScalar(chunk: Buffer, start: number, out: Buffer[]): number {
    const { length } = chunk
    let at = start
    while (at < length && !endsScalar(chunk[at] as number)) at++
    if (this.#inId) this.#carryScalar(chunk, start, at)
    if (at < length && !this.bad) this.#endValue(chunk, at, out)
    return at
  }

  #carryScalar(chunk: Buffer, from: number, to: number): void {
    if (this.#carried.length + to - from > LONGEST_ID + 1) this.bad = true
    else this.#carried += chunk.toString('latin1', from, to)
  }

  #endValue(chunk: Buffer, at: number, out: Buffer[]): void {
    this.#state = this.#isBare ? 'array-end' : 'after'
    if (!this.#inId) return
    this.#inId = false
    this.id = ASCII.test(this.#carried) ? this.#carried : Buffer.from(this.#carried, 'latin1').toString('utf8')
    if (this.#edits.id !== undefined) out.push(this.#edits.id)
    else if (this.#isOtherForm()) {
      if (this.#idFrom > this.#from) out.push(chunk.subarray(this.#from, this.#idFrom))
      out.push(Buffer.from(this.sentId as string))
    } else if (this.#idFrom === -1) out.push(Buffer.from(this.#carried, 'latin1'))
    else return
    this.#from = at
  }

  /** Tells whether the id is the one that was sent in another form, or is missing. */
  #isOtherForm(): boolean {
    const { id, sentId } = this
    return id !== sentId && sentId !== undefined && (id === NO_ID || sameId(id, sentId))
  }

  #passUpTo(chunk: Buffer, at: number, out: Buffer[]): void {
    if (at > this.#from) out.push(chunk.subarray(this.#from, at))
    this.#from = at
  }

  #carry(chunk: Buffer, from: number, to: number): void {
    if (this.#carried.length > LONGEST_ID) {
      if (this.#inId) this.bad = true
      return
    }
    if (!this.#inId && this.#carried.length > LONGEST_KEY) return
    this.#carried += chunk.toString('latin1', from, Math.min(to, from + LONGEST_ID + 1))
  }
}

/** The number of objects that are open within the result. */
const IN_RESULT = 2

/** The id in an answer to a request whose id could not be read (JSON-RPC 2.0, section 5). */
export const NO_ID = 'null'

/** Tells whether a returned id (JSON text) belongs to another request than the one with the id `sent`. */
export const isOtherId = (id: string | undefined, sent: string): boolean =>
  id !== undefined && id !== NO_ID && !sameId(id, sent)

/**
 * Tells whether a returned id (JSON text) equals the one that was sent. These are equal: `1`, `1.0`, `"1"` and `"1.0"`;
 * `"a"` and `"\u0061"`. An id that was sent as text is never returned as a number.
 */
export function sameId(a: string | undefined, b: string): boolean {
  if (a === b) return true
  try {
    if (a === undefined) return false
    const back: unknown = JSON.parse(a)
    const sent: unknown = JSON.parse(b)
    if (back === sent) return true
    return typeof sent === 'number' && typeof back === 'string' && /^\s*[\d.+-]/.test(back) && Number(back) === sent
  } catch {
    return false
  }
}
