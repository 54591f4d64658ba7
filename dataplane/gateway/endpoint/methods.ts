import { PublicError } from '../../server/errors.ts'
import { relayCall } from '../call/call.ts'
import { answerLimited } from '../call/own-answers.ts'
import { normalCapabilities } from '../mcp/client-capabilities.ts'
import {
  CAPABILITIES_KEY,
  checkModern,
  encodeHeaderValue,
  hasTasks,
  isLegacyRevision,
  LEVELS,
  MODERN,
  negotiateLegacy,
  TASKS_EXTENSION,
  unsupportedVersion,
} from '../mcp/eras.ts'
import { memberText } from '../mcp/json.ts'
import { readClientName } from '../request/request-record.ts'
import type { Session } from '../sessions/session.ts'
import { CLIENT_NOTE, LONGEST } from '../usage/rows.ts'
import { at, checkMayCallPlain, instructionsFor } from './catalog/caller-catalog.ts'
import {
  afterFirstLists,
  complete,
  editParams,
  getPrompt,
  invalid,
  readResource,
  serveList,
  subscribeResource,
} from './catalog/prompts-and-resources.ts'
import { getSkill, listSkills, readDirectory } from './catalog/skills.ts'
import type { EndpointExchange, EndpointRequest } from './incoming/endpoint-exchange.ts'
import { subscribe } from './streams/subscribe.ts'
import { findTask, knowsTasks, listSessionTasks, relaySessionTask } from './tools/session-tasks.ts'
import { calledName, callTool, listTools } from './tools/tools.ts'

type Serve = (request: EndpointRequest) => void

/** The methods that both eras share. */
const ofBoth: Readonly<Record<string, Serve>> = {
  'tools/call': callTool,
  'tools/list': listTools,
  'prompts/list': (request) => serveList(request, 'prompts'),
  'prompts/get': getPrompt,
  'resources/list': (request) => serveList(request, 'resources'),
  'resources/templates/list': (request) => serveList(request, 'templates'),
  'resources/read': readResource,
  'completion/complete': complete,
  'skills/list': listSkills,
  'skills/get': getSkill,
  'resources/directory/read': readDirectory,
}

/** Returns the `Serve` function of an era with the additional methods `more`. Others throw `method_not_found`. */
function serveMethods(more: Readonly<Record<string, Serve>>): Serve {
  const methods = new Map(Object.entries({ ...ofBoth, ...more }))
  return (request) => {
    const serve = methods.get(request.message.method)
    if (serve === undefined) throw new PublicError('method_not_found')
    serve(request)
  }
}

/**
 * Accepts a notification and does nothing. A tool call without an id is a notification. It is not sent to a backend,
 * since nobody would get its result, but it counts for rate limits.
 */
function takeNotification(request: EndpointRequest): void {
  const { message, caller, observation } = request
  if (message.method !== 'tools/call') {
    request.accepted()
    return
  }
  const refusal = request.gateway.rateLimits.take(caller, calledName(request), observation)
  if (refusal instanceof Promise)
    request.run(() => refusal.then((late) => (late === undefined ? request.accepted() : answerLimited(request, late))))
  else if (refusal === undefined) request.accepted()
  else answerLimited(request, refusal)
}

/** Serves a message of the legacy era: `initialize` opens a session, everything else belongs to one. */
export function serveLegacy(request: EndpointRequest): void | Promise<void> {
  const { message } = request
  if (message.method === 'initialize' && message.kind === 'request') return initialize(request)
  const session = requireSession(request)
  if (session instanceof Promise) return session.then((found) => serveInSession(request.inSession(found)))
  serveInSession(request.inSession(session))
}

/** Returns the session that the headers name. Throws `session_required`, `session_unknown`, `unsupported_version`. */
export function requireSession(request: EndpointExchange): Session | Promise<Session> {
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
  if (typeof protocolVersion !== 'string') throw invalid('params.protocolVersion must be a string.')
  const revision = negotiateLegacy(protocolVersion)
  const client = request.gateway.usage === undefined ? undefined : readClientName(request.message)
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

const requestInSession = serveMethods({
  'resources/subscribe': subscribeResource,
  'resources/unsubscribe': subscribeResource,
  'logging/setLevel': setLogLevel,
  'tasks/get': relaySessionTask,
  'tasks/result': relaySessionTask,
  'tasks/cancel': relaySessionTask,
  'tasks/list': listSessionTasks,
  ping: (request) => request.result('{}'),
})

export function serveInSession(request: EndpointRequest): void {
  const { message } = request
  if (message.kind === 'request') {
    requestInSession(request)
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
    throw invalid(`params.level must be one of ${LEVELS.join(', ')}.`)
  const noted = session.setLogLevel(level)
  for (const backendSession of session.openBackendSessions) backendSession.setLogLevel(level)
  if (noted === undefined) request.result('{}')
  else request.run(() => noted.then(() => request.result('{}')))
}

const requestInModern = serveMethods({
  'subscriptions/listen': subscribe,
  'tasks/get': relayTask,
  'tasks/update': relayTask,
  'tasks/cancel': relayTask,
  'server/discover': (request) => afterFirstLists(request, () => discoverWith(request)),
})

function discoverWith(request: EndpointRequest): void {
  const instructions = instructionsFor(request)
  if (instructions instanceof Promise) request.run(() => instructions.then((text) => discover(request, text)))
  else discover(request, instructions)
}

function discover(request: EndpointRequest, instructions: string | undefined): void {
  request.result(
    JSON.stringify({
      resultType: 'complete',
      supportedVersions: [MODERN],
      capabilities: {
        ...request.view.promptsAndResources.capabilities,
        ...request.view.promptsAndResources.extensions,
      },
      instructions,
      ttlMs: 0,
      cacheScope: 'private',
      _meta: { 'io.modelcontextprotocol/serverInfo': request.setup.serverInfo },
    }),
  )
}

/** Serves a message of the modern era, which needs no session. */
export function serveModern(request: EndpointRequest): void {
  const { message } = request
  checkModern(message, request.req.headers)
  if (message.kind === 'notification') {
    takeNotification(request)
    return
  }
  requestInModern(request)
}

/** Serves `tasks/get`, `tasks/update`, `tasks/cancel` (SEP-2663): relays them to the backend that runs the task. */
function relayTask(request: EndpointRequest): void {
  const { message } = request
  if (!hasTasks(message.meta?.[CAPABILITIES_KEY]))
    throw new PublicError('missing_capability', {
      data: { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } },
    })
  const { task, backend } = findTask(request, request.binding)
  checkMayCallPlain(request, task.tool)
  const relayed = editParams(message, { taskId: JSON.stringify(task.id) })
  relayCall(request.gateway, request, at(backend, encodeHeaderValue(task.id), task.tool), relayed)
}
