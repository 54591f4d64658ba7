import type { Share } from '../../../server/budget.ts'
import type { Catalogs } from '../../access/visible-lists.ts'
import { buildCatalog, type Catalog, type Route, type ShownTools } from '../../aggregation/catalog.ts'
import { findPageUri } from '../../aggregation/prompt-resource-catalog.ts'
import { readShape } from '../../aggregation/shape.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { ListRoom } from '../../backends/lists/list-room.ts'
import { sameTexts } from '../../backends/lists/shared-lists.ts'
import type { BackendTool } from '../../backends/lists/tool.ts'
import { listToolsIn } from '../../backends/refresh/list-tools.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import type { Session } from '../../sessions/sessions.ts'
import { at, checkMayCall } from '../catalog/caller-catalog.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

/**
 * Tools that belong to a session: a server of the session era may show other tools after a call, or to each session. A
 * proxy shows each session what its server shows there; a gateway shows what the backends show to the gateway itself.
 * Through both a client can call a tool that only its session has. Nothing is cached: the server is asked each time.
 */

/** A tool of the client's session, with its list. */
export interface SessionTool {
  readonly catalog: Catalog
  readonly route: Route
}

/** Returns the lists that a proxy shows in the session of a request; undefined if the shared ones suffice. */
export function listedBySession(request: EndpointRequest): Promise<Catalogs> | undefined {
  const { session, setup, view } = request
  if (setup.config.role !== 'proxy' || session === undefined) return undefined
  const [backend] = view.backends
  if (backend === undefined || !isAskable(backend)) return undefined
  return listsIn(request, session, backend).catch(() => view)
}

/** Finds a tool that is in no shared list in the client's session; undefined if there is no session to look in. */
export function foundInSession(request: EndpointRequest, name: string): Promise<SessionTool | undefined> | undefined {
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
    const lists = await listsIn(request, session, backend).catch(() => undefined)
    const route = lists?.catalog.routes.get(name)
    if (lists !== undefined && route !== undefined) return { catalog: lists.catalog, route }
  }
  return undefined
}

/** Tells whether the backend may be asked: one whose circuit is open would let the client wait for nothing. */
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

async function listsIn(request: EndpointRequest, session: Session, backend: Backend): Promise<Catalogs> {
  const { setup, view, share = backend.share } = request
  await backend.caller?.needed()
  if (!(await session.isServedIn(backend))) return view
  const tools = await askedNow(backend, session.backendSession(backend), share)
  if (sameTexts(backend.said.tools, tools)) return view
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
function askedNow(backend: Backend, session: BackendSession, share: Share): Promise<readonly BackendTool[]> {
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
          backend.log.debug({ tools: tools.length }, 'the list of a session is cut: the memory for lists is full')
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
