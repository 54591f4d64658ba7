import { PublicError } from '../../server/errors.ts'
import { unreachable } from '../backends/backend/unreachable.ts'
import { Call } from '../call/call.ts'
import { showsApps } from '../mcp/apps.ts'
import { CAPABILITIES_KEY } from '../mcp/classify.ts'
import { checkParamHeaders } from '../mcp/param-headers.ts'
import type { EndpointRequest } from './endpoint-request.ts'
import { taskCall } from './session-tasks.ts'

/** `tools/list`: what is there, serialized. It waits only for backends that have never been asked. */
export function listTools(turn: EndpointRequest): void {
  const { params } = turn.message
  // The list has one page, so no cursor is ours.
  if (params?.['cursor'] !== undefined)
    throw new PublicError('invalid_params', { message: 'params.cursor is not one of ours.' })
  if (turn.gateway.allAsked) answerList(turn)
  else turn.run(() => turn.gateway.firstLists().then(() => answerList(turn)))
}

function answerList(turn: EndpointRequest): void {
  const { catalog } = turn.gateway
  // An empty list would be believed: a gateway in front of us keeps it for half a minute.
  turn.gateway.checkLists()
  const { legacyList, modernList } = clientShowsApps(turn) ? catalog : catalog.plain
  turn.resultBytes(turn.era === 'modern' ? modernList : legacyList)
}

const clientShowsApps = ({ era, session, message }: EndpointRequest): boolean =>
  era === 'modern' ? showsApps(message.meta?.[CAPABILITIES_KEY]) : session?.showsApps === true

/** `tools/call`: found in the catalog and relayed. */
export function callTool(turn: EndpointRequest): void {
  const name = turn.message.parameter('name')
  if (name === undefined) throw new PublicError('invalid_params', { message: 'params.name must be a string.' })
  if (turn.gateway.catalog.routes.has(name) || turn.gateway.allAsked) relay(turn, name)
  else turn.run(() => turn.gateway.firstLists().then(() => relay(turn, name)))
}

function relay(turn: EndpointRequest, name: string): void {
  const { routes, ownNames } = turn.gateway.catalog
  const route = routes.get(name) ?? (clientShowsApps(turn) ? ownNames.get(name) : undefined)
  if (route === undefined) {
    // A name that only a backend which never answered could have is not an unknown one.
    const silent = turn.gateway.silentWith(name)
    throw silent.length > 0 ? unreachable(silent) : new PublicError('unknown_tool')
  }
  if (turn.era === 'modern' && route.paramHeaders.length > 0)
    checkParamHeaders(turn.req.headers, route.paramHeaders, turn.message.params?.['arguments'])
  new Call(
    turn.gateway,
    turn,
    route,
    turn.message.params?.['task'] === undefined ? turn.message : taskCall(turn, route),
  ).start()
}
