/** How one request is answered: over HTTP here, as one of a batch, or by way of the replica that has the client. */
export interface Reply {
  /** Whether something has been written, so that the answer can't become another one. */
  readonly begun: boolean
  /** Whether the answer is a stream of events, between two of them. */
  readonly streaming: boolean
  /** A whole answer. `extra` is a flat list of headers. */
  json(status: number, body: string | Buffer, extra?: readonly string[]): void
  /** A whole answer in pieces, of which those that many clients get are in memory once. */
  pieces(pieces: readonly Buffer[]): void
  /** An answer without a body. */
  empty(status: number, extra?: readonly string[]): void
  /** Makes the answer a stream of events, at once. */
  stream(): void
  /** One message on the stream. False where the client can't keep up. */
  message(text: string | Buffer): boolean
  /** Something without a meaning, since proxies and clients give up on a silent stream. */
  heartbeat(): void
  /** A part of an answer that is too large to be held. False where the client can't keep up. */
  part(bytes: Buffer): boolean
  /** Calls `next` once when the client can take more, after `part` or `message` has given false. */
  onDrain(next: () => void): void
  /** Ends an answer that was given in parts. */
  end(): void
  /** Ends the connection of a stream that its client can resume; false where there is no such stream. */
  disconnect(): boolean
  /** Ends without an answer: the client has cancelled and expects none. */
  endUnanswered(): void
  /** Breaks off an answer that can't be completed, so that the client notices. */
  abort(): void
}
