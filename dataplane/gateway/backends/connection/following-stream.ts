import type { Dispatcher } from 'undici'
import { type HeadersRead, redirectIn, SAME_METHOD } from './answer-head.ts'
import { RelayHandler } from './relay-handler.ts'
import type { Transport } from './transport.ts'

interface FollowedPeer {
  readonly dispatcher: Pick<Transport, 'stream'>
  readonly url: URL
  /** Records that requests of every method are redirected to this path. */
  moved?(path: string): void
}

/** Opens a stream and follows one redirect within the backend's origin. All other events go to `handler`. */
export function openStream(
  peer: FollowedPeer,
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
): void {
  peer.dispatcher.stream(options, new FollowingStream(peer, options, handler))
}

class FollowingStream extends RelayHandler {
  readonly #peer: FollowedPeer
  readonly #options: Dispatcher.DispatchOptions
  /** The target of the redirect. */
  #path: string | undefined

  constructor(peer: FollowedPeer, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
    super(handler)
    this.#peer = peer
    this.#options = options
  }

  override onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: HeadersRead & Record<string, string | string[] | undefined>,
    text?: string,
  ): void {
    const { url } = this.#peer
    this.#path = redirectIn({ status, headers }, this.#options.method, url)
    if (this.#path === undefined) {
      super.onResponseStart(controller, status, headers, text)
      return
    }
    if (SAME_METHOD.has(status)) this.#peer.moved?.(this.#path)
    controller.abort(new Error('redirected'))
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#path === undefined) super.onResponseData(controller, chunk)
  }

  override onResponseEnd(
    controller: Dispatcher.DispatchController,
    trailers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#path === undefined) super.onResponseEnd(controller, trailers)
    else this.#follow(this.#path)
  }

  override onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#path === undefined) super.onResponseError(controller, error)
    else this.#follow(this.#path)
  }

  /** A handler that was stopped meanwhile ends this request as soon as it starts. */
  #follow(path: string): void {
    this.#peer.dispatcher.stream({ ...this.#options, path }, this.handler)
  }
}
