import type { AuditLog } from '../../../audit/event.ts'
import type { Reply } from '../reply.ts'
import { ErrorResult, MEMBER } from './error-result.ts'

/** Whether the audit log is told anything of answers. */
export const recordsAnswers = ({ responseBytes, tellsApplicationErrors }: AuditLog): boolean =>
  responseBytes > 0 || tellsApplicationErrors

/** A reply of which the audit log is told something: how the answer begins, and whether it is a tool's error result. */
export class RecordedReply implements Reply {
  readonly #reply: Reply
  readonly #most: number
  readonly #kept: Buffer[] = []
  #size = 0
  readonly #errorResult: ErrorResult | undefined

  constructor(reply: Reply, log: AuditLog) {
    this.#reply = reply
    this.#most = log.responseBytes
    this.#errorResult = log.tellsApplicationErrors ? new ErrorResult() : undefined
  }

  /** The answer, or as much of it as is needed to cut it; undefined where there is none. */
  get text(): string | undefined {
    return this.#size === 0 ? undefined : Buffer.concat(this.#kept).toString('utf8')
  }

  get isErrorResult(): boolean {
    return this.#errorResult?.isError === true
  }

  #record(bytes: Buffer): void {
    this.#errorResult?.push(bytes)
    // One byte more than is written tells that there is more.
    const room = this.#most === 0 ? 0 : this.#most + 1 - this.#size
    if (room <= 0) return
    // A copy: what comes is a part of a larger buffer, which would be kept.
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
