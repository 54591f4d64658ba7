import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import { Hono, type MiddlewareHandler } from 'hono'
import { resourceMetadataRoutes } from '../identity/index.ts'
import { errorResponse } from '../server/answer.ts'
import { PublicError } from '../server/errors.ts'
import { checkHost, guardHosts } from '../server/hosts.ts'
import { networkOf } from '../server/network-of.ts'
import type { Gateway } from './core/gateway.ts'
import { EndpointRequest } from './endpoint/incoming/endpoint-request.ts'
import { get, remove } from './endpoint/listen.ts'
import { post } from './endpoint/post.ts'
import { rootRoutes } from './page/routes.ts'
import { HttpReply } from './request/http-reply.ts'
import { ENDPOINT, metadataPaths, withoutPrefix } from './request/public-url.ts'

/** What the MCP endpoint serves, by HTTP method. */
const methods: Readonly<Record<string, (request: EndpointRequest) => void>> = { POST: post, GET: get, DELETE: remove }

/**
 * Whether a request is one to the MCP endpoint; its target may be a whole URL (RFC 9112, section 3.2.2). A prefix that
 * a proxy in front has left in the target is taken off, for the other paths, too.
 */
export function isToEndpoint(incoming: IncomingMessage, prefix: string | undefined): boolean {
  const { url = '' } = incoming
  if (url === ENDPOINT) return true
  if (!url.startsWith('/')) return URL.parse(url)?.pathname === ENDPOINT
  const target = withoutPrefix(url, prefix)
  incoming.url = target
  return target === ENDPOINT || target.startsWith(`${ENDPOINT}?`)
}

/**
 * Serves the MCP endpoint, on Node's own objects: objects of the web kind and a router's way would take a tenth of
 * what a whole call takes.
 */
export function serveEndpoint(gateway: Gateway, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const handler = methods[incoming.method ?? ''] ?? refuseMethod
  const { config, addressOf } = gateway.setup
  const isCounted = config.trustProxyHeaders === true
  const isOne = !isCounted || gateway.clientRequests.begin(addressOf(incoming), outgoing)
  const reply = new HttpReply(outgoing)
  const request = new EndpointRequest(gateway, incoming, outgoing, reply)
  reply.request = request
  if (isOne) handler(request)
  else refuseOneMore(request)
}

/** What the public listener serves besides the MCP endpoint. */
export function publicApp(gateway: Gateway): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use('/.well-known/*', guardHosts({ allowed: () => gateway.setup.hostNames, origins: 'any' }))
  app.route(
    '/',
    resourceMetadataRoutes({
      current: ({ env }) => gateway.setup.resourceMetadata(env.incoming.headers),
      paths: (resource) => metadataPaths(resource, gateway.setup.config),
    }),
  )
  app.use(ownIssuerRoutes(gateway))
  app.route('/', rootRoutes(gateway))
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error, gateway.log))
  return app
}

/** Answers what is for the gateway's own authorization server, where it has one. */
function ownIssuerRoutes(gateway: Gateway): MiddlewareHandler<{ Bindings: HttpBindings }> {
  return async function ownIssuer(c, next) {
    const server = await gateway.setup.ownIssuer.current()
    if (server === undefined || !server.serves(c.req.path)) return next()
    checkHost(gateway.setup.hostNames, c.req.header('host'), undefined)
    // Nobody has logged in yet: what is sent counts for the network that it comes from.
    const share = gateway.budget.shareOf(networkOf(gateway.setup.addressOf(c.env.incoming) ?? ''))
    return server.fetch(c.req.raw, { ...c.env, share })
  }
}

function refuseOneMore(request: EndpointRequest): void {
  request.fail(new PublicError('share_exceeded', { headers: { 'retry-after': '1' } }))
}

function refuseMethod(request: EndpointRequest): void {
  request.fail(new PublicError('method_not_allowed', { headers: { allow: 'GET, POST, DELETE' } }))
}
