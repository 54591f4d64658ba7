import { createHmac, timingSafeEqual } from 'node:crypto'
import { editObject, memberText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { metaWithRelatedTask, readTaskId, withRelatedTask } from '../../mcp/tasks.ts'
import type { Session } from '../../sessions/session.ts'
import type { SharedKeys } from '../../sessions/store/shared-keys.ts'
import type { SessionRecord } from '../../sessions/store/store.ts'

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
      const taskId = this.clientId(readTaskId(params) ?? '')
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
      (request.method === 'tasks/get' || request.method === 'tasks/cancel') && readTaskId(result) !== undefined
    const edited = isBegun
      ? this.#begun(result, request.parameter('name') ?? '')
      : isStatus
        ? editObject(result, { taskId })
        : result
    return withRelatedTask(edited, this.idInResult(request))
  }

  /** Returns the function that translates task ids in the `_meta` of a result. */
  idInResult({ method, params }: Message): (id: string) => string | undefined {
    return method === 'tasks/result' ? () => params?.['taskId'] as string : this.clientId
  }

  /** Registers a task that the backend has started for the client. */
  #begun(result: string, tool: string): string {
    const task = memberText(result, 'task')
    const id = task?.startsWith('{') ? readTaskId(task) : undefined
    if (task === undefined || id === undefined) return result
    this.#session.noteTask(this.#backend, id, tool)
    return editObject(result, { task: editObject(task, { taskId: JSON.stringify(this.#wrap(id)) }) })
  }
}

const MAC_BYTES = 16
/** The use for which keys are derived. */
const USE = 'task-ids'

interface TaskPlace {
  readonly backend: string
  /** The backend's id of the task. */
  readonly id: string
  /** The name with which the caller called the tool. */
  readonly tool: string | undefined
}

/**
 * The ids of tasks that clients see. They name the backend that runs the task and are bound to the caller who started
 * it, so that requests of no other caller reach it.
 */
export class TaskIds {
  readonly #keys: SharedKeys

  constructor(keys: SharedKeys) {
    this.#keys = keys
  }

  /** Builds a client's id. `tool`: the name that the caller has called, if no session stores it. */
  wrap(backend: string, binding: string, id: string, tool?: string): string {
    const text = Buffer.from(JSON.stringify(tool === undefined ? [backend, id] : [backend, id, tool]))
    const [key] = this.#keys.keysFor(USE)
    return `${computeMac(key, text, binding).toString('base64url')}.${text.toString('base64url')}`
  }

  /** Reads a client's id; undefined if it is not ours or belongs to another caller. */
  unwrap(wrapped: string, binding: string): TaskPlace | undefined {
    const [mac = '', encoded = ''] = wrapped.split('.', 2)
    const text = Buffer.from(encoded, 'base64url')
    const given = Buffer.from(mac, 'base64url')
    const isGood = (key: Buffer) => timingSafeEqual(given, computeMac(key, text, binding))
    if (given.length !== MAC_BYTES || !this.#keys.keysFor(USE).some(isGood)) return undefined
    const [backend, id, tool] = JSON.parse(text.toString('utf8')) as [string, string, string?]
    return { backend, id, tool }
  }

  /** Replaces the task's id in a backend's answer, if it has one, by the client's id. */
  inAnswer(answer: Buffer, { backend, tool }: Omit<TaskPlace, 'id'>, binding: string): Buffer {
    if (!answer.includes('"taskId"')) return answer
    const text = answer.toString('utf8')
    const result = memberText(text, 'result')
    const id = result === undefined ? undefined : readTaskId(result)
    if (result === undefined || id === undefined) return answer
    const taskId = JSON.stringify(this.wrap(backend, binding, id, tool))
    return Buffer.from(editObject(text, { result: editObject(result, { taskId }) }))
  }
}

const computeMac = (key: Buffer, text: Buffer, binding: string): Buffer =>
  createHmac('sha256', key).update(binding).update('\0').update(text).digest().subarray(0, MAC_BYTES)
