import { isObject } from '../../../crds/shared/json.ts'
import { Lease } from '../../server/budget.ts'
import type { AnswerHead } from '../backends/connection/answer-head.ts'
import type { AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure } from '../backends/connection/failure.ts'
import { isListChanged, TOOLS_CHANGED } from '../backends/lists/list-kind.ts'
import { updatedUri } from '../backends/session/resource-updates.ts'
import { type AnswerEdits, AnswerScanner, sameId } from '../mcp/answer-scanner.ts'
import { editObject, memberText } from '../mcp/json.ts'
import { isId, type Message } from '../mcp/message.ts'
import { parseBytes } from '../mcp/parse.ts'
import type { ResultStripper } from '../mcp/result-stripper.ts'
import type { RequestContext } from '../request/request-context.ts'
import { checkType, editsForModern, stripperFor, translated } from './answer-translation.ts'
import type { Call } from './call.ts'
import { CallServerRequests } from './input/call-server-requests.ts'
import { inputRequiredBy, MOST_ROUNDS } from './input/input-required.ts'
import { isRelayed } from './relay-rules.ts'
import { SuspendedCall } from './suspended/suspended-call.ts'
import type { UpstreamRequest } from './upstream-request.ts'

/**
 * Relays what a backend answers to a call, as a whole or in parts, and the notifications and requests that it sends
 * before, to the client in the form of the client's era.
 */
export class AnswerRelay implements AnswerOwner {
  readonly #call: Call
  readonly #upstream: UpstreamRequest
  /** The request that the backend has got; later ones are retries, with progress tokens of their own. */
  readonly #first: Message
  /** Requests of the backend that a legacy client answers while it waits. */
  #serverRequests: CallServerRequests | undefined
  /** Requests of the backend that a modern client answers with a retry. */
  #suspended: SuspendedCall | undefined
  /** What is changed in the answer of a legacy backend to a modern client. */
  #edits: AnswerEdits | undefined
  /** Changes the parts of a large answer on their way. */
  #stripper: ResultStripper | undefined
  /** Memory for a message of the backend that is not its answer. */
  #unanswered: Lease | undefined
  /** Nothing is read from the backend until the client has read what it has. */
  #isWaitingForDrain = false

  constructor(call: Call, upstream: UpstreamRequest) {
    this.#call = call
    this.#upstream = upstream
    this.#first = call.message
  }

  /** Whether a client waits for the answer at the moment. */
  get isAwaited(): boolean {
    return this.#suspended?.isAwaited ?? true
  }

  /** The call is over: open requests of the backend need no answer any more, and memory held for messages is released. */
  end(): void {
    this.#unanswered?.release()
    this.#serverRequests?.end()
    if (this.#suspended !== undefined) this.#call.services.suspended.forget(this.#suspended)
  }

  /** Another request of the client waits for the answer from now on. */
  awaitedBy(context: RequestContext): void {
    const call = this.#call
    call.awaitedBy(context)
    if (this.#edits !== undefined) this.#edits.id = Buffer.from(call.id)
  }

  scanner(): AnswerScanner {
    const call = this.#call
    if (call.rounds > 0) return new AnswerScanner({ id: Buffer.from(call.id), resultMember: '' })
    if (call.context.era === 'legacy' || this.#upstream.backendSession === undefined) {
      const scanner = new AnswerScanner()
      scanner.sentId = this.#upstream.sentId
      return scanner
    }
    this.#edits ??= editsForModern(call)
    return new AnswerScanner(this.#edits)
  }

  holds(bytes: number): boolean {
    const { share } = this.#call
    if (share === undefined) return true
    this.#unanswered ??= new Lease(share)
    return this.#unanswered.resize(bytes)
  }

  part(bytes: Buffer): boolean {
    const call = this.#call
    if (!this.isAwaited) {
      this.#upstream.stop()
      call.failed(new BackendFailure('backend_failed', 'gave a large answer while its own question was open'))
      return true
    }
    this.#stripper ??= stripperFor(call, this.#upstream)
    const hasRoom =
      this.#stripper === undefined ? call.context.reply.part(bytes) : this.#stripped(this.#stripper, bytes)
    if (!hasRoom) this.#resumeOnDrain()
    return hasRoom
  }

  #stripped(stripper: ResultStripper, bytes: Buffer): boolean {
    const parts: Buffer[] = []
    stripper.push(bytes, parts)
    try {
      checkType(stripper.resultType)
    } catch (error) {
      this.#call.abort('its answer can’t be relayed', error)
      return true
    }
    let hasRoom = true
    for (const part of parts) hasRoom = this.#call.context.reply.part(part)
    return hasRoom
  }

  /** Reads on when the client can take more. */
  #resumeOnDrain(): void {
    if (this.#isWaitingForDrain) return
    this.#isWaitingForDrain = true
    this.#call.context.reply.onDrain(() => {
      this.#isWaitingForDrain = false
      if (this.isAwaited) this.#upstream.resume()
    })
  }

  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (scanner.hasError && !flowed && this.#upstream.backendSession !== undefined) {
      const failure = new BackendFailure('backend_failed', 'answered with an error', {
        status: 200,
        // An error without a code is none of the protocol's.
        rpcCode: errorCodeIn(body) ?? Number.NaN,
      })
      if (this.#upstream.sendsAgain(failure, () => this.#take(scanner, body, false))) return
    }
    this.#take(scanner, body, flowed)
  }

