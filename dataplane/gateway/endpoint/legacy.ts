import { PublicError } from '../../server/errors.ts'
import { normalCapabilities } from '../mcp/client-capabilities.ts'
import { memberText } from '../mcp/json.ts'
import { LEVELS } from '../mcp/log-levels.ts'
import { isLegacyRevision, negotiateLegacy, unsupportedVersion } from '../mcp/revisions.ts'
import { clientNameIn } from '../request/request-record.ts'
import type { Session } from '../sessions/sessions.ts'
import { CLIENT_NOTE, LONGEST } from '../usage/rows.ts'
import { instructionsFor } from './catalog/caller-catalog.ts'
import { subscribeResource } from './catalog/prompts-and-resources.ts'
import type { EndpointExchange, EndpointRequest } from './incoming/endpoint-exchange.ts'
import { serveMethods, takeNotification } from './methods.ts'
import { knowsTasks, listSessionTasks, relaySessionTask } from './tools/session-tasks.ts'

/** Serves a message of the legacy era: `initialize` opens a session, everything else belongs to one. */
export function serveLegacy(request: EndpointRequest): void | Promise<void> {
  const { message } = request
  if (message.method === 'initialize' && message.kind === 'request') return initialize(request)
  const session = sessionOf(request)
  if (session instanceof Promise) return session.then((found) => serveInSession(request.inSession(found)))
  serveInSession(request.inSession(session))
}

/** Returns the session that the headers name. Throws `session_required`, `session_unknown`, `unsupported_version`. */
export function sessionOf(request: EndpointExchange): Session | Promise<Session> {
  const { headers } = request.req
  const version = headers['mcp-protocol-version']
  if (typeof version === 'string' && !isLegacyRevision(version)) throw unsupportedVersion(version)
  const id = headers['mcp-session-id']
  if (typeof id !== 'string' || id === '') throw new PublicError('session_required')
  return request.gateway.sessions.find(id, request.binding, request.share)
}

/** The longest capabilities in characters of JSON text. Only a small part of them is stored. */
const MOST_CAPABILITIES = 64 * 1024

async function initialize(request: EndpointRequest): Promise<void> {
  const { params = {}, text, paramsStart, paramsEnd } = request.message
  const { protocolVersion, capabilities } = params
  if ((memberText(text.slice(paramsStart, paramsEnd), 'capabilities') ?? '').length > MOST_CAPABILITIES)
    throw new PublicError('too_large', { message: `capabilities have more than ${MOST_CAPABILITIES} characters.` })
  if (typeof protocolVersion !== 'string')
    throw new PublicError('invalid_params', { message: 'params.protocolVersion must be a string.' })
  const revision = negotiateLegacy(protocolVersion)
  const client = request.gateway.usage === undefined ? undefined : clientNameIn(request.message)
  const fields = {
    binding: request.binding,
    revision,
    capabilities: JSON.stringify(normalCapabilities(capabilities)),
    ...(client && { notes: { [CLIENT_NOTE]: client.slice(0, LONGEST) } }),
  }
  const opened = request.gateway.sessions.open(fields, request.share)
  const session = opened instanceof Promise ? await opened : opened
  request.tellSession(session.record.id)
  if (!request.view.allListed) await request.view.firstLists()
  const result = {
    protocolVersion: revision,
    capabilities: {
      ...request.view.promptsAndResources.capabilities,
      ...(knowsTasks(session) ? request.view.promptsAndResources.tasks : {}),
    },
    serverInfo: request.setup.serverInfo,
    instructions: await instructionsFor(request),
  }
  request.result(JSON.stringify(result), ['mcp-session-id', session.record.id])
}

const serveRequest = serveMethods({
  'resources/subscribe': subscribeResource,
  'resources/unsubscribe': subscribeResource,
  'logging/setLevel': setLogLevel,
  'tasks/get': relaySessionTask,
  'tasks/result': relaySessionTask,
  'tasks/cancel': relaySessionTask,
  'tasks/list': listSessionTasks,
  ping: (request) => request.result('{}'),
})

/** Serves one message of a known session. */
export function serveInSession(request: EndpointRequest): void {
  const { message } = request
  if (message.kind === 'request') {
    serveRequest(request)
    return
  }
  if (message.kind === 'response' && message.id !== undefined)
    request.gateway.sessions.responded(request.session as Session, message.id, message.text)
  else if (message.method === 'notifications/cancelled') cancel(request)
  else if (message.method === 'notifications/roots/list_changed')
    for (const backendSession of (request.session as Session).openBackendSessions) backendSession.send(message.text)
  takeNotification(request)
}

function cancel(request: EndpointRequest): void {
  const id = request.message.params?.['requestId']
  if (typeof id !== 'string' && typeof id !== 'number') return
  const session = request.session as Session
  const requestId = JSON.stringify(id)
  const call = request.gateway.inFlight.find(session, requestId)
  if (call !== undefined) call.cancel()
  else request.gateway.sessions.cancelElsewhere(session, requestId)
}

/** Serves `logging/setLevel`: stores the level in the session, and sends it to backends now or when they open. */
function setLogLevel(request: EndpointRequest): void {
  const level = request.message.parameter('level')
  const { session } = request
  if (session === undefined || level === undefined || !LEVELS.includes(level))
    throw new PublicError('invalid_params', { message: `params.level must be one of ${LEVELS.join(', ')}.` })
  const noted = session.setLogLevel(level)
  for (const backendSession of session.openBackendSessions) backendSession.setLogLevel(level)
  if (noted === undefined) request.result('{}')
  else request.run(() => noted.then(() => request.result('{}')))
}
