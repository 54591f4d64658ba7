import type { Dispatcher } from 'undici'
import type { HeadersRead } from '../../../dataplane/gateway/backends/connection/answer-head.ts'
import type { Transport } from '../../../dataplane/gateway/backends/connection/transport.ts'
import { SseSplitter } from '../../../dataplane/gateway/mcp/sse-splitter.ts'

/** The bytes that are kept of each answer. */
const MOST_BYTES = 256 * 1024

/** An HTTP request to a server, and its raw answer. */
export interface Exchange {
  readonly method: string
  readonly path: string
  /** The JSON-RPC method of the request; undefined if the request had no body, or expects no answer. */
  readonly asked: string | undefined
  /** 0 while there is no answer. */
  status: number
  headers: HeadersRead
  /** The beginning of an answer that was not compressed. */
  body: Buffer
  hasEnded: boolean
}

/** A transport that records its exchanges; the data plane's own readers read everything. */
export class ObservedTransport implements Transport {
  readonly exchanges: Exchange[] = []
  readonly #inner: Transport

  constructor(inner: Transport) {
    this.#inner = inner
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.dispatch(options, this.#observed(options, handler))
  }

  stream(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#inner.stream(options, this.#observed(options, handler))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  destroy(): Promise<void> {
    return this.#inner.destroy()
  }

  /** Returns the last exchange with this method. */
  last(asked: string): Exchange | undefined {
    return this.exchanges.findLast((exchange) => exchange.asked === asked)
  }

  #observed({ method, path, body }: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
    const exchange: Exchange = {
      method,
      path,
      asked: typeof body === 'string' ? askedIn(body) : undefined,
      status: 0,
      headers: {},
      body: Buffer.alloc(0),
      hasEnded: false,
    }
    this.exchanges.push(exchange)
    return new Observer(exchange, handler)
  }
}

function askedIn(body: string): string | undefined {
  const { id, method } = JSON.parse(body) as { readonly id?: unknown; readonly method?: string }
  return id === undefined ? undefined : method
}

class Observer implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange
  readonly #handler: Dispatcher.DispatchHandler

  constructor(exchange: Exchange, handler: Dispatcher.DispatchHandler) {
    this.#exchange = exchange
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
    this.#exchange.status = status
    this.#exchange.headers = headers
    this.#handler.onResponseStart?.(controller, status, headers, text)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const exchange = this.#exchange
    if (exchange.headers['content-encoding'] === undefined && exchange.body.length < MOST_BYTES)
      exchange.body = Buffer.concat([exchange.body, chunk])
    this.#handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(
    controller: Dispatcher.DispatchController,
    trailers: Record<string, string | string[] | undefined>,
  ): void {
    this.#exchange.hasEnded = true
    this.#handler.onResponseEnd?.(controller, trailers)
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.#exchange.hasEnded = true
    this.#handler.onResponseError?.(controller, error)
  }
}

/** Returns the messages of an answer, as texts; of a stream, the complete ones. */
export function messagesIn({ headers, body }: Exchange): readonly string[] {
  const type = headers['content-type']
  if (typeof type !== 'string' || !type.toLowerCase().startsWith('text/event-stream')) return [body.toString('utf8')]
  const messages: string[] = []
  let data: Buffer[] = []
  const splitter = new SseSplitter({
    onEventData: (bytes) => void data.push(Buffer.from(bytes)),
    onEventEnd() {
      messages.push(Buffer.concat(data).toString('utf8'))
      data = []
    },
  })
  splitter.push(body)
  return messages.filter((message) => message !== '')
}
