import { isObject } from '../../../../../crds/settings/json.ts'
import { workflowLimits } from '../../../../config/workflow/limits.ts'
import type { Reservation } from '../../../../server/budget.ts'
import { memberText } from '../../../mcp/json.ts'
import type { Reply } from '../../../request/reply.ts'
import { missingCapability } from '../../../workflows/attempt.ts'
import { StepFailure } from '../../../workflows/failure.ts'
import type { StepAnswer } from '../../../workflows/host.ts'

/** Receives a call's result. */
interface Taker {
  resolve(answer: StepAnswer): void
  reject(error: StepFailure): void
  /** Ends the call because its result is too large. */
  tooMuch(): void
}

/** The JSON-RPC codes with which a call fails again on each retry, because something is missing or not allowed. */
const MISSING_CAPABILITY = -32021
const FINAL: ReadonlySet<unknown> = new Set([-32602, -32601, 403, MISSING_CAPABILITY])

/**
 * Receives the answer to a step's call, with which the workflow continues. Notifications and requests of the backend
 * before the answer go to the workflow's client.
 */
export class StepReply implements Reply {
  readonly streaming = false
  readonly #outer: Reply
  readonly #reservation: Reservation | undefined
  readonly #taker: Taker
  #parts: Buffer[] = []
  #size = 0

  constructor(outer: Reply, reservation: Reservation | undefined, taker: Taker) {
    this.#outer = outer
    this.#reservation = reservation
    this.#taker = taker
  }

  get begun(): boolean {
    return this.#parts.length > 0
  }

  json(_status: number, body: string | Buffer): void {
    this.#take(body.toString())
  }

  pieces(pieces: readonly Buffer[]): void {
    this.#take(Buffer.concat(pieces).toString())
  }

  empty(): void {
    this.#fail('the call has no answer')
  }

  stream(): void {
    this.#outer.stream()
  }

  message(text: string | Buffer): boolean {
    return this.#outer.message(text)
  }

  heartbeat(): void {
    // The workflow has its own heartbeats.
  }

  part(bytes: Buffer): boolean {
    this.#size += bytes.length
    // The memory of the bytes and of the text that is made from them.
    if (this.#size > workflowLimits.output || this.#reservation?.resize(2 * this.#size) === false) {
      this.#parts = []
      this.#taker.tooMuch()
      return true
    }
    this.#parts.push(bytes)
    return true
  }

  onDrain(next: () => void): void {
    this.#outer.onDrain(next)
  }

  end(): void {
    if (this.#parts.length === 0) return
    const whole = Buffer.concat(this.#parts).toString()
    this.#parts = []
    this.#take(whole)
  }

  disconnect(): boolean {
    return false
  }

  endUnanswered(): void {
    this.#fail('the call was ended')
  }

  abort(): void {
    this.#fail('the answer broke off')
  }

  #fail(message: string, detail: ConstructorParameters<typeof StepFailure>[1] = {}): void {
    this.#reservation?.release()
    this.#taker.reject(new StepFailure(message, detail))
  }

  /** Handles the whole JSON-RPC message. */
  #take(message: string): void {
    const result = memberText(message, 'result')
    if (result === undefined) {
      const error: unknown = JSON.parse(memberText(message, 'error') ?? 'null')
      const { code, message: said, data } = isObject(error) ? error : {}
      const needed = code === MISSING_CAPABILITY && isObject(data) ? data['requiredCapabilities'] : undefined
      const answer = isObject(needed) ? missingCapability(needed) : undefined
      this.#fail(typeof said === 'string' ? said : 'the call has failed', { isFinal: FINAL.has(code), answer })
      return
    }
    this.#reservation?.release()
    const type = memberText(result, 'resultType')
    if (type === undefined || type === '"complete"') this.#taker.resolve({ kind: 'result', text: result })
    else if (type === '"input_required"') this.#taker.resolve(readInput(result))
    else this.#fail(`the tool gave no result, but ${type.slice(0, 40)}`, { isFinal: true })
  }
}

function readInput(result: string): StepAnswer {
  const state: unknown = JSON.parse(memberText(result, 'requestState') ?? 'null')
  return {
    kind: 'input',
    requests: memberText(result, 'inputRequests') ?? '{}',
    state: typeof state === 'string' ? state : undefined,
  }
}
