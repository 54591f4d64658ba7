import { createHmac, timingSafeEqual } from 'node:crypto'
import { editObject, memberText } from '../../mcp/json.ts'
import type { SharedKeys } from '../../sessions/store/shared-keys.ts'

const MAC_BYTES = 16
/** What the keys are for. */
const USE = 'task-ids'

/** Where a task runs. */
interface TaskPlace {
  readonly backend: string
  /** The backend's id of it. */
  readonly id: string
  /** The tool that was called, by the name that the caller called. */
  readonly tool: string | undefined
}

/**
 * Ids of tasks as clients have them: they name the backend that runs the task and are bound to the caller that began
 * it, so that nobody else's request ever reaches it.
 */
export class TaskIds {
  readonly #keys: SharedKeys

  constructor(keys: SharedKeys) {
    this.#keys = keys
  }

  /** `tool`: the name that the caller has called, where the task may be asked for in no session that knows it. */
  wrap(backend: string, binding: string, id: string, tool?: string): string {
    const text = Buffer.from(JSON.stringify(tool === undefined ? [backend, id] : [backend, id, tool]))
    const [key] = this.#keys.keysFor(USE)
    return `${macOf(key, text, binding).toString('base64url')}.${text.toString('base64url')}`
  }

  /** Undefined where it is none of ours, or another caller's. */
  unwrap(wrapped: string, binding: string): TaskPlace | undefined {
    const [mac = '', encoded = ''] = wrapped.split('.', 2)
    const text = Buffer.from(encoded, 'base64url')
    const given = Buffer.from(mac, 'base64url')
    const isGood = (key: Buffer) => timingSafeEqual(given, macOf(key, text, binding))
    if (given.length !== MAC_BYTES || !this.#keys.keysFor(USE).some(isGood)) return undefined
    const [backend, id, tool] = JSON.parse(text.toString('utf8')) as [string, string, string?]
    return { backend, id, tool }
  }

  /** A backend's answer with its task's id, where it has one, as the client is to have it. */
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

const macOf = (key: Buffer, text: Buffer, binding: string): Buffer =>
  createHmac('sha256', key).update(binding).update('\0').update(text).digest().subarray(0, MAC_BYTES)
