import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { resourceMetadataRoutes } from '../identity/index.ts'
import { errorResponse } from '../server/answer.ts'
import { PublicError } from '../server/errors.ts'
import { guardHosts } from '../server/hosts.ts'
import { get, remove } from './endpoint/listen.ts'
import { Reply } from './endpoint/reply.ts'
import { post, Turn } from './endpoint/turn.ts'
import type { Gateway } from './gateway.ts'

type App = Hono<{ Bindings: HttpBindings }>

/** What the MCP endpoint serves, by HTTP method. */
const methods: Readonly<Record<string, (turn: Turn) => void>> = { POST: post, GET: get, DELETE: remove }

/**
 * The public listener. The MCP endpoint writes on Node's own response: no Request, Response or stream of the web kind
 * is made for it, which would cost more than the relaying itself. Its path must match one handler alone: for more,
 * Hono runs an asynchronous chain, at a fifth of what a whole call costs.
 */
export function publicApp(gateway: Gateway): App {
  const app: App = new Hono()
  app.all('/mcp', ({ env }) => serve(env))

  app.use('/.well-known/*', guardHosts({ allowed: () => gateway.setup.hostNames, origins: 'any' }))
  app.route(
    '/',
    resourceMetadataRoutes(() => gateway.setup.resourceMetadata),
  )
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error, gateway.log))

  function serve({ incoming, outgoing }: HttpBindings): Response {
    const handler = methods[incoming.method ?? ''] ?? refuseMethod
    handler(new Turn(gateway, incoming, new Reply(outgoing)))
    return RESPONSE_ALREADY_SENT
  }

  return app
}

function refuseMethod(turn: Turn): void {
  turn.fail(new PublicError('method_not_allowed', { headers: { allow: 'GET, POST, DELETE' } }))
}
