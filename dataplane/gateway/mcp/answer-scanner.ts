const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN = 0x7b
const CLOSE = 0x7d

/** Where the scanner is among the members of the outermost object. */
type ScanState = 'start' | 'key' | 'in-key' | 'colon' | 'value' | 'in-scalar' | 'in-string' | 'nested' | 'after' | 'end'

/** What the scanner changes on the way; undefined and empty leave the bytes alone. */
export interface AnswerEdits {
  /** Put in the place of the id; may be replaced until that has been read. */
  id: Buffer | undefined
  /** Put in as the first member of an object result: JSON text of one member, without a comma. */
  readonly resultMember: string
}

const NOTHING: AnswerEdits = { id: undefined, resultMember: '' }
/** In bytes; a backend may write an id with more escapes than it was sent. */
const LONGEST_ID = 8192
const LONGEST_KEY = 32
const ASCII = /^[ -~]*$/

/**
 * Reads a backend's JSON-RPC message as its bytes arrive, in any chunks, and passes them on: large results are never
 * held whole, and nothing but the outermost members is looked at. It changes only the id and the head of the result.
 * Malformed text sets `bad`; it never throws.
 */
export class AnswerScanner {
  hasResult = false
  hasError = false
  hasMethod = false
  /** The id as the backend wrote it, before the edit. */
  id: string | undefined
  bad = false
  readonly #edits: AnswerEdits
  #place: ScanState = 'start'
  /** Of what is inside the current member's value. */
  #depth = 0
  #quoted = false
  #escaped = false
  #key = ''
  /** Bytes of a key, id or method that began in an earlier chunk. */
  #carried = ''
  #inId = false
  #atResult = false

  constructor(edits: AnswerEdits = NOTHING) {
    this.#edits = edits
  }

  /** Whether it has seen one whole object. */
  get complete(): boolean {
    return this.#is('end') && !this.bad
  }

  /** Whether it is known to be an answer, so that what comes can be passed on at once. */
  get isAnswer(): boolean {
    return this.hasResult || this.hasError
  }

