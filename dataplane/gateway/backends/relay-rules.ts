import { CAPABILITIES_KEY, LOG_LEVEL_KEY, VERSION_KEY } from '../mcp/classify.ts'
import { editObject, memberText } from '../mcp/json.ts'
import { isObject, type Message } from '../mcp/message.ts'
import { MODERN } from '../mcp/revisions.ts'
import type { Session } from '../sessions/sessions.ts'

/** `_meta` keys of a legacy client's call towards a modern backend: what its session has declared and asked for. */
export const modernEnvelope = (session: Session | undefined): Readonly<Record<string, string>> => ({
  [VERSION_KEY]: JSON.stringify(MODERN),
  [CAPABILITIES_KEY]: session?.declared ?? '{}',
  [LOG_LEVEL_KEY]: JSON.stringify(session?.logLevel ?? DEFAULT_LEVEL),
})

/** Log messages that a legacy client gets which has not said what it wants. */
const DEFAULT_LEVEL = 'info'

/** A whole answer that the client's era has no form for. The message is for the caller. */
export class NotRelayed extends Error {}

const NOT_FOUND = -32002

/** A legacy backend's error as a modern client may have it: a resource that isn't there has another code. */
export function modernError(answer: Buffer): Buffer {
  const text = answer.toString('latin1')
  const error = memberText(text, 'error')
  if (error === undefined || memberText(error, 'code') !== String(NOT_FOUND)) return answer
  return Buffer.from(editObject(text, { error: editObject(error, { code: '-32602' }) }), 'latin1')
}

/** Members of a modern result that mean nothing in the legacy era. */
const MODERN_MEMBERS = { resultType: undefined, ttlMs: undefined, cacheScope: undefined }

/**
 * A modern backend's answer as a legacy client may have it. Works on bytes as Latin-1, so that nothing else changes.
 * Throws NotRelayed where the backend asks for something instead of answering.
 */
export function legacyAnswer(answer: Buffer): Buffer {
  const text = answer.toString('latin1')
  const result = memberText(text, 'result')
  const type = result === undefined ? undefined : memberText(result, 'resultType')
  if (result === undefined || type === undefined) return answer
  if (type !== '"complete"')
    throw new NotRelayed(`The backend asks for something (${type}) that this client can’t be asked.`)
  return Buffer.from(editObject(text, { result: editObject(result, MODERN_MEMBERS) }), 'latin1')
}

const LEGACY_RELAYED: ReadonlySet<unknown> = new Set([
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])

export const LEVELS: readonly string[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]

/**
 * Whether a notification that came with the answer to a call goes on to the client: progress, and log messages from
 * the level that a modern client asked for; to a legacy client all of them.
 */
export function isRelayed(notification: Record<string, unknown>, call: Message, era: 'modern' | 'legacy'): boolean {
  const { method } = notification
  if (method === 'notifications/progress') return true
  if (era === 'legacy' && LEGACY_RELAYED.has(method)) return true
  if (method !== 'notifications/message' || era === 'legacy') return method === 'notifications/message'
  const asked = call.meta?.[LOG_LEVEL_KEY]
  if (typeof asked !== 'string') return false
  const { params } = notification
  return LEVELS.indexOf(String(isObject(params) ? params['level'] : '')) >= LEVELS.indexOf(asked)
}

/** Whether two ids, as JSON text, are one: `1` and `1.0`, `"a"` and `"\u0061"`. */
export function sameId(a: string | undefined, b: string): boolean {
  if (a === b) return true
  try {
    return a !== undefined && JSON.parse(a) === JSON.parse(b)
  } catch {
    return false
  }
}
