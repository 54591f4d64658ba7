import { PublicError } from '../../../server/errors.ts'
import { toolSubject } from '../../access/subjects.ts'
import type { CompositeTool, StepTool } from '../../aggregation/composite-tools.ts'
import type { Route } from '../../aggregation/route.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { relayCall } from '../../call/call.ts'
import { answerUnreachable } from '../../call/own-answers.ts'
import { unlistedBackendsFor } from '../../core/view.ts'
import { showsApps } from '../../mcp/apps.ts'
import { checkParamHeaders } from '../../mcp/headers.ts'
import { CAPABILITIES_KEY } from '../../mcp/revisions.ts'
import { answerVisible, checkMayCall, checkScopes, findDestination, unknown } from '../catalog/caller-catalog.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'
import { foundInSession, listedBySession, type SessionTool } from './of-session.ts'
import { asTaskCall } from './session-tasks.ts'
import { listMetaTools, metaTool } from './tool-search.ts'

/** Serves `tools/list` from the serialized list. It waits only for backends that were never asked for their lists. */
export function listTools(request: EndpointRequest): void {
  // The list has one page, so this server has never issued a cursor.
  if (request.message.cursor !== undefined)
    throw new PublicError('invalid_params', { message: 'params.cursor is not one that this server gave.' })
  const { search } = request.gateway
  if (search !== undefined) listMetaTools(request, search)
  else if (request.view.allListed) answerList(request)
  else request.run(() => request.view.firstLists().then(() => answerList(request)))
}

function answerList(request: EndpointRequest): void {
  const withApps = clientShowsApps(request)
  const own = listedBySession(request)
  if (own === undefined) answerVisible(request, 'tools', { withApps })
  else request.run(() => own.then((lists) => answerVisible(request, 'tools', { withApps, lists })))
}

const clientShowsApps = ({ era, session, message }: EndpointRequest): boolean =>
  era === 'modern' ? showsApps(message.meta?.[CAPABILITIES_KEY]) : session?.showsApps === true

/** Serves `tools/call`: for `find_tool` and `call_tool` if they are listed, or for a tool of the catalog. */
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
 * Tells whether a call need not wait for the first lists, because its tool is known and allowed. For a denied tool it
 * waits as for a missing one, so that their times don't differ.
 */
function isReady(request: EndpointRequest, name: string): boolean {
  const { caller, message, setup, view } = request
  const { catalog } = view
  const route = catalog.routes.get(name)
  if (route === undefined) return false
  return setup.authorizer === undefined || setup.authorizer.wouldAllow(caller, { catalog, name, route }, message)
}

function relay(request: EndpointRequest, name: string): void {
  const { routes, ownNames, composites } = request.view.catalog
  const route = routes.get(name) ?? (clientShowsApps(request) ? ownNames.get(name) : undefined)
  const composite = route === undefined ? composites.get(name) : undefined
  const own = route === undefined && composite === undefined ? foundInSession(request, name) : undefined
  if (own === undefined) relayShown(request, name, route, composite)
  else
    request.run(() =>
      own.then((found) =>
        found === undefined ? relayShown(request, name, route, composite) : relayOwn(request, name, found),
      ),
    )
}

/** Relays a call of a tool that only the client's session has. */
function relayOwn(request: EndpointRequest, name: string, { catalog, route }: SessionTool): void {
  checkMayCall(request, name, route, catalog)
  checkScopes(request, [name])
  follow(request, route, name)
}

function relayShown(
  request: EndpointRequest,
  name: string,
  route: Route | undefined,
  composite: CompositeTool | undefined,
): void {
  checkMayCall(request, name, route)
  if (composite !== undefined) {
    // The scopes of all steps are checked at once, because a run that has begun can't request a new token.
    const { stepTools } = request.view.catalog
    checkScopes(request, [name, ...composite.workflow.tools.map((tool) => stepTools.get(tool)?.name ?? tool)])
    runComposite(request, name, composite)
  }
  // A name is not unknown if a backend that has never answered may have it.
  else if (route === undefined) refuse(request, unlistedBackendsFor(request.setup.config, request.view.backends, name))
  else {
    const shown = shownName(request, name, route)
    checkScopes(request, [shown])
    follow(request, route, shown)
  }
}

/** Returns the shown name of a tool that was called by its backend's own name. Rate limits and policies use it. */
const shownName = ({ view: { catalog } }: EndpointRequest, name: string, route: Route): string =>
  catalog.routes.get(name) === route ? name : toolSubject(catalog, name, route).id

/** Returns the shown name of the tool that a request calls; if there is none, the name in the request. */
export function calledName(request: EndpointRequest): string {
  const name = request.message.parameter('name') ?? ''
  const { routes, ownNames } = request.view.catalog
  const route = routes.has(name) || !clientShowsApps(request) ? undefined : ownNames.get(name)
  return route === undefined ? name : shownName(request, name, route)
}

type Engine = typeof import('./composite/call-composite.ts')

/** The module for composite tools, kept after the first call because Node resolves a module at each `import()`. */
let engine: Engine | undefined

function runComposite(request: EndpointRequest, name: string, { workflow }: CompositeTool): void {
  request.tellUse(name)
  const run = ({ callComposite }: Engine) => callComposite(request, workflow, callStepTool)
  request.run(() => (engine === undefined ? loadEngine().then(run) : run(engine)))
}

async function loadEngine(): Promise<Engine> {
  engine = await import('./composite/call-composite.ts')
  return engine
}

/**
 * Calls a tool, shown or not, for a step of a composite tool, with the rights of its caller. A missing and a denied
 * tool fail in the same way. `name`: the name in the step; `tool`: undefined if there is none.
 */
function callStepTool(request: EndpointRequest, name: string, tool: StepTool | undefined): void {
  checkMayCall(request, tool?.name ?? name, tool?.route)
  if (tool !== undefined) {
    checkScopes(request, [tool.name])
    follow(request, tool.route, tool.name)
  } else
    refuse(
      request,
      request.view.backends.filter((one) => one.tools === undefined && name.startsWith(one.name)),
    )
}

/** Answers a call of a name that no backend has. `silent`: backends that have never listed their tools. */
function refuse(request: EndpointRequest, silent: readonly Backend[]): void {
  if (silent.length === 0) throw unknown(request, 'unknown_tool')
  answerUnreachable(request, silent)
}

/** Relays an authorized call to its destination. */
function follow(request: EndpointRequest, route: Route, shown: string): void {
  const { message } = request
  if (request.era === 'modern' && !request.isInner && route.paramHeaders.length > 0)
    checkParamHeaders(request.req.headers, route.paramHeaders, message.params?.['arguments'])
  const destination = { ...findDestination(request, route), shownName: shown }
  const asked = message.params?.['task'] === undefined ? message : asTaskCall(request, destination.backend)
  relayCall(request.gateway, request, destination, asked)
}
