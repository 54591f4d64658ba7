import { isObject } from '../../../crds/shared/json.ts'
import { PublicError } from '../../server/errors.ts'
import type { Route } from '../aggregation/catalog.ts'
import { BackendFailure } from '../backends/connection/failure.ts'
import { MOST_CALLS } from '../backends/connection/transport.ts'
import { isListChanged } from '../backends/lists/list-kind.ts'
import type { AnswerScanner } from '../mcp/answer-scanner.ts'
import { editObject } from '../mcp/json.ts'
import { isId, type Message } from '../mcp/message.ts'
import { parseBytes } from '../mcp/parse.ts'
import type { ResultStripper } from '../mcp/result-stripper.ts'
import { OK, type RequestContext } from '../request/request-context.ts'
import { checkType, scannerFor, stripperFor, translated } from './answer-translation.ts'
import { ClientQuestions } from './asking/client-questions.ts'
import { inputRequiredBy, MOST_ROUNDS } from './asking/input-rounds.ts'
import type { CallServices } from './call-services.ts'
import { Flight } from './flight.ts'
import { Parking } from './parked/parking.ts'
import { isRelayed, sameId } from './relay-rules.ts'

/** Half of the connections for calls to a backend: whoever lets calls hang leaves room for the others. */
const MOST_CALLS_OF_CALLER = MOST_CALLS / 2

/** One request on its way to a backend and back: exactly one request to the backend, whatever eras meet. */
export class Call extends Flight {
  /** What the backend asks of a legacy client. */
  #questions: ClientQuestions | undefined
  /** What the backend asks of a modern client. */
  #parking: Parking | undefined
  /** Changes the parts of a large answer on their way. */
  #stripper: ResultStripper | undefined

  /** Nothing is read from the backend until the client has read what it has. */
  #isHeldUp = false

  /** `message` is the client's request, but for what the route can't rewrite. */
  constructor(services: CallServices, context: RequestContext, route: Route, message: Message = context.message) {
    super(services, context, route, message)
  }

  /** Sends the call. Its answer, of whatever kind, goes to the request context. */
  start(): void {
    const { context, backend } = this
    const { parked, inFlight } = this.services
    if (context.era === 'modern' && this.message.params?.['requestState'] !== undefined && parked.resume(context)) {
      this.observed(OK)
      return
    }
    if (this.share !== undefined && this.share.calls >= MOST_CALLS_OF_CALLER) this.#refuseEarly('share_exceeded')
    if (!backend.health.mayTry(this.share)) this.#refuseEarly('backend_unavailable')
    inFlight.add(this)
    context.onGone = this
    this.send()
  }

