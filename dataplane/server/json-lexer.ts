export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const OPEN_OBJECT = 0x7b
export const CLOSE_OBJECT = 0x7d
export const OPEN_ARRAY = 0x5b
export const CLOSE_ARRAY = 0x5d
/** The first byte of `null`, which no other token outside of strings has. */
export const NULL = 0x6e

const BACKSLASH = 0x5c

export const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Tells whether a number or another scalar ends before this byte. */
export const endsScalar = (byte: number): boolean =>
  byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY || isSpace(byte)

/** The number of bytes of a string that are searched one by one. For so few, native code costs more. */
const FEW_BYTES = 32

/**
 * Skips strings, arrays and objects of a JSON text in chunks, and checks nothing else. The caller reads the opening
 * byte, then sets `inString` or `depth`.
 */
export class JsonSkipper {
  inString = false
  depth = 0
  /** True if a null was skipped in an array or object. */
  hasNull = false
  #isEscaped = false

  get isOpen(): boolean {
    return this.inString || this.depth > 0
  }

  /** Skips until nothing is open. Returns the index behind the end, or the end of the chunk. */
  skip(chunk: Buffer, start: number): number {
    const { length } = chunk
    let at = this.inString ? this.skipString(chunk, start) : start
    let { depth } = this
    if (this.inString || depth === 0) return at
    while (at < length) {
      const byte = chunk[at++] as number
      if (byte === QUOTE) {
        this.inString = true
        at = this.skipString(chunk, at)
      } else if (byte === NULL) this.hasNull = true
      else {
        depth += stepOf(byte)
        if (depth === 0) break
      }
    }
    this.depth = depth
    return at
  }

  /** Skips the rest of a string. Returns the index behind its quote, or the end of the chunk. */
  skipString(chunk: Buffer, start: number): number {
    const { length } = chunk
    let at = this.#isEscaped ? start + 1 : start
    this.#isEscaped = false
    // Each native search that an escaped quote has ended early doubles the wait for the next one.
    for (let steps = FEW_BYTES; ; steps *= 2) {
      const near = Math.min(at + steps, length)
      at = nearQuote(chunk, at, near)
      if (at < near) return this.#closeString(at + 1)
      if (at >= length) {
        this.#isEscaped = at > length
        return length
      }
      const quote = chunk.indexOf(QUOTE, at)
      const isEscaped = hasOddBackslashes(chunk, at, quote === -1 ? length : quote)
      if (quote === -1) {
        this.#isEscaped = isEscaped
        return length
      }
      at = quote + 1
      if (!isEscaped) return this.#closeString(at)
    }
  }

  #closeString(at: number): number {
    this.inString = false
    return at
  }
}

function stepOf(byte: number): number {
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return 1
  return byte === CLOSE_OBJECT || byte === CLOSE_ARRAY ? -1 : 0
}

/** Returns the index of the closing quote before `near`; else `near`, or one more behind a backslash. */
function nearQuote(chunk: Buffer, from: number, near: number): number {
  let at = from
  while (at < near) {
    const byte = chunk[at] as number
    if (byte === QUOTE) break
    at += byte === BACKSLASH ? 2 : 1
  }
  return at
}

/** Tells whether an odd number of backslashes stands right before `end`, searched back to `from` at most. */
function hasOddBackslashes(chunk: Buffer, from: number, end: number): boolean {
  let at = end
  while (at > from && chunk[at - 1] === BACKSLASH) at--
  return (end - at) % 2 === 1
}
