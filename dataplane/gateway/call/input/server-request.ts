import { isObject } from '../../../../crds/settings/json.ts'
import { errorTable, PublicError } from '../../../server/errors.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { editObject, paramsText } from '../../mcp/json.ts'
import { withRelatedTask } from '../../mcp/tasks.ts'
import type { ServerRequestOptions } from '../../sessions/pending-server-requests.ts'
import type { Session } from '../../sessions/sessions.ts'
import { SessionTasks } from '../tasks/session-tasks.ts'
import type { TaskIds } from '../tasks/task-ids.ts'

/** The timeout of a client's, and its user's, answer. */
export const CLIENT_TIMEOUT_MS = 600_000

/** The capability that each server-to-client request needs. */
const askable: Readonly<Record<string, 'elicitation' | 'sampling' | 'roots'>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Capabilities, in the form in which a client declares them. */
export type Needed = Readonly<Record<string, object>>

/** Returns the capability that a client must declare for this request; undefined if clients never get it. */
export function capabilityFor(method: string, params: Readonly<Record<string, unknown>>): Needed | undefined {
  const name = Object.hasOwn(askable, method) ? askable[method] : undefined
  if (name === undefined) return undefined
  return { [name]: name === 'elicitation' && params['mode'] === 'url' ? { url: {} } : {} }
}

/** Tells whether declared capabilities include the ones that are needed. */
export const hasCapabilities = (capabilities: unknown, needed: Needed): boolean =>
  isObject(capabilities) &&
  Object.entries(needed).every(([name, parts]) => {
    const declared = capabilities[name]
    if (!isObject(declared)) return false
    if ('url' in parts) return isObject(declared['url'])
    // A client that declares no mode of elicitation supports forms. One that declares only another mode does not.
    return name !== 'elicitation' || isObject(declared['form']) || !('url' in declared)
  })

/** Tells whether a client with these capabilities accepts any server-to-client request. */
export const takesServerRequests = (capabilities: unknown): boolean =>
  isObject(capabilities) && Object.values(askable).some((capability) => isObject(capabilities[capability]))

/** Sends a request to the client of a session, at any replica where the client listens (`Sessions`). */
export interface ClientRequester {
  request(session: Session, method: string, params: string, options: ServerRequestOptions): Promise<string>
}

/** The parts that send a backend's request to a client. */
export interface ServerRequestServices {
  readonly sessions: ClientRequester
  readonly taskIds: TaskIds
}

interface ServerRequest {
  readonly services: ServerRequestServices
  readonly session: Session
  readonly backendSession: BackendSession
  /** Sends the request on another stream; absent: on the client's GET stream. */
  say?(message: string): void
  readonly signal?: AbortSignal
}

/**
 * Relays a legacy backend's request to the legacy client of a session, and the response to the backend. `id` is the
 * request's id at the backend, as JSON text; `question` is its whole message. The backend always gets a response.
 * Rejects if that response reports an error of the gateway itself.
 */
export async function relayServerRequest(ask: ServerRequest, id: string, question: string): Promise<void> {
  const { services, session, backendSession, say, signal } = ask
  const { method, params: given } = JSON.parse(question) as Record<string, unknown>
  const params = isObject(given) ? given : {}
  const needed = typeof method === 'string' ? capabilityFor(method, params) : undefined
  if (needed === undefined || !hasCapabilities(JSON.parse(session.record.capabilities), needed)) {
    backendSession.answer(method, id)
    return
  }
  try {
    const tasks = new SessionTasks(services.taskIds, session, backendSession.backend.name)
    const asked = withRelatedTask(paramsText(question), tasks.clientId)
    const response = await services.sessions.request(session, method as string, asked, {
      timeoutMs: CLIENT_TIMEOUT_MS,
      ...(say === undefined ? {} : { send: say }),
      ...(signal === undefined ? {} : { signal }),
    })
    backendSession.send(editObject(tasks.responseForBackend(response), { id }))
  } catch (error) {
    backendSession.refuse(id, error instanceof PublicError ? error.message : errorTable.internal.text)
    if (!(error instanceof PublicError)) throw error
  }
}
