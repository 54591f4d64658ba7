import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'
import { renamedUpdate } from '../aggregation/uri-names.ts'
import { isListChanged, TOOLS_CHANGED } from '../backends/lists/list-kind.ts'
import { readUpdatedUri } from '../backends/session/resource-watch.ts'
import type { AnswerEdits } from '../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY, hasTasks, LEVELS, LOG_LEVEL_KEY, MAY_ASK, rankLevel } from '../mcp/eras.ts'
import { editObject, memberText, parseJson } from '../mcp/json.ts'
import { isAboutCall, type Message } from '../mcp/message.ts'
import { ResultStripper } from '../mcp/result-stripper.ts'
import { resultText } from '../mcp/rpc-text.ts'
import { hasSkillScheme } from '../mcp/skills.ts'
import { metaWithRelatedTask } from '../mcp/tasks.ts'
import { renameUris } from '../mcp/uri-rewriter.ts'
import type { CallRequest } from './call-request.ts'
import { hasCapabilities } from './input/server-request.ts'
import { areOfSession } from './input/unsolicited.ts'
import type { Upstream } from './upstream.ts'

const COMPLETE_TYPE = '"complete"'
const COMPLETE = `"resultType":${COMPLETE_TYPE}`
/** The members of a modern result of a read that a legacy one lacks. */
export const READ = `${COMPLETE},"ttlMs":0,"cacheScope":"private"`

/** Methods whose results state how long clients may cache them. */
const READS: ReadonlySet<string> = new Set(['resources/read', 'skills/get', 'resources/directory/read'])

/** Builds the edits that turn a legacy backend's answer, also a large one, into one for a modern client. */
export const editsForModern = ({ id, message }: CallRequest): AnswerEdits => ({
  id: Buffer.from(id),
  resultMember: READS.has(message.method) ? READ : COMPLETE,
})

/** Translates a whole answer to the client's era. Throws a PublicError if that era can't express the answer. */
export function translate(call: CallRequest, upstream: Upstream, hasError: boolean, body: Buffer): Buffer {
  const { message, context } = call
  const { era } = context
  if (upstream.backendSession === undefined) {
    if (era === 'modern') return modernForModern(call, hasError, body)
    return hasError ? legacyError(body, message.method) : legacyAnswer(body)
  }
  if (era === 'modern') return hasError ? modernError(body, call) : body
  if (hasError && NAMES_RESOURCE.has(message.method)) return withCode(body, INVALID_PARAMS, NOT_FOUND)
  return upstream.tasks?.inAnswer(body, context.message) ?? body
}

function modernForModern(call: CallRequest, hasError: boolean, body: Buffer): Buffer {
  const { services, backend, message, context, route } = call
  if (hasError) return withCode(body, NOT_FOUND, INVALID_PARAMS)
  if (!hasTasks(message.meta?.[CAPABILITIES_KEY])) return body
  const tool = message.method === 'tools/call' ? context.message.parameter('name') : route.tool
  return services.taskIds.inAnswer(body, { backend: backend.name, tool }, context.binding)
}

/**
 * The code for a missing resource before 2026-07-28. Since then it is that of invalid params, and servers mix them up.
 */
const NOT_FOUND = '-32002'
const INVALID_PARAMS = '-32602'
/** Requests whose only parameter is a resource URI. For these, invalid params can only mean an unknown URI. */
const NAMES_RESOURCE: ReadonlySet<string> = new Set(['resources/read', 'resources/subscribe', 'resources/unsubscribe'])
/** The code of 2025-11-25 that asks the user to visit a URL before the call can continue. */
const URL_NEEDED = '-32042'

function withCode(answer: Buffer, from: string, to: string): Buffer {
  const text = answer.toString('latin1')
  const error = memberText(text, 'error')
  if (error === undefined || memberText(error, 'code') !== from) return answer
  return Buffer.from(editObject(text, { error: editObject(error, { code: to }) }), 'latin1')
}

/**
 * Translates a legacy backend's error for a modern client: a missing resource has a different code, and a URL to visit
 * becomes a question. Throws `missing_capability` if the client has not declared the capability for the question.
 */
