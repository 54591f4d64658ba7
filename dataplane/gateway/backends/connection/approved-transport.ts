import type { Dispatcher } from 'undici'
import { BackendFailure } from './failure.ts'
import { RelayHandler, WrappedTransport } from './relay-handler.ts'
import type { Transport } from './transport.ts'

/** The header (name and value) in a proxy's answers while it enforces its pins. */
export const HELD_TO_PINS: readonly [string, string] = ['portico-definitions', 'enforced']

/**
 * Accepts answers of a proxy only if it enforced its pins when it gave them. The configuration of the proxy's pods may
 * be older than its object, and a gateway can't tell approved definitions from others.
 */
export const approvedTransport = (inner: Transport): Transport =>
  new WrappedTransport(inner, (_, handler) => new ApprovedAnswer(handler))

/** Passes an answer on, or fails the request before the first byte of the body. */
class ApprovedAnswer extends RelayHandler {
  #isRefused = false

  override onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
    text?: string,
  ): void {
    if (headers[HELD_TO_PINS[0]] === HELD_TO_PINS[1]) {
      super.onResponseStart(controller, status, headers, text)
      return
    }
    this.#isRefused = true
    controller.abort(
      new BackendFailure('backend_unavailable', `its pods don’t enforce its pins yet (answered with HTTP ${status})`),
    )
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#isRefused) super.onResponseData(controller, chunk)
  }

  override onResponseEnd(
    controller: Dispatcher.DispatchController,
    trailers: Record<string, string | string[] | undefined>,
  ): void {
    if (!this.#isRefused) super.onResponseEnd(controller, trailers)
  }
}
