import { DroppedMessage } from './channel.ts'

const LF = 0x0a
const CR = 0x0d

/** The longest line that is accepted, in bytes. Even large results are much shorter. */
export const LONGEST_LINE = 16 * 1024 * 1024

interface LineReceiver {
  line(text: string): void
  /** Reports the end of an oversized line. `start` is its beginning. */
  dropped(start: string, message: DroppedMessage): void
}

const KEPT_OF_DROPPED = 200

/** Splits a stream of bytes, in chunks of any size, into lines. Bytes after the last line break are not a line. */
export class LineSplitter {
  readonly #receiver: LineReceiver
  readonly #longest: number
  #held: Buffer[] = []
  #size = 0
  /** The beginning of the line that is being dropped. */
  #start = ''
  #dropped: DroppedMessage | undefined

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
    if (this.#dropped !== undefined) this.#dropped.scan(bytes)
    else if (bytes.length > 0) {
      this.#held.push(bytes)
      this.#size += bytes.length
      if (this.#size > this.#longest) this.#drop()
    }
  }

  /** Stops keeping the bytes of the current line. */
  #drop(): void {
    const line = this.#take()
    this.#start = line.toString('utf8', 0, KEPT_OF_DROPPED)
    this.#dropped = new DroppedMessage()
    this.#dropped.scan(line)
  }

  #endLine(): void {
    const dropped = this.#dropped
    if (dropped !== undefined) {
      this.#dropped = undefined
      this.#receiver.dropped(this.#start, dropped)
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
