import { createHmac, timingSafeEqual } from 'node:crypto'
import { editObject, memberText } from '../../mcp/json.ts'
import type { SharedKeys } from '../../sessions/store/shared-keys.ts'

const MAC_BYTES = 16
/** The use for which keys are derived. */
const USE = 'task-ids'

/** The place where a task runs. */
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
    const id: unknown = result === undefined ? undefined : JSON.parse(memberText(result, 'taskId') ?? 'null')
    if (result === undefined || typeof id !== 'string') return answer
    const taskId = JSON.stringify(this.wrap(backend, binding, id, tool))
    return Buffer.from(editObject(text, { result: editObject(result, { taskId }) }))
  }
}

const computeMac = (key: Buffer, text: Buffer, binding: string): Buffer =>
  createHmac('sha256', key).update(binding).update('\0').update(text).digest().subarray(0, MAC_BYTES)
