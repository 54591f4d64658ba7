import { PublicError } from '../../server/errors.ts'
import { relayCall } from '../call/call.ts'
import { encodeHeaderValue } from '../mcp/headers.ts'
import { editObject } from '../mcp/json.ts'
import { CAPABILITIES_KEY, checkModern, MODERN } from '../mcp/revisions.ts'
import { withParams } from '../mcp/rewrite.ts'
import { hasTasks, TASKS_EXTENSION } from '../mcp/tasks.ts'
import { at, checkMayCallPlain, instructionsFor } from './catalog/caller-catalog.ts'
import { afterFirstLists } from './catalog/prompts-and-resources.ts'
import type { EndpointRequest } from './incoming/endpoint-exchange.ts'
import { serveMethods, takeNotification } from './methods.ts'
import { subscribe } from './streams/subscribe.ts'

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

/** Serves `tasks/get`, `tasks/update`, `tasks/cancel` (SEP-2663): relays them to the backend that runs the task. */
function relayTask(request: EndpointRequest): void {
  const { message, gateway, view, binding } = request
  if (!hasTasks(message.meta?.[CAPABILITIES_KEY]))
    throw new PublicError('missing_capability', {
      data: { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } },
    })
  const task = gateway.taskIds.unwrap(message.parameter('taskId') ?? '', binding)
  const backend = task === undefined ? undefined : view.backendNamed(task.backend)
  if (task === undefined || backend === undefined)
    throw new PublicError('invalid_params', { message: 'There is no task of this id.' })
  checkMayCallPlain(request, task.tool)
  const { text, paramsStart, paramsEnd } = message
  const params = editObject(text.slice(paramsStart, paramsEnd), { taskId: JSON.stringify(task.id) })
  const relayed = withParams(message, params)
  relayCall(request.gateway, request, at(backend, encodeHeaderValue(task.id), task.tool), relayed)
}
