import type { HttpBindings } from '@hono/node-server'
import { Hono, type MiddlewareHandler } from 'hono'
import { isForClients } from '../authserver/endpoint/for-clients.ts'
import { resourceMetadataRoutes } from '../identity/resource-metadata-routes.ts'
import { errorResponse } from '../server/answer.ts'
import { allowOrigins } from '../server/cross-origin.ts'
import { PublicError } from '../server/errors.ts'
import { checkHost, guardHosts } from '../server/hosts.ts'
import type { Gateway } from './core/gateway.ts'
import { rootRoutes } from './page/routes.ts'
import { ENDPOINT, metadataPaths } from './request/public-url.ts'

/** What the public listener serves besides the MCP endpoint. */
export function publicApp(gateway: Gateway): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  // Clients in pages look for metadata in several places; they are to see that there is none.
  app.use('/.well-known/*', allowOrigins(['*']))
  app.use(ownEndpoints(gateway))
  app.use('/.well-known/*', guardHosts({ allowed: () => gateway.setup.hostNames, origins: 'any' }))
  app.route(
    '/',
    resourceMetadataRoutes({
      current: ({ env }) => gateway.setup.resourceMetadata(env.incoming.headers),
      paths: (resource) => metadataPaths(resource, gateway.setup.config),
    }),
  )
  app.use(ownIssuerRoutes(gateway))
  app.use(pagesMayRead(gateway))
  app.route('/', rootRoutes(gateway))
  // Such as /mcp/ and /sse: clients show the message, and a person sees what to change.
  const message = `Not found; MCP is served at ${ENDPOINT}.`
  app.notFound(() => errorResponse(new PublicError('not_found', { message })))
  app.onError((error) => errorResponse(error, gateway.log))
  return app
}

/**
 * Lets pages of every origin call what clients call of the gateway's own authorization server, and read of errors that are
 * answered in its place: of a host that is not served, or while it can't be loaded.
 */
function ownEndpoints(gateway: Gateway): MiddlewareHandler {
  const allow = allowOrigins(['*'], ['GET', 'HEAD', 'POST'])
  return function allowAll(c, next) {
    const { authServer } = gateway.setup.config
    return authServer !== undefined && isForClients(c.req.path, authServer.issuer) ? allow(c, next) : next()
  }
}

/** Lets pages that may call the MCP endpoint see that there is none where they ask, and why. */
function pagesMayRead(gateway: Gateway): MiddlewareHandler<{ Bindings: HttpBindings }> {
  return function mayRead({ env: { incoming, outgoing }, req }, next) {
    const { crossOrigin } = gateway.setup
    crossOrigin?.mark(incoming, outgoing)
    if (crossOrigin === undefined || req.method !== 'OPTIONS') return next()
    return Promise.resolve(new Response(null, { status: 204, headers: crossOrigin.leave(incoming.headers) }))
  }
}

/** Answers what is for the gateway's own authorization server, where it has one. */
function ownIssuerRoutes(gateway: Gateway): MiddlewareHandler<{ Bindings: HttpBindings }> {
  return async function ownIssuer(c, next) {
    const server = await gateway.setup.ownIssuer.current()
    if (server === undefined || !server.serves(c.req.path)) return next()
    checkHost(gateway.setup.hostNames, c.req.header('host'), undefined)
    // Nobody has logged in yet: what is sent counts for the network that it comes from.
    const share = gateway.budget.shareOfAddress(gateway.setup.addressOf(c.env.incoming))
    return server.fetch(c.req.raw, { ...c.env, share })
  }
}