  #refuseEarly(code: 'share_exceeded' | 'backend_unavailable'): never {
    this.observed({ result: 'error', code })
    throw new PublicError(code)
  }

  protected get isAttended(): boolean {
    return this.#parking?.isAttended ?? true
  }

  protected endQuestions(): void {
    this.#questions?.end()
    if (this.#parking !== undefined) this.services.parked.forget(this.#parking)
  }

  /** Another request of the client waits for the answer from now on. */
  attend(context: RequestContext): void {
    this.context = context
    context.onGone = this
    if (this.edits !== undefined) this.edits.id = Buffer.from(this.id)
  }

  /** Reads no more of the answer until the call is to `proceed`. */
  pause(): void {
    this.reader?.pause()
  }

  proceed(): void {
    this.allow(this.backend.timeoutMs)
    this.reader?.resume()
  }

  /** Sends another request in the place of the one that the backend has answered with a question. */
  again(message: Message): void {
    this.message = message
    this.rounds++
    this.attempts = 0
    this.allow(this.backend.timeoutMs)
    this.send()
  }

  scanner(): AnswerScanner {
    return scannerFor(this)
  }

  part(bytes: Buffer): boolean {
    if (!this.isAttended) {
      this.reader?.stop()
      this.failed(new BackendFailure('backend_failed', 'gave a large answer while its own question was open'))
      return true
    }
    this.#stripper ??= stripperFor(this)
    const isFree = this.#stripper === undefined ? this.context.reply.part(bytes) : this.#stripped(this.#stripper, bytes)
    if (!isFree) this.#resumeOnceFree()
    return isFree
  }

  /** Reads on when the client can take more. */
  #resumeOnceFree(): void {
    if (this.#isHeldUp) return
    this.#isHeldUp = true
    this.context.reply.onceFree(() => {
      this.#isHeldUp = false
      if (this.isAttended) this.reader?.resume()
    })
  }

  #stripped(stripper: ResultStripper, bytes: Buffer): boolean {
    const parts: Buffer[] = []
    stripper.push(bytes, parts)
    try {
      checkType(stripper.resultType)
    } catch (error) {
      this.giveUp('its answer can’t be relayed', error)
      return true
    }
    let isFree = true
    for (const part of parts) isFree = this.context.reply.part(part)
    return isFree
  }

  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (!sameId(scanner.id, this.sentId)) {
      this.failed(new BackendFailure('backend_failed', `answered another request: ${scanner.id}`), flowed)
      return
    }
    if (this.#parking?.isAttended === false) this.#parking.keep(scanner, body)
    else if (flowed || !this.#asksFor(body)) this.give(scanner, body, flowed)
  }

  /** Whether an answer of a modern backend is a question that a legacy client is asked. */
  #asksFor(body: Buffer): boolean {
    const { context, session } = this
    if (context.era === 'modern' || this.link !== undefined || session === undefined) return false
    const needed = inputRequiredBy(body)
    if (needed === undefined || this.rounds >= MOST_ROUNDS) return false
    this.#questions ??= new ClientQuestions(this, session)
    this.#questions.supply(needed).catch((error) => this.faulted(error))
    return true
  }

  /** Gives the client the backend's answer. */
  give(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (!flowed) this.#tell(200, this.#parking === undefined ? body : withId(body, this.id), scanner.hasError)
    else {
      this.context.reply.end()
      this.succeeded(scanner.hasError ? 'error' : 'ok')
    }
  }

  protected refusedBy(error: string, status: number): void {
    this.#tell(status, Buffer.from(`{"jsonrpc":"2.0","id":${this.id},"error":${error}}`), true)
  }

  #tell(status: number, body: Buffer, hasError: boolean): void {
    try {
      this.context.reply.json(status, translated(this, hasError, body))
    } catch (error) {
      this.refuse(error)
      return
    }
    this.succeeded(hasError ? 'error' : 'ok')
  }

  notified(bytes: Buffer): boolean {
    const notification = parseBytes(bytes)
    if (!isObject(notification)) return true
    const { method, params } = notification
    const { era, reply } = this.context
    if (isListChanged(method)) this.services.refreshTools(this.backend.name)
    else if (method === 'notifications/cancelled') this.#questions?.takeBack(params)
    else if (isRelayed(notification, this.message, era)) {
      const said = this.tasks === undefined ? bytes : this.tasks.said(bytes.toString('utf8'))
      if (said !== undefined && !reply.message(said)) {
        this.#resumeOnceFree()
        return false
      }
    }
    return true
  }

  asked(id: string, bytes: Buffer): void {
    const { link, session } = this
    if (link === undefined) return
    if (!isObject(parseBytes(bytes))) {
      link.refuse(id, 'The request is no JSON-RPC message, or is nested too deep.')
      return
    }
    const asked = bytes.toString('utf8')
    if (session === undefined) {
      this.#parking ??= new Parking(this, this.services.parked)
      this.#parking.ask(link, id, asked)
      return
    }
    this.#questions ??= new ClientQuestions(this, session)
    this.#questions.relay(link, id, asked).catch((error) => this.faulted(error))
  }

  protected heard(bytes: Buffer): void {
    const heard = parseBytes(bytes)
    if (!isObject(heard) || heard['method'] === undefined) return
    const { id } = heard
    if (id === undefined) this.notified(bytes)
    else if (isId(id)) this.asked(JSON.stringify(id), bytes)
  }
}

/** The answer with the id of the retry that it goes to; what was read before that came has another. */
const withId = (answer: Buffer, id: string): Buffer =>
  Buffer.from(editObject(answer.toString('latin1'), { id: Buffer.from(id).toString('latin1') }), 'latin1')
