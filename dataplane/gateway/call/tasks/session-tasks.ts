import { editObject, memberText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { metaWithRelatedTask, taskIdIn, withRelatedTask } from '../../mcp/tasks.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { SessionRecord } from '../../sessions/store/store.ts'
import type { TaskIds } from './task-ids.ts'

/** Returns the binding of a task of the legacy era, which belongs to one session of one caller. */
export const taskBinding = ({ binding, id }: SessionRecord): string => `${binding}\0${id}`

const STATUS = 'notifications/tasks/status'

/**
 * Translates tasks of a client's session at one legacy backend (2025-11-25), in messages of both directions. The client
 * sees the gateway's ids, and only those of its own tasks, because a backend may name another client's task.
 */
export class SessionTasks {
  readonly #ids: TaskIds
  readonly #session: Session
  readonly #backend: string

  constructor(ids: TaskIds, session: Session, backend: string) {
    this.#ids = ids
    this.#session = session
    this.#backend = backend
  }

  /** Returns the client's id of a task that it has started. */
  readonly clientId = (id: string): string | undefined =>
    this.#session.hasTask(this.#backend, id) ? this.#wrap(id) : undefined

  /** Returns the backend's id of a task of this session. */
  readonly backendId = (clientId: string): string | undefined => {
    const task = this.#ids.unwrap(clientId, taskBinding(this.#session.record))
    return task?.backend === this.#backend ? task.id : undefined
  }

  #wrap(id: string): string {
    return this.#ids.wrap(this.#backend, taskBinding(this.#session.record), id)
  }

  /** Translates a notification or request of the backend; undefined if it is about another session's task. */
  messageForClient(text: string): string | undefined {
    const before = memberText(text, 'params')
    if (before === undefined) return text
    let params = withRelatedTask(before, this.clientId)
    if (memberText(text, 'method') === `"${STATUS}"`) {
      const taskId = this.clientId(taskIdIn(params) ?? '')
      if (taskId === undefined) return undefined
      params = editObject(params, { taskId: JSON.stringify(taskId) })
    }
    return params === before ? text : editObject(text, { params })
  }

  /** Translates the client's response to a request of the backend, with the backend's task ids. */
  responseForBackend(text: string): string {
    const before = memberText(text, 'result')
    const result = before === undefined ? undefined : withRelatedTask(before, this.backendId)
    return result === before ? text : editObject(text, { result })
  }

  /** Returns the `_meta` for a client's request; undefined if it needs no change. */
  metaOf({ text, metaStart, metaEnd }: Message): string | undefined {
    if (metaStart === -1) return undefined
    const before = text.slice(metaStart, metaEnd)
    const meta = metaWithRelatedTask(before, this.backendId)
    return meta === before ? undefined : meta
  }

  /** Translates a whole answer. `request`: the request as the client has sent it. */
  inAnswer(answer: Buffer, request: Message): Buffer {
    if (!answer.includes('taskId')) return answer
    const text = answer.toString('utf8')
    const before = memberText(text, 'result')
    const result = before === undefined ? undefined : this.#inResult(before, request)
    return result === before ? answer : Buffer.from(editObject(text, { result }))
  }

  #inResult(result: string, request: Message): string {
    const isBegun = request.method === 'tools/call' && request.params?.['task'] !== undefined
    const taskId = JSON.stringify(request.parameter('taskId'))
    const isStatus =
      (request.method === 'tasks/get' || request.method === 'tasks/cancel') && taskIdIn(result) !== undefined
    const edited = isBegun
      ? this.#begun(result, request.parameter('name') ?? '')
      : isStatus
        ? editObject(result, { taskId })
        : result
    return withRelatedTask(edited, this.idInResultOf(request))
  }

  /** Returns the function that translates task ids in the `_meta` of a result. */
  idInResultOf({ method, params }: Message): (id: string) => string | undefined {
    return method === 'tasks/result' ? () => params?.['taskId'] as string : this.clientId
  }

  /** Registers a task that the backend has started for the client. */
  #begun(result: string, tool: string): string {
    const task = memberText(result, 'task')
    const id = task?.startsWith('{') ? taskIdIn(task) : undefined
    if (task === undefined || id === undefined) return result
    this.#session.noteTask(this.#backend, id, tool)
    return editObject(result, { task: editObject(task, { taskId: JSON.stringify(this.#wrap(id)) }) })
  }
}
