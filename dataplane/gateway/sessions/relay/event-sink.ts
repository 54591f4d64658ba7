/** The receiver of a stream's events: a client's connection, or the replica to which the client is connected. */
export interface EventSink {
  /** Sends one event. Returns false if the source should pause. */
  event(data: Buffer, id?: string): boolean
  /** Sends a part of the data of an event that is too large to buffer. The first part begins the event. */
  part(data: Buffer, id?: string): boolean
  /** Calls `next` when the source may continue after a false. */
  onDrain(next: () => void): void
  /** Sends a comment, because proxies and clients close a silent stream. */
  heartbeat(): void
  /** Completes the stream, and an event that was sent in parts. */
  end(): void
  /** Aborts the stream. */
  abort(): void
}
