import { isObject } from '../../../../crds/settings/json.ts'
import type { GatewayConfig } from '../../../config/gateway.ts'
import { renamedUpdate, type UriNames } from '../../aggregation/uri-names.ts'
import { isListChanged, TOOLS_CHANGED } from '../../backends/lists/list-kind.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { readUpdatedUri } from '../../backends/session/resource-watch.ts'
import { parseBytes } from '../../mcp/json.ts'
import { isAboutCall, isId } from '../../mcp/message.ts'
import { notificationText } from '../../mcp/rpc-text.ts'
import { declaresTasks } from '../../mcp/tasks.ts'
import type { InFlight } from '../../request/in-flight.ts'
import type { Session } from '../../sessions/session.ts'
import type { SessionRecord } from '../../sessions/store/store.ts'
import { SessionTasks, type TaskIds } from '../tasks/tasks.ts'
import { type ClientRequester, relayServerRequest } from './server-request.ts'

/** The parts that relay messages which backends send outside of any request. */
interface UnsolicitedServices {
  readonly sessions: ClientRequester & {
    /** Sends a message on the client's GET stream, at any replica where that is open. */
    send(session: Session, message: string): Promise<boolean>
    readonly areShared: boolean
    recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  }
  readonly taskIds: TaskIds
  readonly inFlight: Pick<InFlight, 'all'>
  readonly setup: { readonly config: Pick<GatewayConfig, 'role'> }
  /** Returns the view of a caller, by the name under which the caller's state is stored. */
  viewOf(binding: string): {
    readonly promptsAndResources: { readonly names: ReadonlyMap<string, UriNames> | undefined }
  }
  faulted(error: unknown, what: string): void
}

const PROGRESS = 'notifications/progress'
/** Notifications outside of any request that are relayed to the client unchanged. */
const RELAYED: ReadonlySet<unknown> = new Set([
  'notifications/message',
  PROGRESS,
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
  if (isId(id) && method !== undefined) {
    if (backendSession.flood !== undefined) return
    relayServerRequest({ services, session, backendSession }, JSON.stringify(id), bytes.toString('utf8')).catch(
      (error) => services.faulted(error, 'a request of a backend is not relayed'),
    )
  } else if (isListChanged(method)) {
    backendSession.backend.refreshLists()
    if (areOfSession(services.setup, backendSession.backend) && method === TOOLS_CHANGED)
      notifyToolsChanged(services, session)
  } else if (
    RELAYED.has(method) &&
    !isAboutWithheld(backendSession, message) &&
    (method !== PROGRESS || wasAsked(services, session, backendSession, message['params']))
  )
    logMessage(services, session, backendSession, renameUri(services, backendSession, session, bytes)).catch((error) =>
      services.faulted(error, 'a message of a backend is not relayed'),
    )
}

/** Returns a message with the URI that the session's client knows for the changed resource. */
function renameUri(
  services: UnsolicitedServices,
  { backend }: BackendSession,
  { record }: Session,
  bytes: Buffer,
): Buffer {
  if (!bytes.includes('resources/updated')) return bytes
  return renamedUpdate(bytes, services.viewOf(record.binding).promptsAndResources.names?.get(backend.name))
}

/**
 * Tells whether a progress token may be one of the client's: that of a call in flight, here or at another replica, or
 * that of a task, which outlives its call.
 */
function wasAsked(
  { inFlight, sessions }: UnsolicitedServices,
  session: Session,
  { backend }: BackendSession,
  params: unknown,
): boolean {
  if (sessions.areShared || session.hasTasksAt(backend.name)) return true
  return inFlight.all.some(
    (call) => call.session === session && call.message !== undefined && isAboutCall(params, call.message),
  )
}

/**
 * Tells whether the client sees the lists of its own session with the backend, and is notified of their changes. If
 * definitions need approval, clients see changes only with the lists for all.
 */
export const areOfSession = ({ config }: UnsolicitedServices['setup'], backend: BackendSession['backend']): boolean =>
  config.role === 'proxy' && backend.mayShowBySession === true && !backend.needsApproval

/** Tells whether a notification is about a withheld resource. */
function isAboutWithheld({ backend }: BackendSession, message: unknown): boolean {
  const uri = backend.needsApproval ? readUpdatedUri(message) : undefined
  return uri !== undefined && backend.withholds(uri)
}

/** The least time between two notifications of changed tools in one session. */
const NOTICE_PAUSE_MS = 1_000
/** The time (`performance.now()`) of each session's last notification. It may be in the future. */
const noticedAt = new WeakMap<Session, number>()

/** Notifies a client that the tools of its session have changed: at once, and then at most once a second. */
function notifyToolsChanged(services: UnsolicitedServices, session: Session): void {
  const now = performance.now()
  const last = noticedAt.get(session) ?? Number.NEGATIVE_INFINITY
  // A scheduled notification covers this change, too.
  if (last > now) return
  const wait = Math.max(0, last + NOTICE_PAUSE_MS - now)
  noticedAt.set(session, now + wait)
  const tell = () => {
    services.sessions
      .send(session, notificationText(TOOLS_CHANGED))
      .catch((error) => services.faulted(error, 'a change of a session’s tools is not notified'))
  }
  if (wait === 0) tell()
  else setTimeout(tell, wait).unref()
}

async function logMessage(
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
  // Another replica may have started the task.
  session.record = (await services.sessions.recordOf(session.record.id)) ?? session.record
  const message = new SessionTasks(services.taskIds, session, backendSession.backend.name).messageForClient(text)
  if (message !== undefined) await services.sessions.send(session, message)
}
