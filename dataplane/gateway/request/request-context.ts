import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { Caller } from '../../identity/caller.ts'
import { publicError } from '../../server/answer.ts'
import { errorTable, PublicError } from '../../server/errors.ts'
import { traceIdOf } from '../../server/log.ts'
import { requestIdOf } from '../../server/request-id.ts'
import {
  type Details,
  type Observation,
  type Observe,
  type Operation,
  type Origin,
  type Outcome,
  TOOL_ERROR,
} from '../../telemetry/observe.ts'
import { Message } from '../mcp/message.ts'
import { errorText, resultText } from '../mcp/rpc-text.ts'
import type { Session } from '../sessions/sessions.ts'
import type { SessionRecord } from '../sessions/store/store.ts'
import type { EventLog } from '../sessions/streams/event-log.ts'
import { auditRequest } from './audit/audit-request.ts'
import { findingErrorResult, isErrorResult } from './audit/recorded-reply.ts'
import { Held, REQUEST_BYTES } from './held.ts'
import { OTHER, operationOf } from './operation.ts'
import type { Reply } from './reply.ts'
import { incomingTrace, requestDetails } from './request-details.ts'
import type { Setup } from './setup.ts'

/** Where streams of events are kept, for clients that lose them. */
interface EventLogs {
  /** `request`: JSON text of the id of the request that it answers. */
  open(record: SessionRecord, request: string): EventLog
}

/** What a request needs of the gateway that it came to. */
interface RequestHost {
  /** What is in force now. */
  readonly setup: Setup
  readonly streams: EventLogs
  readonly observe: Observe
  readonly audit: Auditing
  readonly log: Logger
}

/** One request to the MCP endpoint: who calls, what is asked, what is in force for it, and its answer. */
export class RequestContext extends Held implements Origin {
  readonly host: RequestHost
  /** What is in force for this request, whatever is reloaded meanwhile. */
  readonly setup: Setup
  readonly req: IncomingMessage
  reply: Reply
  caller: Caller = { kind: 'anonymous' }
  binding = ''
  era: 'modern' | 'legacy' = 'legacy'
  session: Session | undefined
  /** Its client is at another replica. */
  isRemote = false
  readonly startedAt = performance.now()
  /** `performance.now()` when it was known who calls; undefined where that took no token. */
  admittedAt: number | undefined
  /** The name of the tool or prompt that is used, once it is known to be there. */
  used: string | undefined
  /** The name of the backend that it is for, once that is known. */
  backend: string | undefined
  /** The id of the session that it opens, listens in or ends; that which it belongs to is `session`. */
  sessionId: string | undefined
  /** Told when the client goes away before its answer is whole. */
  onGone: { gone(): void } | undefined
  #requestId: string | undefined
  #message: Message | undefined
  #observation: Observation | undefined
  #log: Logger | undefined
  #isOver = false

  constructor(host: RequestHost, req: IncomingMessage, reply: Reply) {
    super()
    this.host = host
    this.setup = host.setup
    this.req = req
    this.reply = reply
  }

  /** That of the client where it is plain; in the answer, and wherever something is told of the request. */
  get requestId(): string {
    this.#requestId ??= requestIdOf(this.req.headers['x-request-id'])
    return this.#requestId
  }

  /** Set where the request is a part of another one, whose id it has. */
  set requestId(id: string) {
    this.#requestId = id
  }

  /** Where the stream that answers a request of a session is kept, for a client that loses it. */
  openLog(): EventLog | undefined {
    const id = this.#message?.id
    return this.session === undefined || id === undefined ? undefined : this.host.streams.open(this.session.record, id)
  }

  /** The parsed body of a POST. */
  get message(): Message {
    return this.#message as Message
  }

  /** The message, where one has been understood. */
  get understood(): Message | undefined {
    return this.#message
  }

  /** Makes the message this request's. */
  adopt(message: Message): void {
    this.#message = message
    this.#observe(this.operationOf(message.method))
    if (this.#observation?.isTold === true) this.reply = findingErrorResult(this.reply, message.method)
  }

  /** What is measured of a request by this method. */
  protected operationOf(method: string): Operation {
    return operationOf(method)
  }

  /** What is measured of it; undefined before it is understood, and after its end. */
  get observation(): Observation | undefined {
    return this.#observation
  }

  #observe(operation: Operation): void {
    this.#observation = this.host.observe(operation, this)
    if (this.admittedAt !== undefined) this.#observation.step('authenticate', this.startedAt, this.admittedAt)
  }