function modernError(answer: Buffer, { message, id }: CallRequest): Buffer {
  const text = answer.toString('latin1')
  const error = memberText(text, 'error')
  const code = error === undefined ? undefined : memberText(error, 'code')
  if (error === undefined || code === undefined) return answer
  if (code === NOT_FOUND) return withCode(answer, NOT_FOUND, INVALID_PARAMS)
  if (code !== URL_NEEDED) return answer
  const inputRequests = urlRequests(memberText(answer.toString('utf8'), 'error') as string)
  const needed = { elicitation: { url: {} } }
  if (!hasCapabilities(message.meta?.[CAPABILITIES_KEY], needed))
    throw new PublicError('missing_capability', { data: { requiredCapabilities: needed } })
  if (inputRequests === undefined || !MAY_ASK.has(message.method)) throw new PublicError('backend_failed')
  return Buffer.from(resultText(id, JSON.stringify({ resultType: 'input_required', inputRequests })))
}

/** Reads the questions in a legacy backend's error (JSON text); undefined if there are none. */
function urlRequests(error: string): object | undefined {
  const { data } = parseError(error)
  const elicitations =
    isObject(data) && Array.isArray(data['elicitations']) ? data['elicitations'].filter(isObject) : []
  if (elicitations.length === 0) return undefined
  const requests = elicitations.map(({ elicitationId: _, ...params }, index) => [
    `url-${index + 1}`,
    { method: 'elicitation/create', params: { ...params, mode: 'url' } },
  ])
  return Object.fromEntries(requests)
}

/** Parses an error. Throws a PublicError if its value could not be serialized again. */
function parseError(text: string): { readonly data?: unknown } {
  try {
    return parseJson(text) as object
  } catch (cause) {
    throw new PublicError('backend_failed', { cause })
  }
}

/** Codes of the modern era that a legacy client does not know. */
const MODERN_CODES: ReadonlySet<string | undefined> = new Set(['-32020', '-32021', '-32022'])

function legacyError(answer: Buffer, method: string): Buffer {
  if (NAMES_RESOURCE.has(method)) return legacyError(withCode(answer, INVALID_PARAMS, NOT_FOUND), '')
  const text = answer.toString('latin1')
  const error = memberText(text, 'error')
  if (error === undefined || !MODERN_CODES.has(memberText(error, 'code'))) return answer
  return Buffer.from(editObject(text, { error: editObject(error, { code: '-32603', data: undefined }) }), 'latin1')
}

/** Members of a modern result that have no meaning in the legacy era. */
const MODERN_MEMBERS = { resultType: undefined, ttlMs: undefined, cacheScope: undefined }
const MODERN_NAMES: ReadonlySet<string> = new Set(Object.keys(MODERN_MEMBERS))
const NO_NAMES: ReadonlySet<string> = new Set()

const NO_EDITS: Readonly<Record<string, string | undefined>> = {}

/**
 * Builds the edits of a result (JSON text) for a client with a session. Until 2025-11-25 `structuredContent` must be an
 * object, so any other value is sent as text only.
 */
