import { createHmac, timingSafeEqual } from 'node:crypto'
import { editObject, memberText } from '../../mcp/json.ts'
import type { SharedKeys } from '../../sessions/store/shared-keys.ts'

const MAC_BYTES = 16
/** What the keys are for. */
const USE = 'task-ids'

/**
 * Ids of tasks as clients have them: they name the backend that runs the task and are bound to the caller that began
 * it, so that nobody else's request ever reaches it.
 */
export class TaskIds {
  readonly #keys: SharedKeys

  constructor(keys: SharedKeys) {
    this.#keys = keys
  }

  wrap(backend: string, binding: string, id: string): string {
    const text = Buffer.from(JSON.stringify([backend, id]))
    const [key] = this.#keys.keysFor(USE)
    return `${macOf(key, text, binding).toString('base64url')}.${text.toString('base64url')}`
  }

  /** Undefined where it is none of ours, or another caller's. */
  unwrap(wrapped: string, binding: string): { readonly backend: string; readonly id: string } | undefined {
    const [mac = '', encoded = ''] = wrapped.split('.', 2)
    const text = Buffer.from(encoded, 'base64url')
    const given = Buffer.from(mac, 'base64url')
    const isGood = (key: Buffer) => timingSafeEqual(given, macOf(key, text, binding))
    if (given.length !== MAC_BYTES || !this.#keys.keysFor(USE).some(isGood)) return undefined
    const [backend, id] = JSON.parse(text.toString('utf8')) as [string, string]
    return { backend, id }
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

const macOf = (key: Buffer, text: Buffer, binding: string): Buffer =>
  createHmac('sha256', key).update(binding).update('\0').update(text).digest().subarray(0, MAC_BYTES)
