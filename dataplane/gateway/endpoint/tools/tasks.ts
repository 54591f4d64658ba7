import { PublicError } from '../../../server/errors.ts'
import { relayCall } from '../../call/call.ts'
import { CAPABILITIES_KEY } from '../../mcp/classify.ts'
import { encodeHeaderValue } from '../../mcp/headers.ts'
import { editObject } from '../../mcp/json.ts'
import { withParams } from '../../mcp/rewrite.ts'
import { hasTasks, TASKS_EXTENSION } from '../../mcp/tasks.ts'
import { checkMayCallPlain } from '../catalog/caller-catalog.ts'
import { at } from '../catalog/destination.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

/** `tasks/get`, `tasks/update` and `tasks/cancel` (SEP-2663): relayed to the backend that runs the caller's task. */
export function relayTask(request: EndpointRequest): void {
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
