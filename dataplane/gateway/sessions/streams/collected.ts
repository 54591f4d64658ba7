import type { EventSink } from '../relay/event-sink.ts'

/** How long another replica may take to give what it has. */
const PATIENCE_MS = 2_000

/** Collects the events of a stream that is over, or is over here. */
export class Collected implements EventSink {
  /** Settles when all of it is there, or all that will come. */
  readonly whole: Promise<void>
  readonly #events: (readonly [data: Buffer, id: string | undefined])[] = []
  readonly #resolve: () => void

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, PATIENCE_MS)
    this.whole = promise.finally(() => clearTimeout(timer))
    this.#resolve = resolve
  }

  /** Sends all of them again. */
  giveTo(sink: EventSink): void {
    for (const [data, id] of this.#events) sink.event(data, id)
  }

  event(data: Buffer, id?: string): boolean {
    this.#events.push([data, id])
    return true
  }

  part(): boolean {
    return true
  }

  onDrain(next: () => void): void {
    next()
  }

  heartbeat(): void {
    // Events are collected, not sent: no connection has to be kept open.
  }

  end(): void {
    this.#resolve()
  }

  abort(): void {
    this.#resolve()
  }
}
