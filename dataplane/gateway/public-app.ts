import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { errorResponse } from '../server/answer.ts'
import { PublicError } from '../server/errors.ts'
import { guardHosts } from '../server/hosts.ts'
import { get, remove } from './endpoint/listen.ts'
import { Reply } from './endpoint/reply.ts'
import { post, Turn } from './endpoint/turn.ts'
import type { Gateway } from './gateway.ts'

type App = Hono<{ Bindings: HttpBindings }>

const METADATA = '/.well-known/oauth-protected-resource'

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

  const guard = guardHosts({ allowed: () => gateway.setup.hostNames, origins: 'any' })
  app.get(METADATA, guard, metadata)
  app.get(`${METADATA}/*`, guard, metadata)
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error, gateway.log))

  function serve({ incoming, outgoing }: HttpBindings): Response {
    const handler = methods[incoming.method ?? ''] ?? refuseMethod
    handler(new Turn(gateway, incoming, new Reply(outgoing)))
    return RESPONSE_ALREADY_SENT
  }

  function metadata(): Response {
    const document = gateway.setup.resourceMetadata
    if (document === undefined) return errorResponse(new PublicError('not_found'))
    return Response.json(document, { headers: { 'cache-control': 'no-store', 'access-control-allow-origin': '*' } })
  }

  return app
}

function refuseMethod(turn: Turn): void {
  turn.fail(new PublicError('method_not_allowed', { headers: { allow: 'GET, POST, DELETE' } }))
}
