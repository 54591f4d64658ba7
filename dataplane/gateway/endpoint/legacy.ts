import { PublicError } from '../../server/errors.ts'
import { unsupportedVersion } from '../mcp/classify.ts'
import { normalCapabilities } from '../mcp/client-capabilities.ts'
import { memberText } from '../mcp/json.ts'
import { isLegacyRevision, negotiateLegacy } from '../mcp/revisions.ts'
import type { Session } from '../sessions/sessions.ts'
import type { EndpointRequest } from './endpoint-request.ts'
import { setLogLevel } from './log-level.ts'
import { serveMethods } from './methods.ts'
import { watchResource } from './offers.ts'
import { knowsTasks, listSessionTasks, relaySessionTask } from './session-tasks.ts'

/** Serves a message of the legacy era: `initialize` opens a session, everything else belongs to one. */
export function serveLegacy(turn: EndpointRequest): void | Promise<void> {
  const { message } = turn
  if (message.method === 'initialize' && message.kind === 'request') return initialize(turn)
  const session = sessionOf(turn)
  if (session instanceof Promise)
    return session.then((found) => {
      turn.session = found
      serveInSession(turn)
    })
  turn.session = session
  serveInSession(turn)
}

/** The session that the headers name. Throws `session_required`, `session_unknown`, `unsupported_version`. */
export function sessionOf(turn: EndpointRequest): Session | Promise<Session> {
  const { headers } = turn.req
  const version = headers['mcp-protocol-version']
  if (typeof version === 'string' && !isLegacyRevision(version)) throw unsupportedVersion(version)
  const id = headers['mcp-session-id']
  if (typeof id !== 'string' || id === '') throw new PublicError('session_required')
  return turn.gateway.sessions.find(id, turn.binding, turn.share)
}

/** In characters of JSON text; what is kept of it is far less. */
const MOST_CAPABILITIES = 64 * 1024

async function initialize(turn: EndpointRequest): Promise<void> {
  const { params = {}, text, paramsStart, paramsEnd } = turn.message
  const { protocolVersion, capabilities } = params
  if ((memberText(text.slice(paramsStart, paramsEnd), 'capabilities') ?? '').length > MOST_CAPABILITIES)
    throw new PublicError('too_large', { message: `capabilities have more than ${MOST_CAPABILITIES} characters.` })
  if (typeof protocolVersion !== 'string')
    throw new PublicError('invalid_params', { message: 'params.protocolVersion must be a string.' })
  const revision = negotiateLegacy(protocolVersion)
  const fields = { binding: turn.binding, revision, capabilities: JSON.stringify(normalCapabilities(capabilities)) }
  const opened = turn.gateway.sessions.open(fields, turn.share)
  const session = opened instanceof Promise ? await opened : opened
  if (!turn.gateway.allAsked) await turn.gateway.firstLists()
  const result = {
    protocolVersion: revision,
    capabilities: { ...turn.gateway.offers.capabilities, ...(knowsTasks(session) ? turn.gateway.offers.tasks : {}) },
    serverInfo: turn.setup.serverInfo,
    instructions: turn.gateway.offers.instructions,
  }
  turn.result(JSON.stringify(result), ['mcp-session-id', session.record.id])
}

const serveRequest = serveMethods({
  'resources/subscribe': watchResource,
  'resources/unsubscribe': watchResource,
  'logging/setLevel': setLogLevel,
  'tasks/get': relaySessionTask,
  'tasks/result': relaySessionTask,
  'tasks/cancel': relaySessionTask,
  'tasks/list': listSessionTasks,
  ping: (turn) => turn.result('{}'),
})

/** Serves one message of a session that is known. */
export function serveInSession(turn: EndpointRequest): void {
  const { message } = turn
  if (message.kind === 'request') {
    serveRequest(turn)
    return
  }
  if (message.kind === 'response' && message.id !== undefined)
    turn.gateway.sessions.answered(turn.session as Session, message.id, message.text)
  else if (message.method === 'notifications/cancelled') cancel(turn)
  else if (message.method === 'notifications/roots/list_changed')
    for (const link of (turn.session as Session).openLinks) link.send(message.text)
  turn.accepted()
}

function cancel(turn: EndpointRequest): void {
  const id = turn.message.params?.['requestId']
  if (typeof id !== 'string' && typeof id !== 'number') return
  const session = turn.session as Session
  const request = JSON.stringify(id)
  const call = turn.gateway.inFlight.find(session, request)
  if (call !== undefined) call.cancel()
  else turn.gateway.sessions.cancelElsewhere(session, request)
}
