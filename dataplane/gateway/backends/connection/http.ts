import type { Dispatcher } from 'undici'
import { REDACTED } from '../../../config/check/url.ts'
import type { SignRequest } from '../../../credentials/index.ts'
import { BackendFailure } from './failure.ts'
import { mergeHeaders } from './headers.ts'

/** A request to a backend. */
export interface SendOptions extends Dispatcher.DispatchOptions {
  /**
   * Memory that the body, a text, is written to if it fits: that of the client's body, which nobody reads any more.
   * Memory of its own costs a call 2 %.
   */
  readonly memory?: Buffer | undefined
}

/** Sends requests to a backend. Every implementation behaves like Streamable HTTP. */
export interface Transport {
  dispatch(options: SendOptions, handler: Dispatcher.DispatchHandler): boolean
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

/** The most answers to a backend's own requests that may be on their way to it, in one session or on one channel. */
export const MOST_ANSWERS = 256

/** Gives calls and streams separate connections. */
export class HttpTransport implements Transport {
  readonly #calls: Dispatcher
  readonly #streams: Dispatcher

  constructor(calls: Dispatcher, streams: Dispatcher) {
    this.#calls = calls
    this.#streams = streams
  }

  dispatch(options: SendOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#calls.dispatch(options.memory === undefined ? options : writeBody(options, options.memory), handler)
  }

  stream(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return this.#streams.dispatch(options, handler)
  }

