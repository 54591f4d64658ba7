import { randomUUID } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import { errorTable, PublicError } from '../../../server/errors.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { askable } from '../../mcp/client-capabilities.ts'
import { editObject, Members, memberText, paramsText, skipSpace } from '../../mcp/json.ts'
import { type Message, withParams } from '../../mcp/message.ts'
import { withRelatedTask } from '../../mcp/tasks.ts'
import type { ServerRequestOptions } from '../../sessions/pending-server-requests.ts'
import type { Session } from '../../sessions/session.ts'
import { SessionTasks, type TaskIds } from '../tasks/tasks.ts'

/** The timeout of a client's, and its user's, answer. */
export const CLIENT_TIMEOUT_MS = 600_000

export type Needed = Readonly<Record<string, object>>

/**
 * Reads a request of a backend (JSON text). `needed`: the capability that a client must declare for it; undefined if
 * clients never get it.
 */
export function readServerRequest(text: string) {
  const value: unknown = JSON.parse(text)
  const { method, params: given } = isObject(value) ? value : {}
  const params = isObject(given) ? given : {}
  const name = typeof method === 'string' && Object.hasOwn(askable, method) ? askable[method] : undefined
  const parts = name === 'elicitation' && params['mode'] === 'url' ? { url: {} } : {}
  const needed: Needed | undefined = name && { [name]: parts }
  return { method: method as string, params, needed }
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
  /**
   * Called before the client is asked. Returns how to send the request on another stream; absent: on the client's GET
   * stream.
   */
  opened?(): { say(message: string): void; readonly signal: AbortSignal }
}

/**
 * Relays a legacy backend's request to the legacy client of a session, and the response to the backend. `id` is the
 * request's id at the backend, as JSON text; `question` is its whole message. The backend always gets a response.
 * Rejects if that response reports an error of the gateway itself.
 */
export async function relayServerRequest(ask: ServerRequest, id: string, question: string): Promise<void> {
  const { services, session, backendSession } = ask
  const { method, needed } = readServerRequest(question)
  if (needed === undefined || !hasCapabilities(JSON.parse(session.record.capabilities), needed)) {
    backendSession.answer(method, id)
    return
  }
  try {
    const tasks = new SessionTasks(services.taskIds, session, backendSession.backend.name)
    const asked = withRelatedTask(paramsText(question), tasks.clientId)
    const opened = ask.opened?.()
    const response = await services.sessions.request(session, method, asked, {
      timeoutMs: CLIENT_TIMEOUT_MS,
      ...(opened === undefined ? {} : { send: opened.say, signal: opened.signal }),
    })
    backendSession.send(editObject(tasks.responseForBackend(response), { id }))
  } catch (error) {
    backendSession.refuse(id, error instanceof PublicError ? error.message : errorTable.internal.text)
    if (!(error instanceof PublicError)) throw error
  }
}

/** The most rounds of input that a backend may require for one call. */
export const MOST_ROUNDS = 8

/** The input that a modern backend requires before it answers: members of its result, as JSON text. */
export interface InputRequired {
  readonly requests: string | undefined
  readonly state: string | undefined
}

/** Returns the input that an answer requires; undefined if the answer is final. */
export function readInputRequired(answer: Buffer): InputRequired | undefined {
  if (!answer.includes('input_required')) return undefined
  const result = memberText(answer.toString('utf8'), 'result')
  if (result === undefined || memberText(result, 'resultType') !== '"input_required"') return undefined
  return { requests: memberText(result, 'inputRequests'), state: memberText(result, 'requestState') }
}

interface InputServices {
  readonly sessions: ClientRequester
  readonly session: Session
  say(message: string): void
  readonly signal: AbortSignal
}

/**
 * Sends a legacy client all requests of a modern backend and returns the call's request with the responses in it.
 * Rejects with a PublicError if the client has not declared a needed capability or responds with an error.
 */
export async function withInputs(message: Message, required: InputRequired, services: InputServices): Promise<Message> {
  const pending: Promise<string>[] = []
  const requests = new Members(required.requests ?? '{}', skipSpace(required.requests ?? '{}', 0))
  while (requests.next()) {
    const { key, value } = requests
    pending.push(requestInput(value, services).then((result) => `${JSON.stringify(key)}:${result}`))
  }
  const responses = await Promise.all(pending)
  const { text, paramsStart, paramsEnd } = message
  const params = editObject(text.slice(paramsStart, paramsEnd), {
    inputResponses: responses.length === 0 ? undefined : `{${responses.join(',')}}`,
    requestState: required.state,
  })
  return withParams(message, params)
}

/**
 * Before 2026-07-28 a URL elicitation had an id for a notification of its completion, which the gateway never sends.
 */
function asLegacy(request: string, { mode, elicitationId }: Readonly<Record<string, unknown>>): string {
  const params = paramsText(request)
  const lacksId = mode === 'url' && elicitationId === undefined
  return lacksId ? editObject(params, { elicitationId: JSON.stringify(randomUUID()) }) : params
}

/** Sends one request (JSON text) to the client and returns the result of its response as JSON text. */
async function requestInput(request: string, { sessions, session, say, signal }: InputServices): Promise<string> {
  const { method, params, needed } = readServerRequest(request)
  if (needed === undefined || !hasCapabilities(JSON.parse(session.record.capabilities), needed))
    throw new PublicError('missing_capability', {
      message: 'The backend asks for something that this client does not support.',
    })
  const response = await sessions.request(session, method, asLegacy(request, params), {
    timeoutMs: CLIENT_TIMEOUT_MS,
    send: say,
    signal,
  })
  const result = memberText(response, 'result')
  if (result === undefined)
    throw new PublicError('client_unreachable', { message: 'The client refused the backend’s question.' })
  return result
}
