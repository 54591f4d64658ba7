import { checkModern } from '../mcp/classify.ts'
import { MODERN } from '../mcp/revisions.ts'
import type { EndpointRequest } from './endpoint-request.ts'
import { serveMethods } from './methods.ts'
import { onceAsked } from './offers.ts'
import { subscribe } from './subscribe.ts'
import { relayTask } from './tasks.ts'

const serveRequest = serveMethods({
  'subscriptions/listen': subscribe,
  'tasks/get': relayTask,
  'tasks/update': relayTask,
  'tasks/cancel': relayTask,
  'server/discover': (turn) => onceAsked(turn, () => discover(turn)),
})

function discover(turn: EndpointRequest): void {
  turn.result(
    JSON.stringify({
      resultType: 'complete',
      supportedVersions: [MODERN],
      capabilities: { ...turn.gateway.offers.capabilities, ...turn.gateway.offers.extensions },
      instructions: turn.gateway.offers.instructions,
      ttlMs: 0,
      cacheScope: 'private',
      _meta: { 'io.modelcontextprotocol/serverInfo': turn.setup.serverInfo },
    }),
  )
}

/** Serves a message of the modern era: it says all there is to know, and leaves nothing behind. */
export function serveModern(turn: EndpointRequest): void {
  const { message } = turn
  checkModern(message, turn.req.headers)
  if (message.kind === 'notification') {
    turn.accepted()
    return
  }
  serveRequest(turn)
}
