import type { Share } from '../../../server/budget.ts'
import { toolSubject } from '../../access/subjects.ts'
import type { Catalogs } from '../../access/visible-lists.ts'
import { buildCatalog, type Catalog, type ShownTools } from '../../aggregation/catalog.ts'
import type { CompositeTool, StepTool } from '../../aggregation/composite-tools.ts'
import { findPageUri } from '../../aggregation/prompt-resource-catalog.ts'
import { type Route, readShape } from '../../aggregation/shape.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { ListRoom, sameTexts } from '../../backends/lists/list-memory.ts'
import type { BackendTool } from '../../backends/lists/list-page.ts'
import { listToolsIn } from '../../backends/refresh/read-lists.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { relayCall } from '../../call/call.ts'
import { answerUnreachable } from '../../call/own-answers.ts'
import { unlistedBackendsFor } from '../../core/view.ts'
import { showsApps } from '../../mcp/apps.ts'
import { CAPABILITIES_KEY, checkParamHeaders } from '../../mcp/eras.ts'
import type { Session } from '../../sessions/session.ts'
import { answerVisible, at, checkMayCall, checkScopes, findDestination, unknown } from '../catalog/caller-catalog.ts'
import { invalid } from '../catalog/prompts-and-resources.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'
import { asTaskCall } from './session-tasks.ts'
import { listMetaTools, metaTool } from './tool-search.ts'

/** Serves `tools/list` from the serialized list. It waits only for backends that were never asked for their lists. */
export function listTools(request: EndpointRequest): void {
  // The list has one page, so this server has never issued a cursor.
  if (request.message.cursor !== undefined) throw invalid('params.cursor is not one that this server gave.')
  const { search } = request.gateway
  if (search !== undefined) listMetaTools(request, search)
  else if (request.view.allListed) answerList(request)
  else request.run(() => request.view.firstLists().then(() => answerList(request)))
}

function answerList(request: EndpointRequest): void {
  const withApps = clientShowsApps(request)
  const own = listBySession(request)
  if (own === undefined) answerVisible(request, 'tools', { withApps })
  else request.run(() => own.then((lists) => answerVisible(request, 'tools', { withApps, lists })))
}

const clientShowsApps = ({ era, session, message }: EndpointRequest): boolean =>
  era === 'modern' ? showsApps(message.meta?.[CAPABILITIES_KEY]) : session?.showsApps === true

/** Serves `tools/call`: for `find_tool` and `call_tool` if they are listed, or for a tool of the catalog. */
export function callTool(request: EndpointRequest): void {
  const name = request.message.parameter('name')
  if (name === undefined) throw invalid('params.name must be a string.')
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
  const own = route === undefined && composite === undefined ? findInSession(request, name) : undefined
  if (own === undefined) relayShown(request, name, route, composite)
  else
    request.run(() =>
      own.then((found) =>
        found === undefined ? relayShown(request, name, route, composite) : relayOwn(request, name, found),
      ),
    )
}

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

/**
 * Tools that belong to a session: a server of the session era may show other tools after a call, or to each session. A
 * proxy shows each session what its server shows there; a gateway shows what the backends show to the gateway itself.
 * Through both a client can call a tool that only its session has. Nothing is cached: the server is asked each time.
 */

interface SessionTool {
  readonly catalog: Catalog
  readonly route: Route
}

/** Returns the lists that a proxy shows in the session of a request; undefined if the shared ones suffice. */
function listBySession(request: EndpointRequest): Promise<Catalogs> | undefined {
  const { session, setup, view } = request
  if (setup.config.role !== 'proxy' || session === undefined) return undefined
  const [backend] = view.backends
  if (backend === undefined || !isAskable(backend)) return undefined
  return readLists(request, session, backend).catch(() => view)
}

/** Finds a tool that is in no shared list in the client's session; undefined if there is no session to look in. */
function findInSession(request: EndpointRequest, name: string): Promise<SessionTool | undefined> | undefined {
  const { session, view } = request
  if (session === undefined || request.isInner) return undefined
  const backends = view.backends.filter((backend) => mayHave(request, session, backend, name))
  if (backends.length === 0) return undefined
  const allowed = backends.filter((backend) => wouldAllow(request, backend, name))
  // A denied tool takes no more work than it would if it were in the shared list.
  if (allowed.length === 0) checkMayCall(request, name, routeTo(backends[0] as Backend, name))
  return findIn(request, session, allowed, name)
}

