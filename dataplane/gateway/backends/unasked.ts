import { changedBy } from '../aggregation/list-kind.ts'
import type { Gateway } from '../gateway.ts'
import { isObject } from '../mcp/message.ts'
import type { Session } from '../sessions/sessions.ts'
import { relayAsk } from './client-ask.ts'
import type { Link } from './link.ts'
import { parse } from './resource-watch.ts'
import { declaresTasks, SessionTasks } from './session-tasks.ts'

/** Notifications outside of any request that go on to the client as they are. */
const RELAYED: ReadonlySet<unknown> = new Set([
  'notifications/message',
  'notifications/progress',
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])

/** Takes what a legacy backend says in a client's session outside of any request. */
export function relayUnasked(gateway: Gateway, session: Session, link: Link, bytes: Buffer): void {
  const message = parse(bytes)
  if (!isObject(message)) return
  const { method, id } = message
  if (typeof method !== 'string') return
  if (id !== undefined) void relayAsk({ gateway, session, link }, JSON.stringify(id), bytes.toString('utf8'))
  else if (changedBy[method] !== undefined) gateway.refreshTools(link.backend)
  else if (RELAYED.has(method)) say(gateway, session, link, bytes).catch(() => {})
}

async function say(gateway: Gateway, session: Session, link: Link, bytes: Buffer): Promise<void> {
  const text = bytes.toString('utf8')
  if (!declaresTasks(link.opened?.capabilities ?? {}) || !bytes.includes('taskId')) {
    await gateway.sessions.say(session, text)
    return
  }
  // Another replica may have begun the task.
  session.record = (await gateway.sessions.recordOf(session.record.id)) ?? session.record
  const said = new SessionTasks(gateway.taskIds, session, link.backend.name).said(text)
  if (said !== undefined) await gateway.sessions.say(session, said)
}