  #take(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (!sameId(scanner.id, this.#upstream.sentId)) {
      this.#call.failed(new BackendFailure('backend_failed', `answered another request: ${scanner.id}`), flowed)
      return
    }
    if (this.#suspended?.isAwaited === false) this.#suspended.keep(scanner, body)
    else if (flowed || !this.#requiresInput(body)) this.give(scanner, body, flowed)
  }

  /** Whether an answer of a modern backend is `input_required`; its requests then go to the legacy client. */
  #requiresInput(body: Buffer): boolean {
    const call = this.#call
    const { context, session, rounds } = call
    if (context.era === 'modern' || this.#upstream.backendSession !== undefined || session === undefined) return false
    const needed = inputRequiredBy(body)
    if (needed === undefined || rounds >= MOST_ROUNDS) return false
    this.#serverRequests ??= new CallServerRequests(call, this.#upstream, session)
    this.#serverRequests.supply(needed).catch((error) => call.faulted(error))
    return true
  }

  /** Gives the client the backend's answer; `flowed`: all but its end has been given in parts. */
  give(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    const call = this.#call
    if (!flowed) this.#reply(200, this.#suspended === undefined ? body : withId(body, call.id), scanner.hasError)
    else {
      call.context.reply.end()
      call.answered(scanner.hasError ? 'error' : 'ok')
    }
  }

  /** The backend has answered with an error (JSON text) under a status of its own; `status` is the client's. */
  answeredWithError(error: string, status: number): void {
    this.#reply(status, Buffer.from(`{"jsonrpc":"2.0","id":${this.#call.id},"error":${error}}`), true)
  }

  #reply(status: number, body: Buffer, hasError: boolean): void {
    const call = this.#call
    let answer: Buffer
    try {
      answer = translated(call, this.#upstream, hasError, body)
      call.context.reply.json(status, answer)
    } catch (error) {
      call.refuse(error)
      return
    }
    if (hasError) call.answered('error', call.observed.isSampled ? errorCodeIn(answer) : undefined)
    else call.answered('ok')
  }

  notified(bytes: Buffer): boolean {
    const notification = parseBytes(bytes)
    if (!isObject(notification)) return true
    const { method, params } = notification
    const { context, backend } = this.#call
    if (isListChanged(method)) {
      backend.refreshLists()
      if (method === TOOLS_CHANGED && this.#showsBySession) context.reply.message(bytes)
    } else if (method === 'notifications/cancelled') this.#serverRequests?.cancel(params)
    else if (isRelayed(notification, this.#first, context.era) && this.#mayHear(notification)) {
      const { tasks } = this.#upstream
      const shown = tasks === undefined ? bytes : tasks.messageForClient(bytes.toString('utf8'))
      if (shown !== undefined && !context.reply.message(shown)) {
        this.#resumeOnDrain()
        return false
      }
    }
    return true
  }

  /** Whether the client is shown what its own session with the backend has. */
  get #showsBySession(): boolean {
    const { session, context, backend } = this.#call
    return session !== undefined && context.host.setup.config.role === 'proxy' && backend.mayShowBySession
  }

  /** Whether the client may know of what a notification is about. */
  #mayHear(notification: unknown): boolean {
    const { context, backend } = this.#call
    const { judge } = context.host.setup
    const uri = judge === undefined ? undefined : updatedUri(notification)
    return judge === undefined || uri === undefined || judge.mayHearOf(context.caller, uri, backend.name)
  }

  /** The backend sends a request to the client, in the session with it; `id` is JSON text. */
  requested(id: string, bytes: Buffer): void {
    const call = this.#call
    const { backendSession } = this.#upstream
    if (backendSession === undefined) return
    if (!isObject(parseBytes(bytes))) {
      backendSession.refuse(id, 'The request is no JSON-RPC message, or is nested too deep.')
      return
    }
    const request = bytes.toString('utf8')
    if (call.session === undefined) {
      this.#suspended ??= new SuspendedCall({ call, upstream: this.#upstream, relay: this }, call.services.suspended)
      this.#suspended.relay(backendSession, id, request)
      return
    }
    this.#serverRequests ??= new CallServerRequests(call, this.#upstream, call.session)
    this.#serverRequests.relay(backendSession, id, request).catch((error) => call.faulted(error))
  }

  unsolicited(bytes: Buffer): void {
    const message = parseBytes(bytes)
    if (!isObject(message) || message['method'] === undefined) return
    const { id } = message
    if (id === undefined) this.notified(bytes)
    else if (isId(id)) this.requested(JSON.stringify(id), bytes)
  }

  refused(head: AnswerHead, text: string): void {
    this.#upstream.refused(head, text)
  }

  redirected(head: AnswerHead): (() => void) | undefined {
    return this.#upstream.redirected(head)
  }

  failed(failure: BackendFailure): void {
    if (this.#upstream.sendsAgain(failure, () => this.#call.failed(failure))) return
    this.#call.failed(failure)
  }

  faulted(error: unknown): void {
    this.#call.faulted(error)
  }

  goOnAfter(eventId: string, retryMs: number | undefined): boolean {
    return this.#upstream.resumeAfter(eventId, retryMs)
  }

  ended(reader: AnswerReader): void {
    this.#upstream.ended(reader)
  }
}

/** The code of the error that an answer holds; undefined where that is no plain number. */
function errorCodeIn(answer: Buffer): number | undefined {
  const error = memberText(answer.toString('latin1'), 'error')
  const code = error?.startsWith('{') ? memberText(error, 'code') : undefined
  return code !== undefined && CODE.test(code) ? Number(code) : undefined
}

const CODE = /^-?\d{1,9}$/

/** The answer with the id of the retry that it goes to; what was read before that came has another. */
const withId = (answer: Buffer, id: string): Buffer =>
  Buffer.from(editObject(answer.toString('latin1'), { id: Buffer.from(id).toString('latin1') }), 'latin1')
