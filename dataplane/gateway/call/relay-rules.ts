import { isObject } from '../../../crds/shared/json.ts'
import { CAPABILITIES_KEY, LOG_LEVEL_KEY, VERSION_KEY } from '../mcp/classify.ts'
import { LEVELS, levelOf } from '../mcp/log-levels.ts'
import { isAboutCall, type Message } from '../mcp/message.ts'
import { MODERN } from '../mcp/revisions.ts'
import type { Session } from '../sessions/sessions.ts'

/** `_meta` keys of a legacy client's call towards a modern backend: what its session has declared and asked for. */
export const modernEnvelope = (session: Session | undefined): Readonly<Record<string, string>> => ({
  [VERSION_KEY]: JSON.stringify(MODERN),
  [CAPABILITIES_KEY]: session?.declared ?? '{}',
  [LOG_LEVEL_KEY]: JSON.stringify(session?.logLevel ?? DEFAULT_LEVEL),
})

/** The level from which a legacy client gets log messages when it has set none. */
const DEFAULT_LEVEL = 'info'

const LEGACY_RELAYED: ReadonlySet<unknown> = new Set([
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])

/**
 * Whether a notification that came with the answer to a call goes on to the client: progress that the call asked for, and
 * log messages from the level that a modern client asked for; to a legacy client all of them.
 */
export function isRelayed(notification: Record<string, unknown>, call: Message, era: 'modern' | 'legacy'): boolean {
  const { method } = notification
  if (method === 'notifications/progress') return isAboutCall(notification['params'], call)
  if (era === 'legacy' && LEGACY_RELAYED.has(method)) return true
  if (method !== 'notifications/message' || era === 'legacy') return method === 'notifications/message'
  const level = call.meta?.[LOG_LEVEL_KEY]
  if (typeof level !== 'string') return false
  const { params } = notification
  return levelOf(isObject(params) ? params['level'] : undefined) >= LEVELS.indexOf(level)
}
