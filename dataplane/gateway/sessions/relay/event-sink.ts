/** Where the events of a stream go: to a client's connection, or to the replica that has that. */
export interface EventSink {
  /** One event. False where no more should come for now. */
  event(data: Buffer, id?: string): boolean
  /** A part of an event's data that is too large to be held; the first one begins the event. */
  part(data: Buffer, id?: string): boolean
  /** Calls `next` when there is room again, after a false. */
  onDrain(next: () => void): void
  /** Something without a meaning, since proxies and clients give up on a silent stream. */
  heartbeat(): void
  /** The stream is whole, and so is an event that was given in parts. */
  end(): void
  /** The stream breaks off. */
  abort(): void
}
