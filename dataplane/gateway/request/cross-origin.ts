import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayConfig } from '../../config/gateway.ts'
import { checkHost, type HostNames } from '../../server/hosts.ts'
import { NOSNIFF } from '../../server/listen/listen.ts'

/** The headers that clients of either era send, with those of tracing. */
const REQUEST_HEADERS = [
  ...['accept', 'authorization', 'content-type'],
  ...['last-event-id', 'mcp-session-id', 'mcp-protocol-version', 'mcp-method', 'mcp-name'],
  ...['x-request-id', 'traceparent', 'tracestate', 'baggage'],
]
/** The header names of tool arguments whose schemas ask for headers (MCP 2026-07-28). */
const PARAM_HEADER = /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/
const EXPOSED = 'Mcp-Session-Id, WWW-Authenticate, X-Request-Id, Retry-After'
const DAY_S = '86400'

interface Named {
  readonly hostNames: HostNames
  readonly crossOrigin: CrossOrigin | undefined
}

type Settings = Pick<GatewayConfig, 'cors' | 'passthroughHeaders'> & Partial<Pick<GatewayConfig, 'incomingAuth'>>

/** Rejects hosts that are not served here, and pages of other hosts that may not call. Throws `forbidden_host`. */
export function checkOrigin({ hostNames, crossOrigin }: Named, { host, origin }: IncomingHttpHeaders): void {
  checkHost(hostNames, host, origin !== undefined && crossOrigin?.allows(origin) ? undefined : origin)
}

/** The pages of other hosts that may call the MCP endpoint, and the headers for browsers (Fetch standard, CORS). */
export class CrossOrigin {
  readonly #origins: ReadonlySet<string>
  readonly #isForAll: boolean
  readonly #headers: readonly string[]
  readonly #exposed: string

  private constructor({ cors, passthroughHeaders = [], incomingAuth }: Settings) {
    const { dpop } = incomingAuth ?? {}
    const readsProofs = dpop !== undefined && dpop.mode !== 'disabled'
    const passedHeaders = passthroughHeaders.map((name) => name.toLowerCase())
    this.#origins = new Set(cors?.origins)
    this.#isForAll = this.#origins.has('*')
    this.#headers = [...new Set([...REQUEST_HEADERS, ...(readsProofs ? ['dpop'] : []), ...passedHeaders])]
    this.#exposed = readsProofs ? `${EXPOSED}, DPoP-Nonce` : EXPOSED
  }

  /** Reads the rules of a configuration; undefined if no page of another host may call. */
  static of(settings: Settings): CrossOrigin | undefined {
    const { origins = [] } = settings.cors ?? {}
    return origins.length === 0 ? undefined : new CrossOrigin(settings)
  }

  /** Tells whether pages of this origin may call. */
  allows(origin: string): boolean {
    return this.#isForAll || this.#origins.has(origin)
  }

  /** Sets the headers that tell the browser whether its page may read the answer. */
  mark({ headers }: IncomingMessage, outgoing: ServerResponse): void {
    if (!this.#isForAll) outgoing.setHeader('vary', 'Origin')
    const { origin } = headers
    if (origin === undefined || !this.allows(origin)) return
    outgoing.setHeader('access-control-allow-origin', this.#isForAll ? '*' : origin)
    outgoing.setHeader('access-control-expose-headers', this.#exposed)
  }

  /**
   * Returns the headers of the answer to a malformed request. If its origin can't be read, the one allowed origin is
   * used.
   */
  refusal(origin = this.#origins.size === 1 ? [...this.#origins][0] : undefined): [string, string][] {
    const vary: [string, string][] = this.#isForAll ? [] : [['Vary', 'Origin']]
    if (origin === undefined || !this.allows(origin)) return vary
    return [...vary, ['Access-Control-Allow-Origin', this.#isForAll ? '*' : origin]]
  }

  /** Answers the preflight request of a browser; `mark` was called before. */
  preflight({ headers }: IncomingMessage, outgoing: ServerResponse): void {
    const answer = this.leave(headers).flat()
    outgoing.writeHead(204, ['allow', 'GET, POST, DELETE, OPTIONS', ...answer, ...NOSNIFF]).end()
  }

  /** Returns the headers that list what a page may send; none if its origin may not call. */
  leave(headers: IncomingHttpHeaders): [string, string][] {
    const { origin } = headers
    if (origin === undefined || !this.allows(origin)) return []
    const asked = (headers['access-control-request-headers'] ?? '').toLowerCase().split(',')
    const params = asked.map((name) => name.trim()).filter((name) => PARAM_HEADER.test(name))
    return [
      ['access-control-allow-methods', 'GET, POST, DELETE'],
      ['access-control-allow-headers', [...this.#headers, ...params].join(', ')],
      ['access-control-max-age', DAY_S],
    ]
  }
}
