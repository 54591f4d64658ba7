import type { Dispatcher } from 'undici'
import { BackendFailure } from './failure.ts'
import { RelayHandler, WrappedTransport } from './relay-handler.ts'
import type { Transport } from './transport.ts'

/** The header (name and value) of a proxy's answers while it withholds what its pins don't approve. */
export const HELD_TO_PINS: readonly [string, string] = ['portico-definitions', 'enforced']

/**
 * Takes answers of a proxy only if it withheld what is not approved when it gave them: the configuration of its pods may
 * be older than its object, and a gateway can't tell an approved definition from another one.
 */
export const approvedTransport = (inner: Transport): Transport =>
  new WrappedTransport(inner, (_, handler) => new ApprovedAnswer(handler))

/** Hands an answer on, or fails the request before the first byte of its body. */
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
