import type { IncomingHttpHeaders } from 'node:http'
import { REQUEST_ID } from '../../server/request-id.ts'
import type { TraceContext } from '../../telemetry/observe.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import { addParamHeaders } from '../mcp/headers.ts'
import { CAPABILITIES_KEY, LOG_LEVEL_KEY, MODERN, VERSION_KEY } from '../mcp/revisions.ts'
import { metaForLegacy, metaForModern, rewriteCall, withoutResponses } from '../mcp/rewrite.ts'
import { FIRST_OWN_ID } from '../mcp/rpc-text.ts'
import type { Session } from '../sessions/sessions.ts'
import type { Asked } from './asked.ts'
import type { SessionTasks } from './tasks/session-tasks.ts'

export interface HttpRequest {
  readonly path: string
  readonly method: 'POST' | 'GET'
  /** A flat list. */
  readonly headers: string[]
  readonly body?: string
}

/** Returns the id (JSON text) of a call at a modern backend: the client's id or, after a round of input, our own. */
export const modernId = ({ rounds, id }: Asked): string => (rounds === 0 ? id : String(FIRST_OWN_ID + rounds))

/**
 * Builds a call for a modern backend (2026-07-28). Headers repeat the routing, and `_meta` contains the client's
 * details.
 */
export function modernRequest(asked: Asked): HttpRequest {
  const { message, route, backend, rounds, context } = asked
  const { rename, nameHeader, paramHeaders } = route
  const headers = backend.modernHeaders(message.method)
  if (nameHeader !== '') headers.push('mcp-name', nameHeader)
  if (paramHeaders.length > 0) addParamHeaders(headers, paramHeaders, message.params?.['arguments'])
  const id = rounds === 0 ? undefined : modernId(asked)
  const meta = context.era === 'modern' ? undefined : metaForModern(message, modernEnvelope(asked.session))
  const edits = { id, name: rename, meta, trace: asked.observed.trace }
  return { path: backend.path, method: 'POST', headers, body: rewriteCall(message, edits) }
}

/** Returns the `_meta` keys for a legacy client's call to a modern backend, from its session's declarations. */
const modernEnvelope = (session: Session | undefined): Readonly<Record<string, string>> => ({
  [VERSION_KEY]: JSON.stringify(MODERN),
  [CAPABILITIES_KEY]: session?.declared ?? '{}',
  [LOG_LEVEL_KEY]: JSON.stringify(session?.logLevel ?? DEFAULT_LEVEL),
})

/** The lowest level of log messages for a legacy client that has set none. */
const DEFAULT_LEVEL = 'info'

/**
 * Returns the id (JSON text) of a call in its session with the backend: the client's id if the session is the client's
 * own. Callers of the modern era share a session and each count from zero, so their calls get ids of that session.
 */
export const legacyId = ({ session, id }: Asked, backendSession: BackendSession): string =>
  session === undefined ? backendSession.nextId() : id

/** Builds a call for a backend in an open session; `id` is its `legacyId`. */
export function legacyRequest(
  asked: Asked,
  backendSession: BackendSession,
  id: string,
  tasks: SessionTasks | undefined,
): HttpRequest {
  const { context, session, route, backend } = asked
  const message = withoutResponses(asked.message)
  const meta = context.era === 'modern' ? metaForLegacy(message) : tasks?.metaOf(message)
  const { trace } = asked.observed
  const edits = { id: session === undefined ? id : undefined, name: route.rename, meta, trace }
  return { path: backend.path, method: 'POST', headers: backendSession.headers(), body: rewriteCall(message, edits) }
}

/** Adds the headers that every request of a call has: its id, its trace context, and the client's passed headers. */
export function addCallHeaders({ headers }: HttpRequest, { context, observed }: Asked): void {
  const { setup, req, requestId } = context
  if (!isThere(headers, REQUEST_ID)) headers.push(REQUEST_ID, requestId)
  if (observed.trace !== undefined) addTraceHeaders(headers, observed.trace)
  if (setup.passedHeaders.length > 0) passHeaders(headers, setup.passedHeaders, req.headers)
}

/**
 * Adds the client's headers that the configuration passes on (`names`, in lower case) to the headers of a request to a
 * backend, a flat list. Existing headers stay, because the configuration's own headers take precedence.
 */
export function passHeaders(headers: string[], names: readonly string[], from: IncomingHttpHeaders): void {
  for (const name of names) {
    const value = from[name]
    if (value === undefined || isThere(headers, name)) continue
    headers.push(name, Array.isArray(value) ? value.join(', ') : value)
  }
}

/** Adds the trace context of a call to the headers of its request, a flat list. */
function addTraceHeaders(headers: string[], trace: TraceContext): void {
  if (isThere(headers, 'traceparent')) return
  headers.push('traceparent', trace.traceparent)
  if (trace.tracestate !== undefined) headers.push('tracestate', trace.tracestate)
}

function isThere(headers: readonly string[], name: string): boolean {
  for (let index = 0; index < headers.length; index += 2) {
    const header = headers[index] as string
    // Names of a different length need no comparison of letters.
    if (header.length === name.length && header.toLowerCase() === name) return true
  }
  return false
}
