import type { Dispatcher } from 'undici'
import type { SignRequest } from '../../../credentials/index.ts'
import { BackendFailure } from './failure.ts'
import { mergeHeaders } from './headers.ts'

/** What requests to a backend go through; whatever its transport, it looks like Streamable HTTP. */
export interface Transport extends Pick<Dispatcher, 'dispatch'> {
  /** Dispatches what is answered by a stream that goes on until one side ends it: it takes no connection from calls. */
  stream: Dispatcher['dispatch']
  /** Waits for what is on its way, then ends the connections. */
  close(): Promise<void>
  /** Ends the connections now. */
  destroy(): Promise<void>
}

/** Each call holds a connection to its backend until it is answered, those that wait for a person as well. */
export const MOST_CALLS = 1024

/**
 * Signs each request on its way to a backend with what its caller has at that moment. All that is sent for the caller
 * goes through here: calls, lists, streams, the ends of sessions. The connections are those of another transport.
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

  /** Throws a BackendFailure where there is nothing to sign with: a request without its credential is never sent. */
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
