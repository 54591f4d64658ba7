import type { Link } from '../backends/session/link.ts'
import { showsApps } from '../mcp/apps.ts'
import { CAPABILITIES_KEY, LOG_LEVEL_KEY } from '../mcp/classify.ts'
import { declaredOf } from '../mcp/client-capabilities.ts'
import { metaForLegacy, rewriteCall, withoutResponses } from '../mcp/rewrite.ts'
import type { Call } from './call.ts'
import { takesServerRequests } from './input/server-request.ts'
import type { HttpRequest } from './modern-request.ts'
import type { SessionTasks } from './tasks/session-tasks.ts'

/** Takes what a backend sends in a session that one call has for itself. */
export interface UnsolicitedReceiver {
  /** A message outside of the answer. */
  unsolicited(bytes: Buffer): void
}

/**
 * The session with a legacy backend for a caller of the modern era, who has none: one that all of the caller's calls
 * share, or, where the backend may send the client requests, one that this call has for itself. What the backend sends
 * in the latter outside of the answer goes to `receiver`.
 */
export function linkOfCaller({ context, message, backend }: Call, receiver: UnsolicitedReceiver): Link {
  const { binding } = context
  const capabilities = message.meta?.[CAPABILITIES_KEY]
  if (!takesServerRequests(capabilities))
    return backend.callerLinks.share(binding, showsApps(capabilities) ? declaredOf(capabilities) : undefined)
  const link = backend.callerLinks.borrow(binding, declaredOf(capabilities))
  link.heard = (bytes) => receiver.unsolicited(bytes)
  return link
}

/** What has to be done before the call can go out in its session: undefined where that is ready. */
export function preparationOf({ backend, context, message }: Call, link: Link): Promise<unknown> | undefined {
  const { era, sessionEra } = backend
  if (link.opened === undefined) return era?.era === 'modern' ? sessionEra.open(link) : link.open()
  const { beginning } = link
  if (beginning !== undefined) return beginning
  // Callers of the modern era say in each request which log messages they want.
  const level = context.era === 'modern' ? message.meta?.[LOG_LEVEL_KEY] : undefined
  return typeof level === 'string' ? link.lowerLogLevel(level) : undefined
}

/**
 * The id (JSON text) that a call has in its session with the backend: the client's, where the session is the client's
 * own. Callers of the modern era share one, and as all of them count from zero, it gets an id of that session.
 */
export const legacyId = ({ session, id }: Call, link: Link): string => (session === undefined ? link.nextId() : id)

/** A call as a backend takes it in an open session; `id` is its `legacyId`. */
export function legacyRequest(call: Call, link: Link, id: string, tasks: SessionTasks | undefined): HttpRequest {
  const { context, session, route, backend } = call
  const message = withoutResponses(call.message)
  const meta = context.era === 'modern' ? metaForLegacy(message) : tasks?.metaOf(message)
  const edits = { id: session === undefined ? id : undefined, name: route.rename, meta }
  return { path: backend.path, method: 'POST', headers: link.headers(), body: rewriteCall(message, edits) }
}
