import type { Caller } from '../../identity/caller.ts'
import type { Backend } from '../backends/backend/backend.ts'

/** The lists whose changes are notified. */
export type ChangedList = 'tools' | 'prompts' | 'resources'

/** The stream of a modern client that listens. */
export interface Listening {
  readonly caller: Caller
  readonly binding: string
  /** Notifies the client that a list has changed, if it has subscribed to that. */
  changed(list: ChangedList): void
  /** Tells whether it watches resources at this backend. */
  watches(backend: Backend): boolean
  heartbeat(): void
  /** Ends the stream from our side. */
  end(): void
}

/** The modern clients that listen to changes (`subscriptions/listen`). */
export class Listeners {
  readonly #open = new Set<Listening>()

  add(listener: Listening): void {
    this.#open.add(listener)
  }

  delete(listener: Listening): void {
    this.#open.delete(listener)
  }

  get all(): readonly Listening[] {
    return [...this.#open]
  }

  /** Ends streams that watch resources at a backend that is gone: their clients subscribe again, at its replacement. */
  forget(backend: Backend): void {
    for (const listener of this.#open) if (listener.watches(backend)) listener.end()
  }

  keepAlive(): void {
    for (const listener of this.#open) listener.heartbeat()
  }

  end(): void {
    for (const listener of this.#open) listener.end()
  }
}
