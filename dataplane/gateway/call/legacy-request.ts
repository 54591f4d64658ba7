import type { BackendSession } from '../backends/session/backend-session.ts'
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
export function callerSession({ context, message, backend }: Call, receiver: UnsolicitedReceiver): BackendSession {
  const { binding } = context
  const capabilities = message.meta?.[CAPABILITIES_KEY]
  if (!takesServerRequests(capabilities))
    return backend.callerSessions.acquireShared(binding, showsApps(capabilities) ? declaredOf(capabilities) : undefined)
  const backendSession = backend.callerSessions.acquire(binding, declaredOf(capabilities))
  backendSession.onUnsolicited = (bytes) => receiver.unsolicited(bytes)
  return backendSession
}

/** What has to be done before the call can go out in its session: undefined where that is ready. */
export function preparationOf(
  { backend, context, message }: Call,
  backendSession: BackendSession,
): Promise<unknown> | undefined {
  const { era, legacySupport } = backend
  if (backendSession.opened === undefined)
    return era?.era === 'modern' ? legacySupport.open(backendSession) : backendSession.open()
  const { subscribing } = backendSession
  if (subscribing !== undefined) return subscribing
  // Callers of the modern era say in each request which log messages they want.
  const level = context.era === 'modern' ? message.meta?.[LOG_LEVEL_KEY] : undefined
  return typeof level === 'string' ? backendSession.lowerLogLevel(level) : undefined
}

/**
 * The id (JSON text) that a call has in its session with the backend: the client's, where the session is the client's
 * own. Callers of the modern era share one, and as all of them count from zero, it gets an id of that session.
 */
export const legacyId = ({ session, id }: Call, backendSession: BackendSession): string =>
  session === undefined ? backendSession.nextId() : id

/** A call as a backend takes it in an open session; `id` is its `legacyId`. */
export function legacyRequest(
  call: Call,
  backendSession: BackendSession,
  id: string,
  tasks: SessionTasks | undefined,
): HttpRequest {
  const { context, session, route, backend } = call
  const message = withoutResponses(call.message)
  const meta = context.era === 'modern' ? metaForLegacy(message) : tasks?.metaOf(message)
  const { trace } = call.observed
  const edits = { id: session === undefined ? id : undefined, name: route.rename, meta, trace }
  return { path: backend.path, method: 'POST', headers: backendSession.headers(), body: rewriteCall(message, edits) }
}