  async close(): Promise<void> {
    await Promise.all([this.#calls.close(), this.#streams.close()])
  }

  async destroy(): Promise<void> {
    await Promise.all([this.#calls.destroy(), this.#streams.destroy()])
  }
}

const encoder = new TextEncoder()

/** Writes the body of a request to this memory. Returns the request as it is if it does not fit. */
function writeBody(options: SendOptions, memory: Buffer): Dispatcher.DispatchOptions {
  const { path, method, headers, body } = options
  if (typeof body !== 'string' || body.length > memory.length) return options
  const { read, written } = encoder.encodeInto(body, memory)
  if (read < body.length) return options
  return {
    path,
    method,
    headers: headers ?? null,
    body: written < memory.length ? memory.subarray(0, written) : memory,
  }
}

type Controller = Dispatcher.DispatchController

/** Passes all events of a request to another handler. Subclasses inspect some of them. */
export class RelayHandler implements Dispatcher.DispatchHandler {
  protected readonly handler: Dispatcher.DispatchHandler
  /** True after the head of an answer whose rest is not passed on. */
  protected isCut = false

  constructor(handler: Dispatcher.DispatchHandler) {
    this.handler = handler
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.handler.onRequestStart?.(controller, context)
  }

  onResponseStart(controller: Controller, status: number, headers: HeadersRead, text?: string): void {
    this.handler.onResponseStart?.(controller, status, headers, text)
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (!this.isCut) this.handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(controller: Controller, trailers: HeadersRead): void {
    if (!this.isCut) this.handler.onResponseEnd?.(controller, trailers)
  }

  onResponseError(controller: Controller, error: Error): void {
    this.handler.onResponseError?.(controller, error)
  }
}

type WrapHandler = (
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
) => Dispatcher.DispatchHandler

const keep: WrapHandler = (_, handler) => handler

/** Uses the connections of another transport, and wraps the handler of each request with `wrap`. */
export class WrappedTransport implements Transport {
  readonly #inner: Transport
  readonly #wrap: WrapHandler

  constructor(inner: Transport, wrap = keep) {
    this.#inner = inner
    this.#wrap = wrap
  }

  dispatch(options: SendOptions, handler: Dispatcher.DispatchHandler): boolean {
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

/**
 * Signs each request to a backend with the caller's current credential. All requests for the caller pass through it:
 * calls, lists, streams and the ends of sessions. It uses the connections of another transport.
 */
export class SigningTransport extends WrappedTransport {
  readonly #host: string
  readonly #signer: () => SignRequest | undefined

  constructor(inner: Transport, host: string, signer: () => SignRequest | undefined) {
    super(inner)
    this.#host = host
    this.#signer = signer
  }

  override dispatch(options: SendOptions, handler: Dispatcher.DispatchHandler): boolean {
    return super.dispatch(this.#signed(options), handler)
  }

  override stream(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return super.stream(this.#signed(options), handler)
  }

  /** Signs a request. Throws a BackendFailure without a credential, because an unsigned request must not be sent. */
  #signed(options: SendOptions): SendOptions {
    const sign = this.#signer()
    if (sign === undefined) throw new BackendFailure('backend_unavailable', 'there is no credential of the caller')
    const { method, path } = options
    const headers = options.headers as readonly string[]
    const body = options.body as string | null | undefined
    return { ...options, headers: mergeHeaders(headers, sign({ method, host: this.#host, path, headers, body })) }
  }
}

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
  override onResponseStart(controller: Controller, status: number, headers: HeadersRead, text?: string): void {
    if (headers[HELD_TO_PINS[0]] === HELD_TO_PINS[1]) {
      super.onResponseStart(controller, status, headers, text)
      return
    }
    this.isCut = true
    controller.abort(
      new BackendFailure('backend_unavailable', `its pods don’t enforce its pins yet (answered with HTTP ${status})`),
    )
  }
}

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

  override onResponseStart(controller: Controller, status: number, headers: HeadersRead, text?: string): void {
    const { url } = this.#peer
    this.#path = redirectIn({ status, headers }, this.#options.method, url)
    if (this.#path === undefined) {
      super.onResponseStart(controller, status, headers, text)
      return
    }
    this.isCut = true
    if (SAME_METHOD.has(status)) this.#peer.moved?.(this.#path)
    controller.abort(new Error('redirected'))
  }

  override onResponseEnd(controller: Controller, trailers: HeadersRead): void {
    if (this.#path === undefined) super.onResponseEnd(controller, trailers)
    else this.#follow(this.#path)
  }

  override onResponseError(controller: Controller, error: Error): void {
    if (this.#path === undefined) super.onResponseError(controller, error)
    else this.#follow(this.#path)
  }

  /** A handler that was stopped meanwhile ends this request as soon as it starts. */
  #follow(path: string): void {
    this.#peer.dispatcher.stream({ ...this.#options, path }, this.handler)
  }
}

/** The most characters of a body that are quoted. */
const LONGEST_BEGINNING = 80

export type HeadersRead = Readonly<Record<string, string | string[] | undefined>>

/** The head of an HTTP answer without an MCP answer, to describe it to operators and callers. */
export interface AnswerHead {
  readonly status: number
  readonly headers: HeadersRead
}

/**
 * The header (a flat list) that refuses compression, because answers of backends are small and mostly relayed at once.
 * A compressed answer is decoded all the same.
 */
export const IDENTITY: readonly string[] = ['accept-encoding', 'identity']

export const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** The status of a request that is accepted, whatever the body says. Official clients don't read it. */
const ACCEPTED = 202

/**
 * Tells whether an answer without an MCP answer says that the request was accepted, so that an answer may arrive on the
 * session's stream.
 */
export const isAcceptance = ({ status }: AnswerHead, body: string): boolean =>
  status === ACCEPTED || (isSuccess(status) && body.trim() === '')

/** The headers of requests whose values are no credentials. */
const PLAIN =
  /^(?:accept|accept-encoding|content-type|user-agent|x-request-id|traceparent|mcp-(?:protocol-version|method|name))$/
/** Shorter values may stand in a text by chance. */
const SHORTEST_CREDENTIAL = 8

/** Returns a backend's text without the headers (a flat list) that were sent to it: some servers repeat credentials. */
export function withoutSent(text: string, headers: readonly string[]): string {
  let masked = text
  for (const [index, value] of headers.entries()) {
    if (index % 2 === 0 || PLAIN.test((headers[index - 1] as string).toLowerCase())) continue
    // A credential may stand behind its scheme.
    for (const part of [value, value.slice(value.indexOf(' ') + 1)])
      if (part.length >= SHORTEST_CREDENTIAL) masked = masked.replaceAll(part, REDACTED)
  }
  return masked
}

/**
 * Describes an answer for the log and `/status`: status, Content-Type, Location without its query, and the first
 * characters of the body. What was sent in `sent`, the headers of the request, is not repeated.
 */
export function describeDetail(head: AnswerHead, body: string, sent: readonly string[]): string {
  const { status, headers } = head
  const type = headers['content-type']
  const parts = [`HTTP ${status}`]
  if (Array.isArray(type)) parts.push(`Content-Type ${type.length} times (${type.join(' and ')})`)
  else if (body !== '') parts.push(type === undefined ? 'no Content-Type' : `Content-Type ${type}`)
  const { location } = headers
  if (typeof location === 'string') parts.push(`Location ${location.replace(/[?#].*$/s, '')}`)
  if (body === '' && isSuccess(status) && isOfType(type, 'text/event-stream')) parts.push('events without an answer')
  const beginning = withoutSent(body, sent).trim().slice(0, LONGEST_BEGINNING)
  if (beginning !== '') parts.push(JSON.stringify(beginning))
  return withoutSent(parts.join(', '), sent)
}

/** Describes an answer for callers; undefined if the standard text says the same. */
export function describePublicly({ status, headers }: AnswerHead): string | undefined {
  const isPage = isOfType(headers['content-type'], 'text/html')
  if (isSuccess(status))
    return isPage ? 'The backend answers with a web page, as for a login, in the place of MCP.' : undefined
  if (status >= 300 && status < 400) return `The backend redirects elsewhere (HTTP ${status}).`
  return `The backend answers with HTTP ${status}.`
}

const SEE_OTHER: ReadonlySet<number> = new Set([301, 302, 307, 308])
/** The redirects that keep the method. */
export const SAME_METHOD: ReadonlySet<number> = new Set([307, 308])

/**
 * Returns the path of a redirect to follow: within the origin and, except for GET, only if the redirect keeps the
 * method.
 */
export function redirectIn({ status, headers }: AnswerHead, method: string, url: URL): string | undefined {
  const { location } = headers
  if (!(method === 'GET' ? SEE_OTHER : SAME_METHOD).has(status) || typeof location !== 'string') return undefined
  const target = URL.parse(location, url.href)
  return target?.origin === url.origin ? target.pathname + target.search : undefined
}

/**
 * Tells whether a Content-Type begins with a media type, given in lower case. Its own case doesn't matter (RFC 9110,
 * 8.3.1).
 */
export function isOfType(contentType: string | string[] | undefined, type: string): boolean {
  if (typeof contentType !== 'string') return false
  return contentType.startsWith(type) || contentType.slice(0, type.length).toLowerCase() === type
}
