import type { Dispatcher } from 'undici'
import { type BodyDecoder, decoderFor } from '../../../net/body-decoder.ts'
import type { Share } from '../../../server/budget.ts'
import { memberText } from '../../mcp/json.ts'
import { type SseReceiver, SseSplitter } from '../../mcp/sse-splitter.ts'
import { BackendFailure, connectionFailure, readRpcError } from '../connection/failure.ts'
import { type HeadersRead, IDENTITY, isOfType, isSuccess, openStream, type Transport } from '../connection/http.ts'
import { requestBackend } from '../connection/request.ts'
import { UnfinishedEvent } from '../connection/unfinished-event.ts'
import { type Channel, type ChannelReceiver, DroppedMessage, LONGEST_LINE, type OpenChannel } from './channel.ts'

interface SseChannelOptions {
  readonly url: URL
  readonly dispatcher: Transport
  /** The backend's share: counts the bytes of an incomplete event. */
  readonly share: Share
}

/** The timeout of the stream's first event, and of the acceptance of a message. */
const PATIENCE_MS = 10_000

/**
 * Opens a channel to a server of revision 2024-11-05 (HTTP+SSE). The server names the address for messages on a stream
 * and answers on that stream. When the stream ends, the session is over, and the next one opens a new stream.
 */
export function sseChannel({ url, dispatcher, share }: SseChannelOptions): OpenChannel {
  return function openSse(receiver, headers) {
    const { promise, resolve, reject } = Promise.withResolvers<Channel>()
    const own = ownHeaders(headers)
    const stream = new Stream({
      receiver,
      opened: (endpoint) => resolve(channelTo(endpoint, own, { dispatcher, share }, stream)),
      refused: reject,
      url,
      share,
    })
    openStream(
      { dispatcher, url },
      { path: url.pathname + url.search, method: 'GET', headers: ['accept', 'text/event-stream', ...IDENTITY, ...own] },
      stream,
    )
    return promise
  }
}

type Peer = Pick<SseChannelOptions, 'dispatcher' | 'share'>

/** Returns the channel whose messages go to this address, with the headers `own` (a flat list) unless they have others. */
function channelTo(endpoint: URL, own: readonly string[], peer: Peer, stream: Stream): Channel {
  let path = endpoint.pathname + endpoint.search
  return {
    async send(text, headers) {
      const sent = headers === undefined ? own : ownHeaders(headers)
      const { status, text: body } = await requestBackend({
        ...peer,
        path,
        url: endpoint,
        onRedirect(target) {
          path = target
        },
        method: 'POST',
        headers: ['content-type', 'application/json', ...IDENTITY, ...sent],
        body: text,
        timeoutMs: PATIENCE_MS,
        isAnswerless: true,
      })
      if (isSuccess(status)) return
      // The server no longer knows this stream. The message fails before the channel closes, as in a lost session.
      if (status === 404) setImmediate(() => stream.stop())
      const rpcError = readRpcError(body, memberText(text, 'id'))
      throw new BackendFailure('backend_failed', `refused a message with HTTP ${status}`, { status, rpcError })
    },
    close: () => stream.stop(),
  }
}

interface StreamOptions {
  readonly receiver: ChannelReceiver
  readonly url: URL
  readonly share: Share
  opened(endpoint: URL): void
  refused(failure: BackendFailure): void
}

const TYPES: ReadonlySet<string> = new Set(['endpoint'])

/** The stream, from its request to its end. */
class Stream implements Dispatcher.DispatchHandler, SseReceiver {
  readonly #options: StreamOptions
  readonly #splitter = new SseSplitter(this, TYPES)
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | undefined
  #state: 'opening' | 'open' | 'over' = 'opening'
  readonly #event: UnfinishedEvent
  #dropped: DroppedMessage | undefined
  /** Set if the body is compressed although that was not requested. */
  #decoder: BodyDecoder | undefined

