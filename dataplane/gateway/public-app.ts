import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { resourceMetadataRoutes } from '../identity/index.ts'
import { errorResponse } from '../server/answer.ts'
import { PublicError } from '../server/errors.ts'
import { guardHosts } from '../server/hosts.ts'
import { get, remove } from './endpoint/listen.ts'
import { Reply } from './endpoint/reply.ts'
import { post, Turn } from './endpoint/turn.ts'
import type { Gateway } from './gateway.ts'

/** What the MCP endpoint serves, by HTTP method. */
const methods: Readonly<Record<string, (turn: Turn) => void>> = { POST: post, GET: get, DELETE: remove }

const PATH = '/mcp'

/** Whether a request is one to the MCP endpoint; its target may be a whole URL (RFC 9112, section 3.2.2). */
export function isToEndpoint({ url = '' }: IncomingMessage): boolean {
  if (url.startsWith('/')) return url === PATH || url.startsWith(`${PATH}?`)
  return URL.parse(url)?.pathname === PATH
}

/**
 * Serves the MCP endpoint, on Node's own objects: objects of the web kind and a router's way would take a tenth of
 * what a whole call takes.
 */
export function serveEndpoint(gateway: Gateway, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const handler = methods[incoming.method ?? ''] ?? refuseMethod
  handler(new Turn(gateway, incoming, new Reply(outgoing)))
}

/** What the public listener serves besides the MCP endpoint. */
export function publicApp(gateway: Gateway): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use('/.well-known/*', guardHosts({ allowed: () => gateway.setup.hostNames, origins: 'any' }))
  app.route(
    '/',
    resourceMetadataRoutes(() => gateway.setup.resourceMetadata),
  )
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error, gateway.log))
  return app
}

function refuseMethod(turn: Turn): void {
  turn.fail(new PublicError('method_not_allowed', { headers: { allow: 'GET, POST, DELETE' } }))
}
