import type { Dispatcher } from 'undici'
import {
  type HeadersRead,
  RelayHandler,
  type Transport,
  WrappedTransport,
} from '../../../dataplane/gateway/backends/connection/http.ts'
import { SseSplitter } from '../../../dataplane/gateway/mcp/sse-splitter.ts'
import { isKnownEncoding } from '../../../dataplane/net/body-decoder.ts'

/** The bytes that are kept of each answer. */
const MOST_BYTES = 256 * 1024

export interface Exchange {
  readonly method: string
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
export class ObservedTransport extends WrappedTransport {
  readonly exchanges: Exchange[] = []

  constructor(inner: Transport) {
    super(inner, (options, handler) => this.#observed(options, handler))
  }

  last(asked: string): Exchange | undefined {
    return this.exchanges.findLast((exchange) => exchange.asked === asked)
  }

  #observed({ method, body }: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
    const exchange: Exchange = {
      method,
      asked: typeof body === 'string' ? readMethod(body) : undefined,
      status: 0,
      headers: {},
      body: Buffer.alloc(0),
      hasEnded: false,
    }
    this.exchanges.push(exchange)
    return new Observer(exchange, handler)
  }
}

function readMethod(body: string): string | undefined {
  const { id, method } = JSON.parse(body) as { readonly id?: unknown; readonly method?: string }
  return id === undefined ? undefined : method
}

type Controller = Dispatcher.DispatchController

class Observer extends RelayHandler {
  readonly #exchange: Exchange

  constructor(exchange: Exchange, handler: Dispatcher.DispatchHandler) {
    super(handler)
    this.#exchange = exchange
  }

  override onResponseStart(controller: Controller, status: number, headers: HeadersRead, text?: string): void {
    this.#exchange.status = status
    this.#exchange.headers = headers
    super.onResponseStart(controller, status, headers, text)
  }

  override onResponseData(controller: Controller, chunk: Buffer): void {
    const exchange = this.#exchange
    if (!isKnownEncoding(exchange.headers['content-encoding']) && exchange.body.length < MOST_BYTES)
      exchange.body = Buffer.concat([exchange.body, chunk])
    super.onResponseData(controller, chunk)
  }

  override onResponseEnd(controller: Controller, trailers: HeadersRead): void {
    this.#exchange.hasEnded = true
    super.onResponseEnd(controller, trailers)
  }

  override onResponseError(controller: Controller, error: Error): void {
    this.#exchange.hasEnded = true
    super.onResponseError(controller, error)
  }
}

/** Returns the messages of an answer, as texts; of a stream, the complete ones. */
export function readMessages({ headers, body, hasEnded }: Exchange): readonly string[] {
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
  // The last event of a stream may lack the empty line behind it.
  if (hasEnded) splitter.push(Buffer.from('\n\n'))
  return messages.filter((message) => message !== '')
}
