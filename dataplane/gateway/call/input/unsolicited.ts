import { isObject } from '../../../../crds/shared/json.ts'
import { isListChanged } from '../../backends/lists/list-kind.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { isId } from '../../mcp/message.ts'
import { parseBytes } from '../../mcp/parse.ts'
import { declaresTasks } from '../../mcp/tasks/session-tasks.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { SessionRecord } from '../../sessions/store/store.ts'
import { SessionTasks } from '../tasks/session-tasks.ts'
import type { TaskIds } from '../tasks/task-ids.ts'
import { type ClientRequester, relayServerRequest } from './server-request.ts'

/** What it takes to relay messages that backends send outside of any request. */
interface UnsolicitedServices {
  readonly sessions: ClientRequester & {
    /** Sends a client a message on its GET stream, at whichever replica that is. */
    send(session: Session, message: string): Promise<boolean>
    /** The session's record as the store has it. */
    recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  }
  readonly taskIds: TaskIds
  faulted(error: unknown, what: string): void
}

/** Notifications outside of any request that go on to the client as they are. */
const RELAYED: ReadonlySet<unknown> = new Set([
  'notifications/message',
  'notifications/progress',
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])

/** Relays a message that a legacy backend sends in a client's session outside of any request. */
export function relayUnsolicited(
  services: UnsolicitedServices,
  session: Session,
  backendSession: BackendSession,
  bytes: Buffer,
): void {
  const message = parseBytes(bytes)
  if (!isObject(message)) return
  const { method, id } = message
  if (isId(id) && method !== undefined)
    relayServerRequest({ services, session, backendSession }, JSON.stringify(id), bytes.toString('utf8')).catch(
      (error) => services.faulted(error, 'a request of a backend is not relayed'),
    )
  else if (isListChanged(method)) backendSession.backend.refreshLists()
  else if (RELAYED.has(method))
    say(services, session, backendSession, bytes).catch((error) =>
      services.faulted(error, 'a message of a backend is not relayed'),
    )
}

async function say(
  services: UnsolicitedServices,
  session: Session,
  backendSession: BackendSession,
  bytes: Buffer,
): Promise<void> {
  const text = bytes.toString('utf8')
  if (!declaresTasks(backendSession.opened?.capabilities ?? {}) || !bytes.includes('taskId')) {
    await services.sessions.send(session, text)
    return
  }
  // Another replica may have begun the task.
  session.record = (await services.sessions.recordOf(session.record.id)) ?? session.record
  const message = new SessionTasks(services.taskIds, session, backendSession.backend.name).messageForClient(text)
  if (message !== undefined) await services.sessions.send(session, message)
}
