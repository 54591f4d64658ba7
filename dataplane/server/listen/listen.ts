import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type Server,
  ServerResponse,
} from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Hono } from 'hono'
import { parseAddress } from './address.ts'
import { boundConnections } from './connections.ts'

export interface ListenOptions {
  /** Longest wait for all headers of a request, against clients that send them byte by byte. Default 15 s. */
  readonly headersTimeoutMs?: number
  /** Longest wait for a whole request. A response may take longer. Default 120 s. */
  readonly requestTimeoutMs?: number
  /** Largest header block in bytes; above it the answer is 431. Default 64 KiB. */
  readonly maxHeaderBytes?: number
  /** Connections that may be open at once; one address may have half of them. Default 4,096. */
  readonly maxConnections?: number
  /** Tells whether connections come from proxies with many clients. Then one address may have all connections. */
  readonly isProxied?: () => boolean
  /** Called first, with Node's own objects; true if it handles the request. For very frequent requests. */
  readonly direct?: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean
  /** Returns further headers of the answers 400, 408 and 431. `origin`: of the request, if it could be read. */
  readonly refusalHeaders?: (origin: string | undefined) => readonly (readonly [name: string, value: string])[]
  /** Serves HTTPS with this certificate. */
  readonly tls?: TlsCertificate
}

interface TlsCertificate {
  readonly cert: string
  readonly key: string
}

export interface ListenerEnv {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly closing: AbortSignal
}

export interface Listener {
  /** `http://host:port` (`https:` with a certificate), without a trailing slash; a wildcard address is given as loopback. */
  readonly url: string
  readonly host: string
  readonly port: number
  /** Aborted when `close` was called and its notice is over. */
  readonly closing: AbortSignal
  /**
   * Closes the listener. From now on every answer closes its connection. During `times.noticeMs` everything is served;
   * then streams end through `closing`. Without connections, or after `times.idleMs`, it accepts no more, waits until
   * `times.graceMs` for requests in flight, and closes their connections. A number is the grace without notice; default
   * 10 s. May be called again.
   */
  close(times?: number | DrainTimes): Promise<void>
  /**
   * Waits until the clients have left or `times.graceMs` have passed, and tells them to leave as `close` does.
   * `endStreams` is called in the middle of the notice and at its end. Unless `close` follows within `takenBackMs`, the
   * state is restored.
   */
  empty(times: DrainTimes, takenBackMs: number, endStreams: () => void): Promise<void>
  /** Serves new connections with another certificate. Throws a TypeError on a listener without TLS. */
  setCertificate(certificate: TlsCertificate): void
}

type RequestListener = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>

const DEFAULTS = {
  headersTimeoutMs: 15_000,
  requestTimeoutMs: 120_000,
  maxHeaderBytes: 64 * 1024,
  maxConnections: 4096,
} as const
/** Longer than the idle time-out of common load balancers (60 s), so that they close first and never meet a reset. */
const KEEP_ALIVE_MS = 75_000

