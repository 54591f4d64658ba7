import type { Dispatcher } from 'undici'

const EVENT_STREAM = { 'content-type': 'text/event-stream' }
const JSON_TYPE = { 'content-type': 'application/json' }

/** Imitates one HTTP exchange for undici's handlers: a request was sent, and its answer arrives in parts. */
export class Exchange implements Dispatcher.DispatchController {
  readonly rawHeaders = null
  readonly rawTrailers = null
  paused = false
  aborted = false
  reason: Error | null = null
  /** True once the answer is complete, or can't be any more. */
  over = false
  /** Called if the receiver disconnects before the answer is complete. */
  onAborted: (() => void) | undefined
  readonly #handler: Dispatcher.DispatchHandler
  #streaming = false

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler
    handler.onRequestStart?.(this, {})
  }

  abort(reason: Error): void {
    if (this.aborted || this.over) return
    this.aborted = true
    this.reason = reason
    this.over = true
    this.onAborted?.()
    // Like undici, it does not call the handler during the call that aborts.
    queueMicrotask(() => this.#handler.onResponseError?.(this, reason))
  }

  /** Does nothing: the answer is already in memory. */
  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }

  /** Sends a whole answer. */
  answer(status: number, body = '', headers: Readonly<Record<string, string>> = JSON_TYPE): void {
    if (this.#streaming) {
      this.event(body)
      this.end()
      return
    }
    if (this.over) return
    const handler = this.#handler
    handler.onResponseStart?.(this, status, { ...headers })
    if (!this.aborted && body !== '') handler.onResponseData?.(this, Buffer.from(body))
    this.end()
  }

  /** Starts an event stream as the answer. */
  stream(): void {
    if (this.#streaming || this.over) return
    this.#streaming = true
    this.#handler.onResponseStart?.(this, 200, { ...EVENT_STREAM })
  }

  /** Sends one message on the stream. */
  event(text: string): void {
    this.stream()
    if (this.over) return
    // In JSON a line break is white space, but in an event it would end the data.
    this.#handler.onResponseData?.(this, Buffer.from(`data: ${text.replaceAll(/[\r\n]/g, ' ')}\n\n`))
  }

  end(): void {
    if (this.over) return
    this.over = true
    this.#handler.onResponseEnd?.(this, {})
  }

  fail(error: Error): void {
    if (this.over) return
    this.over = true
    this.#handler.onResponseError?.(this, error)
  }
}