  constructor(options: StreamOptions) {
    this.#options = options
    this.#event = new UnfinishedEvent(options.share)
    this.#timer = setTimeout(() => {
      this.#end(new BackendFailure('backend_timeout', `named no endpoint within ${PATIENCE_MS} ms`))
    }, PATIENCE_MS)
  }

  stop(): void {
    this.#end(new BackendFailure('backend_unavailable', 'the stream was ended'))
  }

  #end(reason: BackendFailure): void {
    if (this.#state === 'over') return
    clearTimeout(this.#timer)
    const wasOpen = this.#state === 'open'
    this.#state = 'over'
    this.#event.take()
    this.#decoder?.stop()
    this.#controller?.abort(reason)
    if (wasOpen) this.#options.receiver.closed(reason)
    else this.#options.refused(reason)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#state === 'over') controller.abort(new Error('the stream is no longer needed'))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: HeadersRead): void {
    if (!isSuccess(status)) this.#end(new BackendFailure('backend_failed', `answered with HTTP ${status}`, { status }))
    else if (!isOfType(headers['content-type'], 'text/event-stream'))
      this.#end(new BackendFailure('backend_failed', 'answered without a stream of events'))
    else this.#decode(headers['content-encoding'], controller)
  }

  #decode(encoding: string | string[] | undefined, controller: Dispatcher.DispatchController): void {
    const fail = (error: unknown) => this.#end(new BackendFailure('backend_failed', (error as Error).message))
    try {
      this.#decoder = decoderFor(encoding, {
        share: this.#options.share,
        drained: () => controller.resume(),
        data: (chunk) => this.#read(chunk),
        end: () => this.#end(new BackendFailure('backend_unavailable', 'the stream ended')),
        failed: fail,
      })
    } catch (error) {
      fail(error)
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#decoder === undefined) this.#read(chunk)
    else if (!this.#decoder.write(chunk)) controller.pause()
  }

  #read(chunk: Buffer): void {
    if (this.#state === 'over') return
    this.#splitter.push(chunk)
    if (!this.#event.settle()) this.#drop()
  }

  onResponseEnd(): void {
    this.#end(new BackendFailure('backend_unavailable', 'the stream ended'))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(connectionFailure(error))
  }

  onEventData(bytes: Buffer): void {
    if (this.#dropped !== undefined) this.#dropped.scan(bytes)
    else {
      this.#event.push(bytes)
      if (this.#event.size > LONGEST_LINE) this.#drop()
    }
  }

  #drop(): void {
    this.#dropped = new DroppedMessage()
    this.#dropped.scan(this.#event.take())
  }

  onEventEnd(type: string): void {
    const text = this.#event.take().toString('utf8')
    const dropped = this.#dropped
    this.#dropped = undefined
    if (dropped !== undefined) {
      if (this.#state === 'open') this.#options.receiver.tooLarge(dropped)
      return
    }
    if (type === 'endpoint') this.#endpoint(text)
    else if (text !== '' && this.#state === 'open') this.#options.receiver.message(text)
  }

  /** Takes the address for messages. It must be on the server itself, because credentials are sent to it. */
  #endpoint(text: string): void {
    if (this.#state !== 'opening') return
    const { url } = this.#options
    const endpoint = URL.canParse(text, url.href) ? new URL(text, url) : undefined
    if (endpoint?.origin !== url.origin) {
      this.#end(new BackendFailure('backend_failed', 'named an endpoint of another origin'))
      return
    }
    clearTimeout(this.#timer)
    this.#state = 'open'
    this.#options.opened(endpoint)
  }
}

/** Headers that are not sent: those of other revisions, and those that each request sets itself. */
const notOwn: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'content-type',
  'mcp-session-id',
  'mcp-protocol-version',
])

function ownHeaders(headers: readonly string[]): string[] {
  const own: string[] = []
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] as string
    if (!notOwn.has(name.toLowerCase())) own.push(name, headers[at + 1] as string)
  }
  return own
}
