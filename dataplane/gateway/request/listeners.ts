import type { Caller } from '../../identity/caller.ts'
import type { Backend } from '../backends/backend/backend.ts'

/** Lists whose changes are notified. */
export type ChangedList = 'tools' | 'prompts' | 'resources'

/** The stream of a modern client that listens. */
export interface Listening {
  /** Who listens. */
  readonly caller: Caller
  readonly binding: string
  /** A list has changed: notifies the client where it has subscribed to that. */
  changed(list: ChangedList): void
  /** Whether it watches resources at this backend. */
  watches(backend: Backend): boolean
  heartbeat(): void
  /** Ends it from our side. */
  end(): void
}

/** Modern clients that listen to changes (`subscriptions/listen`). */
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

  /** Ends those that watch resources at a backend that is gone: their clients ask anew, of the one in its place. */
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
