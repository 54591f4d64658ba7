/** The receiver of a stream's events: a client's connection, or the replica that has it. */
export interface EventSink {
  /** Takes one event. False if no more should come for now. */
  event(data: Buffer, id?: string): boolean
  /** Takes a part of an event's data that is too large to be held; the first one begins the event. */
  part(data: Buffer, id?: string): boolean
  /** Calls `next` when there is room again, after a false. */
  onDrain(next: () => void): void
  /** Sends something without a meaning, since proxies and clients give up on a silent stream. */
  heartbeat(): void
  /** Completes the stream, and an event that was given in parts. */
  end(): void
  /** Breaks the stream off. */
  abort(): void
}