  /** Takes the next bytes and appends what is to be passed on to `out`. */
  scan(chunk: Buffer, out: Buffer[]): void {
    let from = 0
    let at = 0
    const { length } = chunk
    while (at < length && !this.bad) {
      if (this.#is('nested') || this.#is('in-string')) {
        if (this.#atResult) {
          if (isSpace(chunk[at] as number)) {
            at++
            continue
          }
          this.#atResult = false
          if (at > from) out.push(chunk.subarray(from, at))
          from = at
          out.push(Buffer.from(this.#edits.resultMember + (chunk[at] === CLOSE ? '' : ',')))
        }
        const end = this.#skip(chunk, at)
        if (this.#inId) this.#carry(chunk, at, end)
        at = end
        if (this.#is('after') && this.#inId) from = this.#endId(chunk, from, at, out)
        continue
      }
      const code = chunk[at] as number
      if (this.#is('in-key')) {
        const end = this.#skip(chunk, at)
        this.#carry(chunk, at, end)
        at = end
        if (!this.#quoted) this.#endKey()
        continue
      }
      if (this.#is('in-scalar')) {
        if (code !== 0x2c && code !== CLOSE && !isSpace(code)) {
          if (this.#inId) this.#carry(chunk, at, at + 1)
          at++
          continue
        }
        this.#place = 'after'
        if (this.#inId) from = this.#endId(chunk, from, at, out)
        continue
      }
      if (isSpace(code)) {
        at++
        continue
      }
      if (this.#is('value')) {
        this.#openValue(code)
        if (this.#inId) {
          if (this.#edits.id !== undefined) {
            if (at > from) out.push(chunk.subarray(from, at))
            from = at
          }
          this.#carried = this.#is('in-string') ? '"' : ''
        }
        // A scalar's first byte is looked at again; a bracket or quote is behind us.
        if (this.#place !== 'in-scalar') at++
        continue
      }
      this.#step(code)
      at++
    }
    if (this.bad) return
    // The end of an id that is being replaced is dropped with the rest of it.
    if (this.#inId && this.#edits.id !== undefined) return
    if (length > from) out.push(from === 0 ? chunk : chunk.subarray(from))
  }

  #is(place: ScanState): boolean {
    return this.#place === place
  }

  /** One structural byte between members. */
  #step(code: number): void {
    if (this.#is('start') && code === OPEN) this.#place = 'key'
    else if (this.#is('key') && code === QUOTE) {
      this.#place = 'in-key'
      this.#quoted = true
      this.#carried = ''
    } else if (this.#is('key') && code === CLOSE) this.#place = 'end'
    else if (this.#is('colon') && code === 0x3a) this.#place = 'value'
    else if (this.#is('after') && code === 0x2c) this.#place = 'key'
    else if (this.#is('after') && code === CLOSE) this.#place = 'end'
    else this.bad = true
  }

  #endKey(): void {
    const key = this.#carried.slice(0, -1)
    this.#place = 'colon'
    this.#key = key
    if (key === 'result') this.hasResult = true
    else if (key === 'error') this.hasError = true
    else if (key === 'method') this.hasMethod = true
    else if (key === 'id' && this.id !== undefined) this.bad = true
  }

  #openValue(code: number): void {
    this.#inId = this.#key === 'id'
    if (code === QUOTE) {
      this.#place = 'in-string'
      this.#quoted = true
    } else if (code === OPEN || code === 0x5b) {
      this.#place = 'nested'
      this.#depth = 1
      this.#quoted = false
      if (this.#inId) this.bad = true
      this.#atResult = code === OPEN && this.#key === 'result' && this.#edits.resultMember !== ''
    } else if (code === 0x2c || code === CLOSE || code === 0x5d || code === 0x3a) this.bad = true
    else this.#place = 'in-scalar'
  }

  #endId(chunk: Buffer, from: number, at: number, out: Buffer[]): number {
    this.#inId = false
    this.id = ASCII.test(this.#carried) ? this.#carried : Buffer.from(this.#carried, 'latin1').toString('utf8')
    if (this.#edits.id === undefined) return from
    out.push(this.#edits.id)
    return Math.min(at, chunk.length)
  }

  #carry(chunk: Buffer, from: number, to: number): void {
    if (this.#carried.length > LONGEST_ID) {
      if (this.#inId) this.bad = true
      return
    }
    if (!this.#inId && this.#carried.length > LONGEST_KEY) return
    this.#carried += chunk.toString('latin1', from, Math.min(to, from + LONGEST_ID + 1))
  }

  /** Goes on inside a string or a nested value, and tells where it ended or the chunk did. */
  #skip(chunk: Buffer, start: number): number {
    let at = start
    if (this.#quoted) {
      at = this.#skipString(chunk, at)
      if (this.#quoted || this.#is('in-key')) return at
      if (this.#is('in-string')) {
        this.#place = 'after'
        return at
      }
    }
    const { length } = chunk
    let depth = this.#depth
    while (at < length) {
      const code = chunk[at++] as number
      if (code === QUOTE) {
        this.#quoted = true
        at = this.#skipString(chunk, at)
      } else if (code === OPEN || code === 0x5b) depth++
      else if ((code === CLOSE || code === 0x5d) && --depth === 0) {
        this.#place = 'after'
        break
      }
    }
    this.#depth = depth
    return at
  }

  /** Goes on inside a string. Long ones are searched by native code; short ones are not worth the call. */
  #skipString(chunk: Buffer, start: number): number {
    const { length } = chunk
    let at = this.#escaped ? start + 1 : start
    this.#escaped = false
    // Each search that an escaped quote has ended early makes the next one wait longer.
    for (let steps = FEW_BYTES; ; steps *= 2) {
      const near = Math.min(at + steps, length)
      while (at < near) {
        const code = chunk[at] as number
        if (code === QUOTE) {
          this.#quoted = false
          return at + 1
        }
        at += code === BACKSLASH ? 2 : 1
      }
      if (at >= length) {
        this.#escaped = at > length
        return length
      }
      const quote = chunk.indexOf(QUOTE, at)
      const end = quote === -1 ? length : quote
      const isEscaped = backslashes(chunk, at, end) % 2 === 1
      if (quote === -1) {
        this.#escaped = isEscaped
        return length
      }
      at = quote + 1
      if (isEscaped) continue
      this.#quoted = false
      return at
    }
  }
}

const FEW_BYTES = 32

/** How many backslashes stand right before `end`, back to `from` at the most. */
function backslashes(chunk: Buffer, from: number, end: number): number {
  let at = end
  while (at > from && chunk[at - 1] === BACKSLASH) at--
  return end - at
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
