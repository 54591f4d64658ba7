import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { readResult } from '../../backends/connection/request.ts'
import { readListPage } from '../../backends/lists/list-page.ts'
import { relayCall } from '../../call/call.ts'
import { seal, unseal } from '../../call/suspended/request-state.ts'
import { SessionTasks, taskBinding } from '../../call/tasks/tasks.ts'
import { passHeaders } from '../../call/upstream.ts'
import { editObject } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { requestText } from '../../mcp/rpc-text.ts'
import type { Session } from '../../sessions/session.ts'
import { at, checkMayCallPlain, mayCallPlain } from '../catalog/caller-catalog.ts'
import { editParams, invalid } from '../catalog/prompts-and-resources.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

/** The only revision with tasks of the legacy era; the next one removed them (2025-11-25, tasks). */
const WITH_TASKS = '2025-11-25'

export const knowsTasks = ({ record }: Session): boolean => record.revision === WITH_TASKS

const areOffered = ({ session, view }: EndpointRequest): boolean =>
  session !== undefined && knowsTasks(session) && 'tasks' in view.promptsAndResources.tasks

/**
 * Returns the message for a call that asks to run as a task. If tasks were not offered, that member is removed, because
 * a backend that supports tasks would answer with a task. Throws `method_not_found` if tasks were offered but this
 * tool's backend does not support them.
 */
export function asTaskCall(request: EndpointRequest, backend: Backend): Message {
  const { message, era } = request
  if (era === 'modern' && backend.era?.era === 'modern') return message
  if (!areOffered(request)) return editParams(message, { task: undefined })
  if (backend.runsTasks) return message
  throw new PublicError('method_not_found', { message: 'This tool can’t be run as a task.' })
}

/** Serves `tasks/get`, `tasks/result` and `tasks/cancel`: relays them to the backend that runs the session's task. */
export function relaySessionTask(request: EndpointRequest): void {
  const session = requireSession(request)
  const { task, backend } = findTask(request, taskBinding(session.record))
  checkMayCallPlain(request, session.toolOfTask(task.backend, task.id))
  relayCall(request.gateway, request, at(backend), editParams(request.message, { taskId: JSON.stringify(task.id) }))
}

/** Finds the task that a request names, and its backend. Throws `invalid_params` if `binding` has no such task. */
export function findTask({ message, gateway, view }: EndpointRequest, binding: string) {
  const task = gateway.taskIds.unwrap(message.parameter('taskId') ?? '', binding)
  const backend = task && view.findBackend(task.backend)
  if (task === undefined || backend === undefined) throw invalid('There is no task of this id.')
  return { task, backend }
}

/** The position in a list of tasks: the remaining backends, each with its own cursor. */
type Position = readonly [backend: string, cursor: string | undefined]

/** The use for which the keys of cursors are derived. */
const USE = 'task-lists'

/**
 * Serves `tasks/list`: one page of each backend at which the session has started tasks. Tasks of others are left out.
 */
export function listSessionTasks(request: EndpointRequest): void {
  const session = requireSession(request)
  const positions = listPositions(request, session)
  request.run(async () => {
    const pages = await Promise.all(positions.map((position) => readPage(request, session, position)))
    const tasks = pages.flatMap(({ texts }) => texts)
    const next = pages.flatMap(({ next }) => (next === undefined ? [] : [next]))
    const cursor = next.length === 0 ? '' : `,"nextCursor":${JSON.stringify(sealCursor(request, session, next))}`
    request.result(`{"tasks":[${tasks.join(',')}]${cursor}}`)
  })
}

function listPositions(request: EndpointRequest, session: Session): readonly Position[] {
  const { gateway, message } = request
  const { cursor } = message
  if (cursor === undefined)
    return gateway.setup.config.backends
      .filter(({ name }) => session.hasTasksAt(name))
      .map(({ name }) => [name, undefined] as const)
  const opened = gateway.keys
    .keysFor(USE)
    .map((key) => (typeof cursor === 'string' ? unseal(key, cursor, taskBinding(session.record)) : undefined))
    .find((text) => text !== undefined)
  if (opened === undefined) throw invalid('params.cursor is not one that this server gave.')
  return JSON.parse(opened) as Position[]
}

const sealCursor = ({ gateway }: EndpointRequest, { record }: Session, positions: readonly Position[]): string =>
  seal(gateway.keys.keysFor(USE)[0], JSON.stringify(positions), taskBinding(record))

interface Page {
  /** The tasks as JSON text. */
  readonly texts: readonly string[]
  readonly next: Position | undefined
}

const NOTHING: Page = { texts: [], next: undefined }

/** Reads one page. If a backend can't be asked, only its tasks are missing. */
async function readPage(request: EndpointRequest, session: Session, [name, cursor]: Position): Promise<Page> {
  const backend = request.view.findBackend(name)
  if (backend === undefined) return NOTHING
  try {
    const { items, nextCursor } = readListPage(await askPage(request, session, backend, cursor), TASK_LIST)
    const tasks = new SessionTasks(request.gateway.taskIds, session, name)
    const texts = items.flatMap(({ key, text }) => {
      const taskId = mayCallPlain(request, session.toolOfTask(name, key)) ? tasks.clientId(key) : undefined
      return taskId === undefined ? [] : [editObject(text, { taskId: JSON.stringify(taskId) })]
    })
    return { texts, next: nextCursor === undefined || nextCursor === cursor ? undefined : [name, nextCursor] }
  } catch (error) {
    request.gateway.log.debug({ backend: name, err: error }, 'a backend’s tasks can’t be listed')
    return NOTHING
  }
}

const TASK_LIST = { member: 'tasks', key: 'taskId' }

/** Returns the answer as JSON text. */
async function askPage(
  request: EndpointRequest,
  session: Session,
  backend: Backend,
  cursor: string | undefined,
): Promise<string> {
  const backendSession = session.backendSession(backend)
  await backendSession.open()
  const headers = backendSession.headers()
  passHeaders(headers, request.setup.passedHeaders, request.req.headers)
  const body = requestText(backendSession.ownId(), 'tasks/list', cursor === undefined ? {} : { cursor })
  const answer = await backendSession.post(body, { headers, mayBeLate: true })
  readResult(answer)
  return answer.text
}

function requireSession({ session }: EndpointRequest): Session {
  if (session === undefined || !knowsTasks(session)) throw new PublicError('method_not_found')
  return session
}
