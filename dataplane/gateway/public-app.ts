import type { HttpBindings } from '@hono/node-server'
import { Hono, type MiddlewareHandler } from 'hono'
import { isForClients } from '../authserver/endpoint/for-clients.ts'
import { resourceMetadataRoutes } from '../identity/resource-metadata-routes.ts'
import { allowOrigins } from '../server/cross-origin.ts'
import { errorResponse, PublicError } from '../server/errors.ts'
import { checkHost, guardHosts } from '../server/hosts.ts'
import type { Gateway } from './core/gateway.ts'
import { rootRoutes } from './page/gateway-page.ts'
import { serverCardRoutes } from './page/server-card.ts'
import { ENDPOINT, metadataPaths } from './request/public-url.ts'

/** Builds the app of the public listener, which serves everything besides the MCP endpoint. */
export function publicApp(gateway: Gateway): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.route('/', serverCardRoutes(gateway))
  // Clients in pages look for metadata in several places, and need to see that there is none.
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
  // Examples are /mcp/ and /sse: clients show the message, and a person sees what to change.
  const message = `Not found; MCP is served at ${ENDPOINT}.`
  app.notFound(() => errorResponse(new PublicError('not_found', { message })))
  app.onError((error) => errorResponse(error, gateway.log))
  return app
}

/**
 * Lets pages of every origin call the client endpoints of the gateway's own authorization server, and read errors that
 * are answered in its place: for a host that is not served, or while it can't be loaded.
 */
function ownEndpoints(gateway: Gateway): MiddlewareHandler {
  const methods = ['GET', 'HEAD', 'POST']
  const allow = allowOrigins(['*'], methods)
  const allowWithNonce = allowOrigins(['*'], methods, ['dpop-nonce'])
  return function allowAll(c, next) {
    const { authServer } = gateway.setup.config
    if (authServer === undefined || !isForClients(c.req.path, authServer.issuer)) return next()
    return authServer.dpop?.nonce === 'required' ? allowWithNonce(c, next) : allow(c, next)
  }
}

/** Lets pages that may call the MCP endpoint see that there is none at the requested path, and why. */
function pagesMayRead(gateway: Gateway): MiddlewareHandler<{ Bindings: HttpBindings }> {
  return function mayRead({ env: { incoming, outgoing }, req }, next) {
    const { crossOrigin } = gateway.setup
    crossOrigin?.mark(incoming, outgoing)
    if (crossOrigin === undefined || req.method !== 'OPTIONS') return next()
    return Promise.resolve(new Response(null, { status: 204, headers: crossOrigin.leave(incoming.headers) }))
  }
}

function ownIssuerRoutes(gateway: Gateway): MiddlewareHandler<{ Bindings: HttpBindings }> {
  return async function ownIssuer(c, next) {
    const server = await gateway.setup.ownIssuer.current()
    if (server === undefined || !server.serves(c.req.path)) return next()
    checkHost(gateway.setup.hostNames, c.req.header('host'), undefined)
    // Nobody has logged in yet: the request is counted for the network that it comes from.
    const share = gateway.budget.shareOfAddress(gateway.setup.addressOf(c.env.incoming))
    return server.fetch(c.req.raw, { ...c.env, share })
  }
}
