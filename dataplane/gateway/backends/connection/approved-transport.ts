import type { Dispatcher } from 'undici'
import { BackendFailure } from './failure.ts'
import type { Transport } from './transport.ts'

/** The header (name and value) of a proxy's answers while it withholds what its pins don't approve. */
export const HELD_TO_PINS: readonly [string, string] = ['portico-definitions', 'enforced']

/**
 * Takes answers of a proxy only if it withheld what is not approved when it gave them: the configuration of its pods may
 * be older than its object, and a gateway can't tell an approved definition from another one.
 */
export class ApprovedTransport implements Transport {
  readonly #inner: Transport

  constructor(inner: Transport) {
    this.#inner = inner
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.dispatch(options, new ApprovedAnswer(handler))
  }

  stream(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.stream(options, new ApprovedAnswer(handler))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  destroy(): Promise<void> {
    return this.#inner.destroy()
  }
}

/** Hands an answer on, or fails the request before the first byte of its body. */
class ApprovedAnswer implements Dispatcher.DispatchHandler {
  readonly #handler: Dispatcher.DispatchHandler
  #isRefused = false

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#handler.onRequestStart?.(controller, context)
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
    text?: string,
  ): void {
    if (headers[HELD_TO_PINS[0]] === HELD_TO_PINS[1]) {
      this.#handler.onResponseStart?.(controller, status, headers, text)
      return
    }
    this.#isRefused = true
    controller.abort(
      new BackendFailure('backend_unavailable', `its pods don’t enforce its pins yet (answered with HTTP ${status})`),
    )
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#isRefused) this.#handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(
    controller: Dispatcher.DispatchController,
    trailers: Record<string, string | string[] | undefined>,
  ): void {
    if (!this.#isRefused) this.#handler.onResponseEnd?.(controller, trailers)
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.#handler.onResponseError?.(controller, error)
  }
}
