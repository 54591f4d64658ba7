import { checkModern } from '../mcp/classify.ts'
import { MODERN } from '../mcp/revisions.ts'
import { instructionsFor } from './catalog/caller-catalog.ts'
import { afterFirstLists } from './catalog/prompts-and-resources.ts'
import type { EndpointRequest } from './incoming/endpoint-exchange.ts'
import { serveMethods } from './methods.ts'
import { takeNotification } from './notification.ts'
import { subscribe } from './streams/subscribe.ts'
import { relayTask } from './tools/tasks.ts'

const serveRequest = serveMethods({
  'subscriptions/listen': subscribe,
  'tasks/get': relayTask,
  'tasks/update': relayTask,
  'tasks/cancel': relayTask,
  'server/discover': (request) => afterFirstLists(request, () => discoverWith(request)),
})

function discoverWith(request: EndpointRequest): void {
  const instructions = instructionsFor(request)
  if (instructions instanceof Promise) request.run(() => instructions.then((text) => discover(request, text)))
  else discover(request, instructions)
}

function discover(request: EndpointRequest, instructions: string | undefined): void {
  request.result(
    JSON.stringify({
      resultType: 'complete',
      supportedVersions: [MODERN],
      capabilities: {
        ...request.view.promptsAndResources.capabilities,
        ...request.view.promptsAndResources.extensions,
      },
      instructions,
      ttlMs: 0,
      cacheScope: 'private',
      _meta: { 'io.modelcontextprotocol/serverInfo': request.setup.serverInfo },
    }),
  )
}

/** Serves a message of the modern era, which needs no session. */
export function serveModern(request: EndpointRequest): void {
  const { message } = request
  checkModern(message, request.req.headers)
  if (message.kind === 'notification') {
    takeNotification(request)
    return
  }
  serveRequest(request)
}
