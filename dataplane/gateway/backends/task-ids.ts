import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { editObject, memberText } from '../mcp/json.ts'
import { isObject } from '../mcp/message.ts'

export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

const MAC_BYTES = 16

/**
 * Ids of tasks as clients have them: they name the backend that runs the task and are bound to the caller that began
 * it, so that nobody else's request ever reaches it. The key is this process's own.
 */
export class TaskIds {
  readonly #key = randomBytes(32)

  wrap(backend: string, binding: string, id: string): string {
    const text = Buffer.from(JSON.stringify([backend, id]))
    return `${this.#mac(text, binding).toString('base64url')}.${text.toString('base64url')}`
  }

  /** Undefined where it is none of ours, or another caller's. */
  unwrap(wrapped: string, binding: string): { readonly backend: string; readonly id: string } | undefined {
    const [mac = '', encoded = ''] = wrapped.split('.', 2)
    const text = Buffer.from(encoded, 'base64url')
    const given = Buffer.from(mac, 'base64url')
    if (given.length !== MAC_BYTES || !timingSafeEqual(given, this.#mac(text, binding))) return undefined
    const [backend, id] = JSON.parse(text.toString('utf8')) as [string, string]
    return { backend, id }
  }

  #mac(text: Buffer, binding: string): Buffer {
    return createHmac('sha256', this.#key).update(binding).update('\0').update(text).digest().subarray(0, MAC_BYTES)
  }

  /** A backend's answer with its task's id, where it has one, as the client is to have it. */
  inAnswer(answer: Buffer, backend: string, binding: string): Buffer {
    if (!answer.includes('"taskId"')) return answer
    const text = answer.toString('utf8')
    const result = memberText(text, 'result')
    const id: unknown = result === undefined ? undefined : JSON.parse(memberText(result, 'taskId') ?? 'null')
    if (result === undefined || typeof id !== 'string') return answer
    const taskId = JSON.stringify(this.wrap(backend, binding, id))
    return Buffer.from(editObject(text, { result: editObject(result, { taskId }) }))
  }
}

/** Whether these capabilities have the tasks extension. */
export const hasTasks = (capabilities: unknown): boolean =>
  isObject(capabilities) && isObject(capabilities['extensions']) && TASKS_EXTENSION in capabilities['extensions']