function structuredForSession(result: string): Readonly<Record<string, string | undefined>> {
  const structured = result.includes('"structuredContent"') ? memberText(result, 'structuredContent') : undefined
  if (structured === undefined || structured.startsWith('{')) return NO_EDITS
  const content = memberText(result, 'content')
  const isSaid = content !== undefined && /^\[\s*\{/.test(content)
  if (isSaid || structured === 'null') return { structuredContent: undefined }
  return { structuredContent: undefined, content: JSON.stringify([{ type: 'text', text: structured }]) }
}

/** Tells whether only this caller may cache a result, because the files of a skill depend on the caller. */
export const isPrivate = ({ message, names }: CallRequest): boolean =>
  names !== undefined && message.method === 'resources/read' && hasSkillScheme(message.parameter('uri') ?? '')

/**
 * Tells whether a backend does not know a file of a skill while policies are in force. The answer must then equal that
 * for a denied file, so that nobody can find out which files exist.
 */
function isUnknownSkill({ context, message, names }: CallRequest, answer: Buffer): boolean {
  if (names === undefined || context.host.setup.authorizer === undefined) return false
  const code = hasSkillScheme(message.parameter('uri') ?? '') ? readErrorCode(answer) : undefined
  return code === Number(INVALID_PARAMS) || code === Number(NOT_FOUND)
}

/**
 * Returns an answer with the URIs that clients know, after the changes that this call requires. Throws a PublicError if
 * that is impossible.
 */
export function prepareForClient(call: CallRequest, answer: Buffer, hasError: boolean): Buffer {
  const { names, answer: whole } = call
  if (hasError && isUnknownSkill(call, answer)) throw new PublicError('forbidden')
  const named = names === undefined ? answer : renameUris(answer, names.shown, isPrivate(call))
  if (whole === undefined || hasError) return named
  const text = answer.toString('utf8')
  const result = memberText(text, 'result')
  return result === undefined ? named : Buffer.from(editObject(text, { result: whole.edit(result) }))
}

/** Returns the editor for the parts of a large answer; undefined if they need no changes. */
export function stripperFor({ context }: CallRequest, { backendSession, tasks }: Upstream): ResultStripper | undefined {
  if (context.era === 'legacy' && backendSession === undefined)
    return new ResultStripper(MODERN_NAMES, undefined, 'structuredContent')
  if (tasks === undefined || context.message.method !== 'tasks/result') return undefined
  const idFor = tasks.idInResult(context.message)
  return new ResultStripper(NO_NAMES, { name: '_meta', edit: (meta) => metaWithRelatedTask(meta, idFor) })
}

/** Throws a PublicError if a result with this type (JSON text) is not final. */
export function checkType(type: string | undefined): void {
  if (type !== undefined && type !== COMPLETE_TYPE)
    throw new PublicError('backend_failed', {
      message: `The backend asks for something (${type}) that this client does not support.`,
    })
}

/**
 * Translates a modern backend's answer for a legacy client. It treats the bytes as Latin-1, so that nothing else
 * changes. Throws a PublicError if the backend asks for input instead of answering.
 */
function legacyAnswer(answer: Buffer): Buffer {
  const text = answer.toString('latin1')
  const result = memberText(text, 'result')
  if (result === undefined) return answer
  const type = memberText(result, 'resultType')
  checkType(type)
  const edits = { ...(type === undefined ? {} : MODERN_MEMBERS), ...structuredForSession(result) }
  if (Object.keys(edits).length === 0) return answer
  return Buffer.from(editObject(text, { result: editObject(result, edits) }), 'latin1')
}

/** Reads the code of the error in an answer; undefined if it is not a plain number. */
export function readErrorCode(answer: Buffer): number | undefined {
  const error = memberText(answer.toString('latin1'), 'error')
  const code = error?.startsWith('{') ? memberText(error, 'code') : undefined
  return code !== undefined && CODE.test(code) ? Number(code) : undefined
}

const CODE = /^-?\d{1,9}$/

/** Returns the answer with the id of the retry. An answer that arrived before the retry has a different id. */
export const withId = (answer: Buffer, id: string): Buffer =>
  Buffer.from(editObject(answer.toString('latin1'), { id: Buffer.from(id).toString('latin1') }), 'latin1')

/** Translates a notification that arrived with the answer; undefined if the client must not get it. */
export function notificationForClient(
  call: CallRequest,
  upstream: Upstream,
  notification: Record<string, unknown>,
  bytes: Buffer,
): Buffer | string | undefined {
  const { method } = notification
  if (isListChanged(method)) return method === TOOLS_CHANGED && showsBySession(call) ? bytes : undefined
  if (!isRelayed(notification, call.first, call.context.era) || !mayHear(call, notification)) return undefined
  const { tasks } = upstream
  const shown = renamedUpdate(bytes, call.names)
  return tasks === undefined ? shown : tasks.messageForClient(shown.toString('utf8'))
}

/** Tells whether the client sees the lists of its own session with the backend. */
const showsBySession = ({ session, context, backend }: CallRequest): boolean =>
  session !== undefined && areOfSession(context.host.setup, backend)

/** Tells whether the client may see the subject of a notification. */
function mayHear({ context, backend, names }: CallRequest, notification: unknown): boolean {
  const { authorizer } = context.host.setup
  const uri = authorizer === undefined && !backend.needsApproval ? undefined : readUpdatedUri(notification)
  if (uri !== undefined && backend.withholds(uri)) return false
  return (
    authorizer === undefined ||
    uri === undefined ||
    authorizer.mayHearOf(context.caller, names?.shown(uri) ?? uri, backend.name)
  )
}

const LEGACY_RELAYED: ReadonlySet<unknown> = new Set([
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])

/**
 * Tells whether a notification that arrived with the answer to a call is relayed to the client: progress that the call
 * asks for, and log messages. A modern client gets log messages from its requested level on, a legacy client gets all
 * of them.
 */
function isRelayed(notification: Record<string, unknown>, call: Message, era: 'modern' | 'legacy'): boolean {
  const { method } = notification
  if (method === 'notifications/progress') return isAboutCall(notification['params'], call)
  if (era === 'legacy' && LEGACY_RELAYED.has(method)) return true
  if (method !== 'notifications/message' || era === 'legacy') return method === 'notifications/message'
  const level = call.meta?.[LOG_LEVEL_KEY]
  if (typeof level !== 'string') return false
  const { params } = notification
  return rankLevel(isObject(params) ? params['level'] : undefined) >= LEVELS.indexOf(level)
}
