const LF = 0x0a
const CR = 0x0d

/** Longest line that is taken, in bytes: a large result is far below it. */
export const LONGEST_LINE = 16 * 1024 * 1024

export interface LineReceiver {
  line(text: string): void
  /** A line that was too long has been dropped; `start` is how it began. */
  dropped(start: string): void
}

const KEPT_OF_DROPPED = 200

/** Splits a stream of bytes into lines, in any chunks. The rest without a line break at the end is no line. */
export class LineSplitter {
  readonly #receiver: LineReceiver
  readonly #longest: number
  #held: Buffer[] = []
  #size = 0
  #dropping = false

  constructor(receiver: LineReceiver, longest = LONGEST_LINE) {
    this.#receiver = receiver
    this.#longest = longest
  }

  push(chunk: Buffer): void {
    let from = 0
    let end = chunk.indexOf(LF)
    while (end !== -1) {
      this.#hold(chunk.subarray(from, end))
      this.#endLine()
      from = end + 1
      end = chunk.indexOf(LF, from)
    }
    if (from < chunk.length) this.#hold(chunk.subarray(from))
  }

  #hold(bytes: Buffer): void {
    if (this.#dropping || bytes.length === 0) return
    this.#held.push(bytes)
    this.#size += bytes.length
    if (this.#size <= this.#longest) return
    this.#dropping = true
    const start = this.#take().toString('utf8', 0, KEPT_OF_DROPPED)
    this.#receiver.dropped(start)
  }

  #endLine(): void {
    if (this.#dropping) {
      this.#dropping = false
      return
    }
    const line = this.#take()
    const end = line.at(-1) === CR ? line.length - 1 : line.length
    if (end > 0) this.#receiver.line(line.toString('utf8', 0, end))
  }

  #take(): Buffer {
    const bytes = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held)
    this.#held = []
    this.#size = 0
    return bytes
  }
}
