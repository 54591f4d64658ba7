import type { IncomingMessage, ServerResponse } from 'node:http'
import { PublicError } from '../server/errors.ts'
import { checkHost } from '../server/hosts.ts'
import type { ListenOptions } from '../server/listen/listen.ts'
import { HELD_TO_PINS } from './backends/connection/approved-transport.ts'
import type { Gateway } from './core/gateway.ts'
import { EndpointExchange } from './endpoint/incoming/endpoint-exchange.ts'
import { get, remove } from './endpoint/listen.ts'
import { post } from './endpoint/post.ts'
import type { CrossOrigin } from './request/cross-origin.ts'
import { HttpReply } from './request/http-reply.ts'
import { ENDPOINT, withoutPrefix } from './request/public-url.ts'

/** The functions that serve the MCP endpoint, by HTTP method. */
const methods: Readonly<Record<string, (request: EndpointExchange) => void>> = {
  POST: post,
  GET: get,
  DELETE: remove,
  OPTIONS: (request) => request.run(preflight),
}

/**
 * Handles requests to the MCP endpoint, and returns false for any other. `running` returns undefined until a
 * configuration is in force: until then everything is answered with 503, which pages that `first` lets call may read.
 */
export function directEndpoint(
  running: () => Gateway | undefined,
  first?: CrossOrigin,
): NonNullable<ListenOptions['direct']> {
  return function endpoint(incoming, outgoing) {
    const gateway = running()
    if (gateway === undefined) {
      first?.mark(incoming, outgoing)
      // A page sends no request before its preflight is answered.
      if (first !== undefined && incoming.method === 'OPTIONS') first.preflight(incoming, outgoing)
      else outgoing.writeHead(503, { 'retry-after': '1', 'content-length': 0 }).end()
      return true
    }
    if (!isToEndpoint(incoming, gateway.setup.config.endpointPrefix)) return false
    serveEndpoint(gateway, incoming, outgoing)
    return true
  }
}

/**
 * Tells whether a request is one to the MCP endpoint; its target may be a whole URL (RFC 9112, section 3.2.2). A prefix
 * that a proxy in front has left in the target is removed, for the other paths, too.
 */
function isToEndpoint(incoming: IncomingMessage, prefix: string | undefined): boolean {
  const { url = '' } = incoming
  if (url === ENDPOINT) return true
  if (!url.startsWith('/')) return URL.parse(url)?.pathname === ENDPOINT
  const target = withoutPrefix(url, prefix)
  incoming.url = target
  return target === ENDPOINT || target.startsWith(`${ENDPOINT}?`)
}

/**
 * Serves the MCP endpoint on Node's own objects. As a route of the app a list takes 1.4 times as long, and the process
 * holds 5 MiB more; docs/architecture.md lists the routes, and how this was measured.
 */
function serveEndpoint(gateway: Gateway, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const handler = methods[incoming.method ?? ''] ?? refuseMethod
  const { config, addressOf, crossOrigin, enforcesPins } = gateway.setup
  crossOrigin?.mark(incoming, outgoing)
  if (enforcesPins) outgoing.setHeader(...HELD_TO_PINS)
  const isCounted = config.trustProxyHeaders === true
  const isOne = !isCounted || gateway.clientRequests.begin(addressOf(incoming), outgoing)
  const reply = new HttpReply(outgoing)
  const request = new EndpointExchange(gateway, outgoing, reply)
  reply.request = request
  if (isOne) handler(request)
  else refuseOneMore(request)
}

function refuseOneMore(request: EndpointExchange): void {
  request.fail(new PublicError('share_exceeded', { headers: { 'retry-after': '1' } }))
}

/** Answers a browser's preflight request for a page of another host. It has no credentials and opens nothing. */
function preflight(request: EndpointExchange): void {
  const { crossOrigin, hostNames } = request.setup
  if (crossOrigin === undefined) {
    refuseMethod(request)
    return
  }
  checkHost(hostNames, request.req.headers.host, undefined)
  crossOrigin.preflight(request.req, request.res)
}

function refuseMethod(request: EndpointExchange): void {
  request.fail(new PublicError('method_not_allowed', { headers: { allow: 'GET, POST, DELETE' } }))
}
