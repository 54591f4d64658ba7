/** The answer to one request: over HTTP here, as a part of a batch, or through the replica that has the client. */
export interface Reply {
  /** Tells whether something was written, so that the answer can't become another one. */
  readonly begun: boolean
  /** Tells whether the answer is a stream of events and no event is being written. */
  readonly streaming: boolean
  /** Sends a whole answer. `extra` is a flat list of headers. */
  json(status: number, body: string | Buffer, extra?: readonly string[]): void
  /** Sends a whole answer in pieces; pieces that many clients get are in memory once. */
  pieces(pieces: readonly Buffer[]): void
  /** Sends an answer without a body. */
  empty(status: number, extra?: readonly string[]): void
  /** Turns the answer into a stream of events, at once. */
  stream(): void
  /** Sends one message on the stream. False if the client can't keep up. */
  message(text: string | Buffer): boolean
  /** Sends something without a meaning, since proxies and clients give up on a silent stream. */
  heartbeat(): void
  /** Sends a part of an answer that is too large to be held. False if the client can't keep up. */
  part(bytes: Buffer): boolean
  /** Calls `next` once when the client can take more, after `part` or `message` has returned false. */
  onDrain(next: () => void): void
  /** Ends an answer that was given in parts. */
  end(): void
  /** Ends the connection of a stream that its client can resume; false if there is no such stream. */
  disconnect(): boolean
  /** Ends without an answer, after the client has cancelled. */
  endUnanswered(): void
  /** Breaks off an answer that can't be completed, so that the client notices. */
  abort(): void
}
