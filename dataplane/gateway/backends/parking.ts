import { createCipheriv, createDecipheriv, randomBytes, randomUUID } from 'node:crypto'
import { PublicError } from '../../server/errors.ts'
import type { Turn } from '../endpoint/turn.ts'
import { ASK_MS } from './client-ask.ts'

/** A question of a legacy backend that a modern client is to answer with its retry. */
export interface ParkedAsk {
  /** Of the question on the backend's hop, as JSON text. */
  readonly id: string
  readonly request: object
}

/** What a call that waits for its client's retry holds. */
export class Parking {
  /** For the sealed state. */
  readonly call = randomUUID()
  /** Open questions, by the key under which the client answers. */
  readonly asks = new Map<string, ParkedAsk>()
  /** Whether a client waits for the answer at the moment. */
  attached = true
  /** Parts of an answer that is too large to come at once. */
  readonly parts: Buffer[] = []
  /** What to do when the client is back, where the backend has ended meanwhile. */
  outcome: (() => void) | undefined
  #count = 0

  add(ask: ParkedAsk): void {
    this.asks.set(`ask-${++this.#count}`, ask)
  }
}

interface Parked {
  resume(turn: Turn): void
}

const ALGORITHM = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16

/**
 * Calls of modern clients that wait for what their legacy backends have asked. The state that a client brings back is
 * sealed: it names the call and its end, and is bound to the caller, the method and the name called. The key is this
 * process's own, as the calls are.
 */
export class ParkedCalls {
  readonly #calls = new Map<string, Parked>()
  readonly #key = randomBytes(32)

  park(call: Parked, parking: Parking, turn: Turn): string {
    this.#calls.set(parking.call, call)
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, iv).setAAD(boundTo(turn))
    const text = JSON.stringify([parking.call, Date.now() + ASK_MS])
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
  }

  forget({ call }: Parking): void {
    this.#calls.delete(call)
  }

  /** Goes on with the call whose state the request brings back. Throws `invalid_params` where that can't be. */
  resume(turn: Turn): void {
    const state = turn.message.params?.['requestState']
    const [id, until] = typeof state === 'string' ? this.#open(state, boundTo(turn)) : []
    const call = id === undefined ? undefined : this.#calls.get(id)
    if (call === undefined || until === undefined || Date.now() > until)
      throw new PublicError('invalid_params', { message: 'params.requestState belongs to no call that waits.' })
    call.resume(turn)
  }

  #open(state: string, bound: Buffer): [string?, number?] {
    try {
      const bytes = Buffer.from(state, 'base64url')
      const decipher = createDecipheriv(ALGORITHM, this.#key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
      decipher.setAAD(bound).setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
      const text = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
      return JSON.parse(text.toString('utf8')) as [string, number]
    } catch {
      return []
    }
  }
}

const boundTo = ({ binding, message }: Turn): Buffer =>
  Buffer.from(JSON.stringify([binding, message.method, message.params?.['name'] ?? message.params?.['uri'] ?? '']))
