import type { Socket } from 'node:net'
import { type buildConnector, errors } from 'undici'

/** The part of undici's parser that reads answers and counts the bytes of headers and trailers. */
interface Parser {
  readonly socket: Socket
  headersSize: number
  readonly headersMaxSize: number
  trackHeader(bytes: number): void
  /** The status of the answer that is being read; 0 before its head and after its end. */
  readonly statusCode: number
  /** The bytes of its body so far. */
  readonly bytesRead: number
  onStatus(text: Buffer): number
  onHeadersComplete(status: number, isUpgrade: boolean, isKept: boolean): number
  execute(chunk: Buffer): void
  /** The socket's bytes up to the chunk with the head of an answer that goes on. Absent until there was a long answer. */
  answerAt?: number | undefined
  /** The size of the informational answers since the last final one; see `MOST_INTERIM_BYTES`. */
  interimSize?: number
}

/** The limit of the informational answers (1xx) before an answer, and what each of them counts besides its headers. */
const MOST_INTERIM_BYTES = 64 * 1024
const INTERIM_BYTES = 64

/**
 * The limit of what is no body in an answer's body: sizes, extensions and ends of chunks (RFC 9112 section 7.1). It may
 * also be twice the body, for servers that write few bytes at a time.
 */
const MOST_FRAMING_BYTES = 512 * 1024
const FRAMING_SHARE = 2

const bounded = new WeakSet<Parser>()

/**
 * Makes undici report once that headers or trailers are too large. It makes an error for each further one of the
 * thousands in the same chunk, and the process does nothing else meanwhile. The text of the status, informational answers
 * and the framing of a body are limited, too: undici reads any amount of them. The parser exists once undici has the socket.
 */
function boundHeads(socket: Socket): void {
  const key = Object.getOwnPropertySymbols(socket).find(({ description }) => description === 'parser')
  const parser = key === undefined ? undefined : (socket as unknown as Readonly<Record<symbol, Parser | null>>)[key]
  const shared: Parser | null = parser === undefined || parser === null ? null : Object.getPrototypeOf(parser)
  if (shared === null || bounded.has(shared)) return
  bounded.add(shared)
  shared.trackHeader = function (this: Parser, bytes) {
    this.headersSize += bytes
    if (this.headersSize >= this.headersMaxSize && !this.socket.destroyed)
      this.socket.destroy(new errors.HeadersOverflowError())
  }
  const { onStatus, onHeadersComplete, execute } = shared
  shared.onStatus = function (this: Parser, text) {
    this.trackHeader(text.length)
    return onStatus.call(this, text)
  }
  shared.execute = function (this: Parser, chunk) {
    execute.call(this, chunk)
    // Most answers have ended by now. They need no count, and their parser no further field, which would make it slower.
    const { socket, statusCode, bytesRead } = this
    if (statusCode < 200 || socket.destroyed) return
    // A chunk that undici puts back and reads again counts once.
    this.answerAt ??= socket.bytesRead - chunk.length
    if (socket.bytesRead - this.answerAt > MOST_FRAMING_BYTES + (1 + FRAMING_SHARE) * bytesRead)
      socket.destroy(new errors.ResponseExceededMaxSizeError('the answer has more framing than body'))
  }
  shared.onHeadersComplete = function (this: Parser, status, isUpgrade, isKept) {
    if (this.answerAt !== undefined) this.answerAt = undefined
    if (status >= 200) {
      if (this.interimSize) this.interimSize = 0
    } else {
      this.interimSize = (this.interimSize ?? 0) + INTERIM_BYTES + this.headersSize
      if (this.interimSize > MOST_INTERIM_BYTES) this.socket.destroy(new errors.HeadersOverflowError())
    }
    return onHeadersComplete.call(this, status, isUpgrade, isKept)
  }
}

/** Wraps a connector of undici: the answers on its connections are limited as above. */
export const boundedConnector =
  (connector: buildConnector.connector): buildConnector.connector =>
  (target, callback) =>
    connector(target, (...connected) => {
      callback(...connected)
      if (connected[0] === null) boundHeads(connected[1])
    })
