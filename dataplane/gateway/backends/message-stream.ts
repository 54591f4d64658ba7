import type { Dispatcher } from 'undici'
import { type SseReceiver, SseSplitter } from '../mcp/sse-splitter.ts'

export interface MessageStreamOptions {
  /** One event's data. */
  onMessage(bytes: Buffer): void
  /** The stream has begun. */
  onBegin?(): void
  /** The stream is over: it had begun, or was `refused` with this HTTP status, 0 where there was no answer. */
  onEnd(refused: number | undefined): void
}

/** Largest message that is taken from such a stream; a larger one is dropped. */
const LARGEST = 1024 * 1024

/** A stream of messages that belong to no request of ours, until one side ends it. */
export class MessageStream implements Dispatcher.DispatchHandler, SseReceiver {
  readonly #options: MessageStreamOptions
  readonly #splitter = new SseSplitter(this)
  #controller: Dispatcher.DispatchController | undefined
  #event: Buffer[] = []
  #size = 0
  /** Undefined once it has begun. */
  #refused: number | undefined = 0
  #over = false

  constructor(options: MessageStreamOptions) {
    this.#options = options
  }

  /** What the next stream may go on behind: the id of the last event that had one. */
  get lastEventId(): string | undefined {
    return this.#splitter.lastEventId
  }

  /** How long to wait before the next one, where the backend has said so. */
  get retryMs(): number | undefined {
    return this.#splitter.retryMs
  }

  stop(): void {
    this.#over = true
    this.#controller?.abort(new Error('no longer of interest'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#over) controller.abort(new Error('no longer of interest'))
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status === 200 && String(headers['content-type']).startsWith('text/event-stream')) {
      this.#refused = undefined
      this.#options.onBegin?.()
    } else {
      this.#refused = status
      controller.abort(new Error('no stream'))
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over) this.#splitter.push(chunk)
  }

  onResponseEnd(): void {
    this.#end()
  }

  onResponseError(): void {
    this.#end()
  }

  #end(): void {
    if (this.#over) return
    this.#over = true
    this.#options.onEnd(this.#refused)
  }

  onEventData(bytes: Buffer): void {
    this.#size += bytes.length
    if (this.#size <= LARGEST) this.#event.push(bytes)
  }

  onEventEnd(): void {
    const message = this.#size <= LARGEST ? Buffer.concat(this.#event) : undefined
    this.#event = []
    this.#size = 0
    if (message !== undefined && message.length > 0 && !this.#over) this.#options.onMessage(message)
  }
}
