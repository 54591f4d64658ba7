import type { AuditLog } from '../../../audit/event.ts'
import { CLOSE_OBJECT, COLON, COMMA, JsonSkipper, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../../server/json-lexer.ts'
import type { Reply } from '../reply.ts'

const LETTER_T = 0x74
/** The longest member name that can be one of those looked for. */
const LONGEST_NAME = 16

/** The member's name and the quote after it. */
const MEMBER = 'isError"'

/** Tells whether the audit log records anything about answers. */
export const recordsAnswers = ({ responseBytes, tellsApplicationErrors }: AuditLog): boolean =>
  responseBytes > 0 || tellsApplicationErrors

/** A reply that also records the start of the answer and whether it is a tool's error result. */
export class RecordedReply implements Reply {
  readonly #reply: Reply
  readonly #most: number
  readonly #kept: Buffer[] = []
  #size = 0
  readonly #errorResult: ErrorResult | undefined

  constructor(reply: Reply, log: Pick<AuditLog, 'responseBytes' | 'tellsApplicationErrors'>) {
    this.#reply = reply
    this.#most = log.responseBytes
    this.#errorResult = log.tellsApplicationErrors ? new ErrorResult() : undefined
  }

  /** Tells whether this reply detects a tool's error result. */
  get findsErrorResult(): boolean {
    return this.#errorResult !== undefined
  }

  /** The answer, or as much of it as is needed to cut it; undefined if there is none. */
  get text(): string | undefined {
    return this.#size === 0 ? undefined : Buffer.concat(this.#kept).toString('utf8')
  }

  get isErrorResult(): boolean {
    return this.#errorResult?.isError === true
  }

  #record(bytes: Buffer): void {
    this.#errorResult?.push(bytes)
    // One byte more than is written shows that there is more.
    const room = this.#most === 0 ? 0 : this.#most + 1 - this.#size
    if (room <= 0) return
    // A copy: the chunk is a view of a larger buffer, which would be kept.
    const part = Buffer.from(bytes.subarray(0, room))
    this.#kept.push(part)
    this.#size += part.length
  }

  get begun(): boolean {
    return this.#reply.begun
  }

  get streaming(): boolean {
    return this.#reply.streaming
  }

  json(status: number, body: string | Buffer, extra?: readonly string[]): void {
    // Most whole answers have no such member: native code finds that out in a tenth of the time.
    if (this.#most > 0 || body.includes(MEMBER)) this.#record(typeof body === 'string' ? Buffer.from(body) : body)
    this.#reply.json(status, body, extra)
  }

  pieces(pieces: readonly Buffer[]): void {
    for (const piece of pieces) this.#record(piece)
    this.#reply.pieces(pieces)
  }

  empty(status: number, extra?: readonly string[]): void {
    this.#reply.empty(status, extra)
  }

  stream(): void {
    this.#reply.stream()
  }

  message(text: string | Buffer): boolean {
    return this.#reply.message(text)
  }

  heartbeat(): void {
    this.#reply.heartbeat()
  }

  part(bytes: Buffer): boolean {
    this.#record(bytes)
    return this.#reply.part(bytes)
  }

  onDrain(next: () => void): void {
    this.#reply.onDrain(next)
  }

  end(): void {
    this.#reply.end()
  }

  disconnect(): boolean {
    return this.#reply.disconnect()
  }

  endUnanswered(): void {
    this.#reply.endUnanswered()
  }

  abort(): void {
    this.#reply.abort()
  }
}

/** The parts of an answer that telemetry needs. */
const FOR_TELEMETRY = { responseBytes: 0, tellsApplicationErrors: true }

/** Methods whose result is a tool result. */
const OF_TOOLS: ReadonlySet<string> = new Set(['tools/call', 'tasks/result'])

/** Returns a reply to a message of this method that detects a tool's error result. */
export function findingErrorResult(reply: Reply, method: string): Reply {
  if (!OF_TOOLS.has(method) || (reply instanceof RecordedReply && reply.findsErrorResult)) return reply
  return new RecordedReply(reply, FOR_TELEMETRY)
}

/** Tells whether the answer to a message of this method was a tool's error result, if the reply detects that. */
export const isErrorResult = (reply: Reply, method: string): boolean =>
  reply instanceof RecordedReply && reply.isErrorResult && OF_TOOLS.has(method)

/** Detects `isError: true` in the result of a `tools/call` answer that comes in parts. Linear; it keeps nothing. */
class ErrorResult {
  isError = false
  readonly #skipper = new JsonSkipper()
  /** 0 before the answer, 1 in it, 2 in its result. */
  #depth = 0
  /** The last string at this depth, or its beginning. */
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
