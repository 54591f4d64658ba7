import type { Socket } from 'node:net'
import { errors } from 'undici'

/** The part of undici's parser that reads the heads of answers and counts the bytes of headers and trailers. */
interface Parser {
  readonly socket: Socket
  headersSize: number
  readonly headersMaxSize: number
  trackHeader(bytes: number): void
  onHeadersComplete(status: number, isUpgrade: boolean, isKept: boolean): number
  /** The size of the informational answers since the last final one; see `MOST_INTERIM_BYTES`. */
  interimSize?: number
}

/** The limit of the informational answers (1xx) before an answer, and what each of them counts besides its headers. */
const MOST_INTERIM_BYTES = 64 * 1024
const INTERIM_BYTES = 64

const bounded = new WeakSet<Parser>()

/**
 * Makes undici report once that headers or trailers are too large. It makes an error for each further one of the
 * thousands in the same chunk, and the process does nothing else meanwhile. Informational answers are limited, too:
 * undici reads any number of them. The parser exists once undici has the socket.
 */
export function boundHeads(socket: Socket): void {
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
  const { onHeadersComplete } = shared
  shared.onHeadersComplete = function (this: Parser, status, ...others) {
    if (status >= 200) this.interimSize = 0
    else {
      this.interimSize = (this.interimSize ?? 0) + INTERIM_BYTES + this.headersSize
      if (this.interimSize > MOST_INTERIM_BYTES) this.socket.destroy(new errors.HeadersOverflowError())
    }
    return onHeadersComplete.call(this, status, ...others)
  }
}