  incoming() {
    return incomingTrace(this.req, this.#message)
  }

  details(): Details {
    return requestDetails(this.req, this.#message, this.setup.addressOf(this.req))
  }

  target(): string | undefined {
    return this.used
  }

  /** Goes on without the message but for its id, for what goes on long after it was understood. */
  forgetMessage(): void {
    const { id, method } = this.message
    // A part of a text keeps the whole text: it is taken out of it.
    const text = Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}}`).toString()
    this.#message = new Message(text, JSON.parse(text))
    this.hold(REQUEST_BYTES)
  }

  /** Runs a step; what it throws or rejects with becomes the answer. */
  run(step: (context: this) => void | Promise<void>): void {
    try {
      const running = step(this)
      if (running !== undefined) running.catch((error) => this.fail(error))
    } catch (error) {
      this.fail(error)
    }
  }

  /** Answers the request with a result, given as JSON text. */
  result(json: string, extra?: readonly string[]): void {
    this.reply.json(200, resultText(this.message.id as string, json), extra)
    this.ended(OK)
  }

  /** Answers with a result that is there already serialized. */
  resultBytes(json: Buffer): void {
    const head = Buffer.from(`{"jsonrpc":"2.0","id":${this.message.id},"result":`)
    this.reply.pieces([head, json, CLOSING])
    this.ended(OK)
  }

  /** Takes a notification: there is nothing to answer. */
  accepted(): void {
    this.reply.empty(202)
    this.ended(OK)
  }

  /** Answers with what a caller may know of the error. */
  fail(thrown: unknown): void {
    const isPlain = thrown instanceof PublicError && thrown.cause === undefined
    const error = isPlain ? thrown : publicError(thrown, this.log)
    const message = this.#message
    if (this.reply.begun && !this.reply.streaming) this.reply.abort()
    else this.reply.json(this.#statusOf(error), errorText(message?.id, error), headersOf(error))
    if (this.#observation === undefined) this.#observe(OTHER)
    const result = error.status === 401 || error.status === 403 ? 'denied' : 'error'
    this.ended({ result, code: error.code, rpcCode: errorTable[error.code].rpc })
  }

  /** Its lines carry the ids by which the request is found again. */
  get log(): Logger {
    this.#log ??= this.host.log.child({
      requestId: this.requestId,
      ...traceIdOf(this.#observation?.trace?.traceparent),
    })
    return this.#log
  }

  /**
   * Clients of the legacy era take every other status than 200 for a failure of the transport and read no body;
   * so an error that belongs to a request of a living session comes with 200.
   */
  #statusOf(error: PublicError): number {
    const answersRequest = this.era === 'legacy' && this.session !== undefined && this.#message?.id !== undefined
    return answersRequest && error.status < 500 && !TELLING.has(error.status) ? 200 : error.status
  }

  /** Whether its answer is a tool's error result, as far as anything is told of that. */
  get hasErrorResult(): boolean {
    return this.#message !== undefined && isErrorResult(this.reply, this.#message.method)
  }

  ended(outcome: Outcome): void {
    this.onGone = undefined
    const { log } = this.host.audit
    if (log !== undefined && !this.#isOver && !this.isRemote) auditRequest(log, this, outcome)
    this.#isOver = true
    this.#observation?.end(outcome.result === 'ok' && this.hasErrorResult ? FAILED_TOOL : outcome)
    this.#observation = undefined
    this.release()
  }
}

const headersOf = ({ headers }: PublicError): readonly string[] =>
  headers === undefined ? [] : Object.entries(headers).flat()

const CLOSING = Buffer.from('}')
/** What a client of any era is to act on: another token, another scope, patience. */
const TELLING: ReadonlySet<number> = new Set([401, 403, 429])

export const OK: Outcome = { result: 'ok' }
const FAILED_TOOL: Outcome = { result: 'error', code: TOOL_ERROR }