const routeTo = (backend: Backend, tool: string): Route => at(backend, '', tool).route

/** Tells whether the caller may call a tool of this name, as far as that is known without asking the backend. */
function wouldAllow({ setup: { authorizer }, caller, view, message }: EndpointRequest, backend: Backend, name: string) {
  const tool = { catalog: view.catalog, name, route: routeTo(backend, name) }
  return authorizer === undefined || authorizer.wouldAllow(caller, tool, message)
}

async function findIn(
  request: EndpointRequest,
  session: Session,
  backends: readonly Backend[],
  name: string,
): Promise<SessionTool | undefined> {
  for (const backend of backends) {
    // A backend that can't list its tools isn't called either; calls of its known tools report the failure.
    const lists = await readLists(request, session, backend).catch(() => undefined)
    const route = lists?.catalog.routes.get(name)
    if (lists !== undefined && route !== undefined) return { catalog: lists.catalog, route }
  }
  return undefined
}

/** Tells whether the backend may be asked. If its circuit is open, the client would only wait longer. */
const isAskable = ({ mayShowBySession, health }: Backend): boolean => mayShowBySession && health.circuit === 'closed'

/** Tells whether a backend may have this tool. Without prefixes, only backends that the session has used count. */
function mayHave({ setup }: EndpointRequest, session: Session, backend: Backend, name: string): boolean {
  const { config } = setup
  if (!isAskable(backend)) return false
  const { prefix, hidden } = readShape(config, backend.name)
  if (hidden || !name.startsWith(prefix)) return false
  if (backend.era?.era !== 'legacy' && !session.isOpenWith(backend)) return false
  return config.role === 'proxy' || prefix !== '' || session.isOpenWith(backend)
}

async function readLists(request: EndpointRequest, session: Session, backend: Backend): Promise<Catalogs> {
  const { setup, view, share = backend.share } = request
  await backend.caller?.needed()
  if (!(await session.isServedIn(backend))) return view
  const tools = await askNow(backend, session.backendSession(backend), share)
  if (sameTexts(backend.received.tools, tools)) return view
  const shown: ShownTools = {
    name: backend.name,
    tools: backend.definitions.shown('tools', tools),
    runsTasks: backend.runsTasks,
    definitions: backend.definitions,
    // Names that a server makes up for each session would create an unbounded number of series.
    callOperationOf: () => backend.operationOf('tools/call'),
  }
  const { promptsAndResources } = view
  const catalog = buildCatalog(setup.config, [shown], (backend, uri) => findPageUri(promptsAndResources, backend, uri))
  return { catalog, promptsAndResources }
}

/** A request for a session's lists: one list at a time, and one for all callers that arrive meanwhile. */
interface Asking {
  readonly now: Promise<readonly BackendTool[]>
  next?: Promise<readonly BackendTool[]> | undefined
}

const asking = new WeakMap<BackendSession, Asking>()

/** Asks a backend for the tools of a session. The memory to read them is counted in `share`. */
function askNow(backend: Backend, session: BackendSession, share: Share): Promise<readonly BackendTool[]> {
  const before = asking.get(session)
  if (before === undefined) return ask(backend, session, share)
  before.next ??= before.now.then(ignore, ignore).then(() => ask(backend, session, share))
  return before.next
}

function ask(backend: Backend, session: BackendSession, share: Share): Promise<readonly BackendTool[]> {
  const room = new ListRoom(share)
  const entry: Asking = {
    now: listToolsIn(backend, session, room)
      .then(({ tools }) => {
        if (room.isOver)
          backend.log.debug(
            { tools: tools.length },
            'the list of a session is truncated, because the memory for lists is full',
          )
        return tools
      })
      .finally(() => {
        room.release()
        if (asking.get(session) === entry) asking.delete(session)
      }),
  }
  asking.set(session, entry)
  return entry.now
}

const ignore = (): void => {
  // The callers have received the failure.
}
