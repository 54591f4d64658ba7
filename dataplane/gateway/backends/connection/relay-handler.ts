import type { Dispatcher } from 'undici'
import type { Transport } from './transport.ts'

type Headers = Record<string, string | string[] | undefined>

/** Passes all events of a request to another handler. Subclasses inspect some of them. */
export class RelayHandler implements Dispatcher.DispatchHandler {
  protected readonly handler: Dispatcher.DispatchHandler

  constructor(handler: Dispatcher.DispatchHandler) {
    this.handler = handler
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.handler.onRequestStart?.(controller, context)
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers, text?: string): void {
    this.handler.onResponseStart?.(controller, status, headers, text)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: Headers): void {
    this.handler.onResponseEnd?.(controller, trailers)
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.handler.onResponseError?.(controller, error)
  }
}

type WrapHandler = (
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
) => Dispatcher.DispatchHandler

/** A transport that wraps the handler of each request with `wrap`. */
export class WrappedTransport implements Transport {
  readonly #inner: Transport
  readonly #wrap: WrapHandler

  constructor(inner: Transport, wrap: WrapHandler) {
    this.#inner = inner
    this.#wrap = wrap
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.dispatch(options, this.#wrap(options, handler))
  }

  stream(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.stream(options, this.#wrap(options, handler))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  destroy(): Promise<void> {
    return this.#inner.destroy()
  }
}
