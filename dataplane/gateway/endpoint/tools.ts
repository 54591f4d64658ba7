import { PublicError } from '../../server/errors.ts'
import { answerUnreachable } from '../call/answer-unreachable.ts'
import { relayCall } from '../call/relay-call.ts'
import { unlistedBackendsFor } from '../core/view.ts'
import { showsApps } from '../mcp/apps.ts'
import { CAPABILITIES_KEY } from '../mcp/classify.ts'
import { checkParamHeaders } from '../mcp/param-headers.ts'
import { answerVisible, checkMayCall, mayCall, unknown } from './caller-catalog.ts'
import type { EndpointRequest } from './endpoint-request.ts'
import { asTaskCall } from './session-tasks.ts'
import { listMetaTools, metaTool } from './tool-search.ts'

/** `tools/list`: what is there, serialized. It waits only for backends that have never been asked. */
export function listTools(request: EndpointRequest): void {
  const { params } = request.message
  // The list has one page, so no cursor is ours.
  if (params?.['cursor'] !== undefined)
    throw new PublicError('invalid_params', { message: 'params.cursor is not one of ours.' })
  const { search } = request.gateway
  if (search !== undefined) listMetaTools(request, search)
  else if (request.view.allListed) answerList(request)
  else request.run(() => request.view.firstLists().then(() => answerList(request)))
}

const answerList = (request: EndpointRequest): void => answerVisible(request, 'tools', clientShowsApps(request))

const clientShowsApps = ({ era, session, message }: EndpointRequest): boolean =>
  era === 'modern' ? showsApps(message.meta?.[CAPABILITIES_KEY]) : session?.showsApps === true

/** `tools/call`: of the tools of tool search, where they are listed, or one of the catalog, which is relayed. */
export function callTool(request: EndpointRequest): void {
  const name = request.message.parameter('name')
  if (name === undefined) throw new PublicError('invalid_params', { message: 'params.name must be a string.' })
  const { search } = request.gateway
  const meta = search === undefined || request.isInner ? undefined : metaTool(name, search, callTool)
  if (meta !== undefined) meta(request)
  else if (request.view.allListed || isReady(request, name)) relay(request, name)
  else request.run(() => request.view.firstLists().then(() => relay(request, name)))
}

/**
 * Whether a call need not wait for backends that have not been asked yet: its tool is known, and may be called. One that
 * is denied takes as long as one that is not there.
 */
function isReady(request: EndpointRequest, name: string): boolean {
  const route = request.view.catalog.routes.get(name)
  return route !== undefined && mayCall(request, name, route)
}

function relay(request: EndpointRequest, name: string): void {
  const { routes, ownNames } = request.view.catalog
  const route = routes.get(name) ?? (clientShowsApps(request) ? ownNames.get(name) : undefined)
  checkMayCall(request, name, route)
  if (route === undefined) {
    // A name that only a backend which never answered could have is not an unknown one.
    const silent = unlistedBackendsFor(request.setup.config, request.view.backends, name)
    if (silent.length === 0) throw unknown(request, 'unknown_tool')
    answerUnreachable(request, silent)
    return
  }
  if (request.era === 'modern' && !request.isInner && route.paramHeaders.length > 0)
    checkParamHeaders(request.req.headers, route.paramHeaders, request.message.params?.['arguments'])
  relayCall(
    request.gateway,
    request,
    route,
    request.message.params?.['task'] === undefined ? request.message : asTaskCall(request, route),
  )
}
