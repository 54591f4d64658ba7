import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { PublicError } from '../../../server/errors.ts'
import { memberText } from '../../mcp/json.ts'
import type { InFlight, InFlightCall } from '../../request/in-flight.ts'
import { OK, type RequestContext } from '../../request/request-context.ts'
import { TOKEN_ENDED } from '../../request/token-ended.ts'
import type { Resumed, SessionBus } from '../../sessions/store/bus.ts'

interface RemoteRetryOptions {
  readonly bus: SessionBus
  /** Where the call waits. */
  readonly replica: string
  readonly inFlight: InFlight
  onEnd(): void
}

/** A replica that has lost its connection to Redis, or has none yet, is given a moment. */
const DELIVERIES = 5
const DELIVER_EVERY_MS = 250
const POLL_MS = 1_000
/** A replica that has sent nothing for so long is gone. */
const SILENCE_MS = 5_000
/** How often its client gets a heartbeat, in polls of the other replica. */
const HEARTBEAT_EVERY = 15

/** A client's retry whose call waits at another replica: what comes from there goes to the client. */
export class RemoteRetry implements InFlightCall {
  readonly name = randomUUID()
  readonly session = undefined
  readonly id: string
  deadline: number
  heartbeatAt: number
  index = -1
  /** The call itself is counted where it was made. */
  readonly share = undefined
  checkedAt: number
  readonly context: RequestContext
  readonly #options: RemoteRetryOptions
  #polls = 0
  #over = false

  constructor(context: RequestContext, options: RemoteRetryOptions) {
    this.context = context
    this.#options = options
    this.id = context.message.id as string
    const now = performance.now()
    this.deadline = now + SILENCE_MS
    this.heartbeatAt = now + POLL_MS
    this.checkedAt = now
  }

  /** Takes the retry to the call of this name. */
  start(call: string): void {
    const context = this.context
    this.#options.inFlight.add(this)
    context.onGone = this
    this.#deliver(call).catch((error) => context.fail(error))
  }

  async #deliver(call: string): Promise<void> {
    const { bus, replica } = this.#options
    const { text } = this.context.message
    for (let time = 0; time < DELIVERIES && !this.#over; time++) {
      if (time > 0) await setTimeout(DELIVER_EVERY_MS, undefined, { ref: false })
      if (await bus.send({ kind: 'resume', call, retry: this.name, from: bus.replica, text }, replica)) return
    }
    this.#lose()
  }

  /** Something for the client. */
  take(resumed: Resumed): void {
    this.deadline = performance.now() + SILENCE_MS
    const context = this.context
    const { reply } = context
    if (resumed.what === 'sign') return
    if (resumed.what === 'unknown') this.#lose()
    else if (resumed.what === 'message') reply.message(bytesOf(resumed.text))
    else if (resumed.what === 'part') this.#part(bytesOf(resumed.text))
    else {
      this.#close()
      if (resumed.what === 'answer') reply.json(resumed.status, bytesOf(resumed.text))
      else if (resumed.what === 'end') reply.end()
      else reply.abort()
      const isOk =
        resumed.what === 'end' || (resumed.what === 'answer' && memberText(resumed.text, 'error') === undefined)
      context.ended(isOk ? OK : { result: 'error' })
    }
  }

  #part(bytes: Buffer): void {
    const more = () => this.#poll(true)
    if (this.context.reply.part(bytes)) more()
    else this.context.reply.onDrain(more)
  }

  /** Where this reaches nobody, the deadline passes. */
  #poll(more: boolean): void {
    const { bus, replica } = this.#options
    bus.notify({ kind: 'attends', retry: this.name, from: bus.replica, more }, replica)
  }

  /** Polls whether the other replica still has the call. */
  heartbeat(): void {
    this.heartbeatAt += POLL_MS
    this.#poll(false)
    if (++this.#polls % HEARTBEAT_EVERY === 0) this.context.reply.heartbeat()
  }

  timeOut(): void {
    this.#lose()
  }

  tokenEnded(): void {
    this.#cancel()
    this.context.fail(new PublicError('answer_lost', { message: TOKEN_ENDED }))
  }

  cancel(): void {
    this.gone()
  }

  gone(): void {
    this.#cancel()
    this.context.ended({ result: 'error' })
  }

  #cancel(): void {
    this.#close()
    const { bus, replica } = this.#options
    bus.notify({ kind: 'left', retry: this.name }, replica)
  }

  /** The call is over, or its replica is, which is the same. */
  #lose(): void {
    if (!this.#close()) return
    const message = 'The call that waited for this is over: its replica no longer has it. Call anew.'
    this.context.fail(new PublicError('invalid_params', { message }))
  }

  #close(): boolean {
    this.#over = true
    this.#options.onEnd()
    return this.#options.inFlight.delete(this)
  }
}

const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1')
