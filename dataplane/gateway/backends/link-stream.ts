import type { Link, Opened } from './link.ts'
import { MessageStream } from './message-stream.ts'

const RETRY_MS = 1_000
/** How long a call may wait for the stream: a backend that answers late is not heard before it speaks. */
const BEGIN_MS = 1_000

/**
 * The stream on which a legacy backend says in a session what belongs to no request. One that it refuses is not asked
 * for again in the same session; one that ends is.
 */
export class LinkStream {
  readonly #link: Link
  readonly #onMessage: (bytes: Buffer) => void
  #stream: MessageStream | undefined
  #refusedIn: Opened | undefined
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(link: Link, onMessage: (bytes: Buffer) => void) {
    this.#link = link
    this.#onMessage = onMessage
  }

  /**
   * Settles when the stream has begun or was refused; undefined where there is nothing to wait for. What a backend
   * says to nobody is lost: calls wait for it.
   */
  beginning: Promise<void> | undefined

  /** Opens it where it can be open and isn't. */
  keep(): void {
    const { opened, backend } = this.#link
    if (this.#stopped || this.#stream !== undefined || opened === undefined || this.#refusedIn === opened) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, BEGIN_MS)
    this.beginning = promise.finally(() => {
      clearTimeout(timer)
      this.beginning = undefined
    })
    const stream = new MessageStream({
      onMessage: this.#onMessage,
      onBegin: resolve,
      onEnd: (wasOpen) => {
        this.#stream = undefined
        resolve()
        if (!wasOpen) this.#refusedIn = opened
        else if (!this.#stopped && !backend.closed) {
          this.#timer = setTimeout(() => this.keep(), RETRY_MS)
          this.#timer.unref()
        }
      },
    })
    this.#stream = stream
    try {
      const headers = this.#link.headers()
      headers[headers.indexOf('accept') + 1] = 'text/event-stream'
      backend.dispatcher.dispatch({ path: backend.path, method: 'GET', headers }, stream)
    } catch {
      this.#stream = undefined
      resolve()
    }
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#stream?.stop()
  }
}