/** Serves `fetch` on `HOST:PORT` (`:8081` = every address, port 0 = any). Throws an Error that names the address. */
export async function listen(fetch: Hono['fetch'], address: string, options: ListenOptions = {}): Promise<Listener> {
  const { host, port } = parseAddress(address)
  const limits = { ...DEFAULTS, ...options }
  const closing = new AbortController()

  const { direct, tls } = options
  let app: RequestListener | undefined
  // The code that makes web Requests is loaded with the first: if `direct` handles all requests, it is never needed.
  const answer: RequestListener = async (incoming, outgoing) => {
    app ??= (await import('./web-listener.ts')).webListener(fetch, closing.signal)
    await app(incoming, outgoing)
  }
  const unused = new Set<Socket>()
  const hasBegun = () => drain.hasBegun
  // TLS is loaded only to serve it.
  const create = tls ? ((await import('node:https')).createServer as typeof createServer) : createServer
  const server = create(
    {
      ...(tls && { ...tls, handshakeTimeout: limits.headersTimeoutMs }),
      maxHeaderSize: limits.maxHeaderBytes,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: Math.min(5_000, limits.headersTimeoutMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
      noDelay: true,
      // Without this, only the first of two `Authorization` headers would pass, but a proxy may have checked the second.
      joinDuplicateHeaders: true,
      ServerResponse: responses(hasBegun),
    },
    (incoming, outgoing) => {
      unused.delete(incoming.socket)
      if (!incoming.complete) lingerBehind(incoming)
      outgoing.on('error', ignore)
      try {
        if (direct?.(incoming, outgoing) === true) return
        answer(incoming, outgoing).catch(() => outgoing.destroy())
      } catch {
        outgoing.destroy()
      }
    },
  )
  if (options.refusalHeaders) refuseWith(server, options.refusalHeaders)
  boundConnections(server, limits.maxConnections, options.isProxied)
  keepUnused(server, unused)
  const drain = new Drain(server, unused)
  await bind(server, host, port)

  const bound = server.address() as AddressInfo
  let closed: Promise<void> | undefined
  return {
    url: `http${tls ? 's' : ''}://${urlHost(bound)}:${bound.port}`,
    host: bound.address,
    port: bound.port,
    closing: closing.signal,
    close(times = 10_000) {
      closed ??= drain.end(typeof times === 'number' ? atOnce(times) : times, closing)
      return closed
    },
    empty: (times, takenBackMs, endStreams) => drain.empty(times, takenBackMs, endStreams),
    setCertificate(certificate) {
      if (!tls) throw new TypeError('this listener serves no TLS')
      ;(server as HttpsServer).setSecureContext({ ...certificate })
    },
  }
}

const ignore = (): void => {
  // A write after the end, or to a client that has left, fails this response only; unhandled it would end the process.
}

const REFUSALS: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

/** Answers malformed requests as Node does by itself, but with further headers. */
function refuseWith(server: Server, headersOf: NonNullable<ListenOptions['refusalHeaders']>): void {
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket) => {
    const { code = '', rawPacket } = error
    const { _httpMessage: begun } = socket as { _httpMessage?: ServerResponse }
    if (socket.writable && begun?.headersSent !== true) {
      const origin = /\r\norigin: *([^\r\n]+)\r\n/i.exec(rawPacket?.toString('latin1') ?? '')?.[1]
      const headers = headersOf(origin).map(([name, value]) => `${name}: ${value}\r\n`)
      const status = REFUSALS[code] ?? '400 Bad Request'
      socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n${headers.join('')}\r\n`, () => socket.destroy())
    } else socket.destroy(error)
  })
}

function bind(server: Server, host: string | undefined, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => reject(bindError(error, host, port))
    server.once('error', onError)
    server.listen({ port, ...(host === undefined ? {} : { host }) }, () => {
      server.off('error', onError)
      resolve()
    })
  })
}

const BIND_ERRORS: Record<string, (address: string, port: number) => string> = {
  EADDRINUSE: (address, port) => `port ${port} is taken: another process listens on ${address}`,
  EACCES: (address, port) => `port ${port} can’t be used: no permission to listen on ${address}`,
  EADDRNOTAVAIL: (address) => `can’t listen on ${address}: this machine does not have that address`,
  ENOTFOUND: (address) => `can’t listen on ${address}: there is no such host`,
}

function bindError(error: NodeJS.ErrnoException, host: string | undefined, port: number): Error {
  const address = `${host?.includes(':') ? `[${host}]` : (host ?? '')}:${port}`
  const text = BIND_ERRORS[error.code ?? '']?.(address, port) ?? `can’t listen on ${address}: ${error.code}`
  return Object.assign(new Error(text, { cause: error }), { code: error.code })
}

function urlHost({ address, family }: AddressInfo): string {
  if (address === '0.0.0.0' || address === '::') return '127.0.0.1'
  return family === 'IPv6' ? `[${address}]` : address
}

/** Collects the connections without a request so far. Clients open some in advance, and a stop would wait for them. */
function keepUnused(server: Server, unused: Set<Socket>): void {
  server.on('connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
}

/** The limits of reading and discarding the rest of a request before its connection is closed. */
const LONGEST_MS = 5_000
const MOST_BYTES = 64 * 1024 * 1024

interface Closing extends Socket {
  /** Ends a connection after its last answer; Node's HTTP server calls it. */
  destroySoon(): void
}

const current = Symbol('request')

interface Lingering extends Closing {
  [current]?: IncomingMessage
}

/**
 * Lets a client read its answer while it still sends its body. Closing the socket would reset the connection and lose the
 * answer, so only our side is ended first, and received bytes are discarded (RFC 9112, section 9.6).
 */
function lingerBehind(incoming: IncomingMessage): void {
  const socket = incoming.socket as Lingering
  if (socket[current] === undefined) socket.destroySoon = endAfterBody
  socket[current] = incoming
}

function endAfterBody(this: Lingering): void {
  const incoming = this[current] as IncomingMessage
  if (incoming.complete || this.destroyed) {
    endSoon.call(this)
    return
  }
  this.end()
  const destroy = () => this.destroy()
  const timer = setTimeout(destroy, LONGEST_MS)
  this.once('close', () => clearTimeout(timer))
  let left = MOST_BYTES
  incoming.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) destroy()
  })
  incoming.once('end', destroy)
  incoming.resume()
}

function endSoon(this: Socket): void {
  if (this.writable) this.end()
  if (this.writableFinished) this.destroy()
  else this.once('finish', () => this.destroy())
}

const NAME = 'x-content-type-options'
const VALUE = 'nosniff'
/** The header as a flat list. A list of headers that ends with it is sent unchanged. */
export const NOSNIFF: readonly [string, string] = [NAME, VALUE]

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined

/** The longest body whose rest is read behind a response for the sake of the connection's next request. */
const SHORT_BODY = 64 * 1024

/** Tells whether the rest of the request may take long to arrive: its body is long, or of unknown length. */
function isArriving(request: IncomingMessage): boolean {
  // Node makes `headers` only if they are read.
  if (request.complete) return false
  const { headers } = request
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > SHORT_BODY
}

/**
 * Makes the class of a listener's responses, which forbid browsers to guess another type (Fetch standard,
 * `X-Content-Type-Options`). Once `isEnding`, each response closes its connection. So does a response that comes before
 * the end of a long request: nobody reads the rest for long, and a next request behind it would be lost.
 */
function responses(isEnding: () => boolean) {
  return class NosniffResponse extends ServerResponse {
    override writeHead(status: number, reason?: string | Headers, headers?: Headers): this {
      if (isEnding() || isArriving(this.req)) this.shouldKeepAlive = false
      return typeof reason === 'string'
        ? super.writeHead(status, reason, withNosniff(headers))
        : super.writeHead(status, withNosniff(reason ?? headers))
    }
  }
}

/** Returns the same headers, a flat list or an object, and one more, unless a list ends with it. */
function withNosniff(headers: Headers): OutgoingHttpHeaders | OutgoingHttpHeader[] {
  if (!Array.isArray(headers)) return { ...headers, [NAME]: VALUE }
  return headers[headers.length - 2] === NAME ? headers : headers.concat(NOSNIFF)
}

/** The path on the admin listener that a preStop hook calls. */
export const PRE_STOP = '/pre-stop'

/** The times of a listener's shutdown, in milliseconds since it was announced. */
export interface DrainTimes {
  /** New connections are accepted until then: load balancers and kube-proxies learn of the shutdown meanwhile. */
  readonly noticeMs: number
  /** Idle connections stay open until then, so that their clients learn of the shutdown with an answer. */
  readonly idleMs: number
  /** Requests that are still in flight then are cut. */
  readonly graceMs: number
}

/** Returns times without notice: only requests in flight are waited for. */
export const atOnce = (graceMs: number): DrainTimes => ({ noticeMs: 0, idleMs: 0, graceMs })

const IDLE_MS = 10_000
/** The part of the grace period that is kept for work after the listeners have closed. */
const LAST_MS = 3_000

/**
 * Returns the times of a process that new requests reach for `noticeSeconds`, and that is killed after `graceSeconds`.
 */
export function drainTimes(noticeSeconds: number, graceSeconds: number): DrainTimes {
  const graceMs = graceSeconds * 1000 - Math.min(LAST_MS, graceSeconds * 250)
  const noticeMs = Math.min(noticeSeconds * 1000, graceMs / 2)
  return { noticeMs, idleMs: noticeMs === 0 ? 0 : Math.min(Math.max(IDLE_MS, noticeMs), graceMs * 0.75), graceMs }
}

const POLL_MS = 20

/**
 * The shutdown of one listener. Each answer closes its connection first (RFC 9112, section 9.6): a client that finds a
 * closed one can't know whether its request was read.
 */
class Drain {
  readonly #server: Server
  readonly #unused: ReadonlySet<Socket>
  #since: number | undefined
  #isClosing = false

  /** `unused`: connections without a request so far. */
  constructor(server: Server, unused: ReadonlySet<Socket>) {
    this.#server = server
    this.#unused = unused
  }

  get hasBegun(): boolean {
    return this.#since !== undefined
  }

  async empty(times: DrainTimes, takenBackMs: number, endStreams: () => void): Promise<void> {
    this.#since ??= performance.now()
    const takeBack = () => {
      if (!this.#isClosing) this.#since = undefined
    }
    setTimeout(takeBack, takenBackMs).unref()
    for (const ms of [times.noticeMs / 2, times.noticeMs]) {
      await this.#reached(ms)
      endStreams()
    }
    await this.#emptyOr(times.idleMs)
    const sweep = this.#sweep()
    await this.#emptyOr(times.graceMs)
    clearInterval(sweep)
  }

  async end(times: DrainTimes, closing: AbortController): Promise<void> {
    this.#since ??= performance.now()
    this.#isClosing = true
    if (times.noticeMs > 0) await this.#reached(times.noticeMs)
    closing.abort()
    if (times.idleMs > 0) await this.#emptyOr(times.idleMs)
    const gone = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const socket of this.#unused) if (socket.bytesRead === 0) socket.destroy()
    // `close` ends idle connections once. Those that become idle later would stay until their keep-alive ends.
    const sweep = this.#sweep()
    const cut = setTimeout(() => this.#server.closeAllConnections(), Math.max(0, times.graceMs - this.#elapsed))
    await gone
    clearInterval(sweep)
    clearTimeout(cut)
  }

  get #elapsed(): number {
    return this.#since === undefined ? Number.POSITIVE_INFINITY : performance.now() - this.#since
  }

  #sweep(): NodeJS.Timeout {
    return setInterval(() => this.#server.closeIdleConnections(), POLL_MS)
  }

  async #reached(ms: number): Promise<void> {
    const left = ms - this.#elapsed
    if (left > 0) await delay(left)
  }

  async #emptyOr(ms: number): Promise<void> {
    while (this.#elapsed < ms && (await this.#connections()) > 0)
      await delay(Math.max(0, Math.min(POLL_MS, ms - this.#elapsed)))
  }

  #connections(): Promise<number> {
    return new Promise((resolve) => {
      this.#server.getConnections((error, count) => resolve(error ? 0 : count))
    })
  }
}
