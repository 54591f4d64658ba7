import type { Dispatcher } from 'undici'
import type { SignRequest } from '../../../credentials/index.ts'
import { BackendFailure } from './failure.ts'
import { mergeHeaders } from './headers.ts'

/** Sends requests to a backend. Every implementation behaves like Streamable HTTP. */
export interface Transport extends Pick<Dispatcher, 'dispatch'> {
  /** Dispatches a request whose answer is a long-lived stream, without taking a connection from calls. */
  stream: Dispatcher['dispatch']
  /** Waits for requests in flight, then ends the connections. */
  close(): Promise<void>
  destroy(): Promise<void>
}

/**
 * The most concurrent calls. Each holds a connection to its backend until it is answered, even while it waits for a
 * person.
 */
export const MOST_CALLS = 1024

/**
 * Signs each request to a backend with the caller's current credential. All requests for the caller pass through it:
 * calls, lists, streams and the ends of sessions. It uses the connections of another transport.
 */
export class SigningTransport implements Transport {
  readonly #inner: Transport
  readonly #host: string
  readonly #signer: () => SignRequest | undefined

  constructor(inner: Transport, host: string, signer: () => SignRequest | undefined) {
    this.#inner = inner
    this.#host = host
    this.#signer = signer
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.dispatch(this.#signed(options), handler)
  }

  stream(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.stream(this.#signed(options), handler)
  }

  /** Signs a request. Throws a BackendFailure without a credential, because an unsigned request must not be sent. */
  #signed(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
    const sign = this.#signer()
    if (sign === undefined) throw new BackendFailure('backend_unavailable', 'there is no credential of the caller')
    const { method, path } = options
    const headers = options.headers as readonly string[]
    const body = options.body as string | null | undefined
    return { ...options, headers: mergeHeaders(headers, sign({ method, host: this.#host, path, headers, body })) }
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  destroy(): Promise<void> {
    return this.#inner.destroy()
  }
}
