import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Caller } from '../../identity/caller.ts'
import { refuseCompressed } from '../../server/body.ts'
import { PublicError } from '../../server/errors.ts'
import { checkHost } from '../../server/hosts.ts'
import type { ListenOptions } from '../../server/listen/listen.ts'
import { HELD_TO_PINS } from '../backends/connection/http.ts'
import type { Gateway } from '../core/gateway.ts'
import { classifyEra, isModernRevision } from '../mcp/eras.ts'
import { Message, parseMessage } from '../mcp/message.ts'
import { type CrossOrigin, checkOrigin } from '../request/cross-origin.ts'
import { OK } from '../request/exchange.ts'
import { ENDPOINT, withoutPrefix } from '../request/public-url.ts'
import { HttpReply } from '../request/reply.ts'
import { bindingOf } from '../sessions/session.ts'
import { parseEventId } from '../sessions/streams/event-log.ts'
import { serveBatch } from './batch.ts'
import { bodyReader, EndpointExchange, LARGEST_BODY, tooLarge } from './incoming/endpoint-exchange.ts'
import { requireSession, serveLegacy, serveModern } from './methods.ts'
import { openSessionStream, resumeAnswer } from './streams/session-stream.ts'

/** The functions that serve the MCP endpoint, by HTTP method. */
const methods: Readonly<Record<string, (request: EndpointExchange) => void>> = {
  POST: (request) => request.run(start),
  GET: inSession(openStream),
  DELETE: inSession(endSession),
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
  else request.fail(new PublicError('share_exceeded', { headers: { 'retry-after': '1' } }))
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

// The steps of a POST to the MCP endpoint. Each step uses the results of the previous one. An error that a step throws
// or rejects with becomes the answer.

/** 1. Checks the host and authenticates the caller. Any unauthenticated request is told the authorization server. */
function start(arrived: EndpointExchange): void {
  admit(arrived, takeBody)
}

/** 2. Reads the body: JSON within the size limit. */
function takeBody(admitted: EndpointExchange): void {
  admitted.expect(checkPost(admitted.req))
  readBody(admitted)
}

const readBody = bodyReader(understand)

/** 3. Parses the body: one message, or a batch of them. */
function understand(admitted: EndpointExchange): void {
  if (admitted.reply.begun) return
  const message = parseMessage(admitted.takeBody(), admitted)
  if (message instanceof Message) serve(admitted, message)
  else admitted.run(() => serveBatch(admitted, message))
}

/** 4. Determines the era, which has a table of methods. */
function serve(admitted: EndpointExchange, message: Message): void {
  const understood = admitted.understand(message)
  const request = understood.inEra(classifyEra(message, admitted.req.headers))
  if (request.era === 'modern') serveModern(request)
  else request.run(serveLegacy)
}

const MOST_KNOWN_HOSTS = 256
/** The longest Host header that is cached. */
const LONGEST_HOST = 261

type Next = (request: EndpointExchange) => void | Promise<void>

/** Checks the host, authenticates the caller, and continues with `next`. All HTTP methods begin with it. */
function admit(request: EndpointExchange, next: Next): void {
  const { headers } = request.req
  checkKnownHost(request, headers)
  const { proofs } = request.setup
  if (proofs?.nonce !== undefined) request.res.setHeader('DPoP-Nonce', proofs.nonce)
  const caller = request.setup.authenticate(headers.authorization, request.req)
  if (caller instanceof Promise) {
    caller.then((known) => admitCaller(request, known, next)).catch((error) => request.fail(error))
    return
  }
  admitCaller(request, caller, next)
}

/** Checks the host. The same few hosts recur, so accepted ones are cached. */
function checkKnownHost({ setup }: EndpointExchange, headers: IncomingHttpHeaders): void {
  const { host, origin } = headers
  const { knownHosts } = setup
  if (origin === undefined && host !== undefined && knownHosts.has(host)) return
  checkOrigin(setup, headers)
  if (host !== undefined && host.length <= LONGEST_HOST && knownHosts.size < MOST_KNOWN_HOSTS) knownHosts.add(host)
}

function admitCaller(request: EndpointExchange, caller: Caller, next: Next): void {
  const { gateway, setup, req } = request
  const { budget, views } = gateway
  // Anonymous callers are distinguished by their address only. All logins of a user have the same share.
  const share =
    caller.kind === 'anonymous' ? budget.shareOfAddress(setup.addressOf(req)) : budget.shareOf(bindingOf(caller))
  const known = request.admit(caller, views.bindingOf(caller), share)
  const own = views.viewFor(known)
  const admitted = own === undefined ? known : known.see(own)
  const gated = gateway.gated.viewFor(caller, admitted.binding, own)
  if (gated !== undefined) admitted.see(gated)
  admitted.run(next)
}

/** The Accept header that nearly all clients send; both SDKs do. */
const USUAL_ACCEPT = 'application/json, text/event-stream'

/** Checks that a POST has JSON of an allowed size and accepts both forms of answer. Returns its declared length. */
function checkPost({ headers }: IncomingMessage): number {
  if (!isJson(headers['content-type'])) throw new PublicError('unsupported_media_type')
  refuseCompressed(headers['content-encoding'])
  const { accept } = headers
  if (accept !== USUAL_ACCEPT && !(accepts(accept, 'application/json') && accepts(accept, 'text/event-stream')))
    throw new PublicError('not_acceptable')
  const length = Number(headers['content-length'] ?? 0)
  if (length > LARGEST_BODY) throw tooLarge()
  return length
}

function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

function accepts(header: string | undefined, type: string): boolean {
  if (header === undefined) return false
  if (header.includes(type) && !header.includes('q=0')) return true
  return header.split(',').some((part) => {
    const [range = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
    if (parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) return false
    return range === type || range === '*/*' || range === type.replace(/\/.*/, '/*')
  })
}

/** Returns the function that serves an HTTP method of the legacy era, which belongs to a session. */
function inSession(next: Next): (request: EndpointExchange) => void {
  const start = (request: EndpointExchange): void => {
    refuseModern(request)
    admit(request, next)
  }
  return (request) => request.run(start)
}

/** Serves a DELETE: ends a legacy client's session. */
async function endSession(request: EndpointExchange): Promise<void> {
  const session = await requireSession(request)
  request.tellSession(session.record.id)
  await request.gateway.sessions.end(session)
  request.reply.empty(204)
  request.ended(OK)
}

/** Rejects other methods in the modern era, which has only POST. */
function refuseModern(request: EndpointExchange): void {
  const version = request.req.headers['mcp-protocol-version']
  if (typeof version === 'string' && isModernRevision(version))
    throw new PublicError('method_not_allowed', { headers: { allow: 'POST' } })
}

/** Serves a GET: opens the stream on which a legacy client gets messages outside of any request. */
async function openStream(request: EndpointExchange): Promise<void> {
  if (!accepts(request.req.headers.accept, 'text/event-stream'))
    throw new PublicError('not_acceptable', { message: 'Accept must allow text/event-stream.' })
  const session = await requireSession(request)
  request.tellSession(session.record.id)
  if (request.gateway.closing.aborted)
    throw new PublicError('unavailable', { headers: { 'retry-after': '1', connection: 'close' } })
  const header = request.req.headers['last-event-id']
  const after = typeof header === 'string' ? parseEventId(header) : undefined
  if (after?.request !== undefined) resumeAnswer(request, session, after)
  else await openSessionStream(request, session, after)
}
