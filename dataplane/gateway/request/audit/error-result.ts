import { JsonSkipper } from '../../../server/json-lexer.ts'

const QUOTE = 0x22
const COLON = 0x3a
const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const OPEN_ARRAY = 0x5b
const CLOSE_OBJECT = 0x7d
const LETTER_T = 0x74
/** Longer names are none that is looked for. */
const LONGEST_NAME = 16

/** The member's name and the quote behind it. */
export const MEMBER = 'isError"'

/** Finds out whether an answer to `tools/call`, which comes in parts, says `isError: true` in its result. Linear, and it keeps nothing. */
export class ErrorResult {
  isError = false
  readonly #skipper = new JsonSkipper()
  /** 0 before the answer, 1 in it, 2 in its result. */
  #depth = 0
  /** The string that came last at this depth, or its beginning. */
  #last = ''
  #name = ''
  #isName = false

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#skipper.isOpen) {
        const start = at
        at =
          this.#skipper.inString && this.#skipper.depth === 0
            ? this.#string(chunk, start)
            : this.#skipper.skip(chunk, at)
        continue
      }
      this.#token(chunk[at] as number)
      at++
    }
  }

  #string(chunk: Buffer, start: number): number {
    const end = this.#skipper.skip(chunk, start)
    if (this.#last.length < LONGEST_NAME)
      this.#last += chunk.toString('latin1', start, Math.min(end, start + LONGEST_NAME))
    return end
  }

  #token(byte: number): void {
    if (byte === QUOTE) {
      this.#last = ''
      this.#skipper.inString = true
    } else if (byte === COLON) {
      this.#name = this.#last
      this.#isName = true
    } else if (
      byte === OPEN_OBJECT &&
      (this.#depth === 0 || (this.#depth === 1 && this.#isName && this.#name === 'result"'))
    ) {
      this.#depth++
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#skipper.depth = 1
    else if (byte === CLOSE_OBJECT) this.#depth--
    else if (byte === LETTER_T && this.#depth === 2 && this.#isName && this.#name === MEMBER) this.isError = true
    if (byte === COMMA || byte === CLOSE_OBJECT || byte === OPEN_OBJECT) this.#isName = false
  }
}
