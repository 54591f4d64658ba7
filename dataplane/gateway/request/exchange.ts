import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { Caller } from '../../identity/caller.ts'
import { publicError } from '../../server/answer.ts'
import type { Share } from '../../server/budget.ts'
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
import type { Reply } from './reply.ts'
import { incomingTrace, OTHER, operationOf, requestDetails } from './request-details.ts'
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

/** What a request costs beside its body: its head, and what is kept of it while it is under way. */
export const REQUEST_BYTES = 4096

/** What is known of an exchange once its message has been understood. */
export interface Understood {
  readonly message: Message
}

/** An exchange whose message has been understood: what serves a message takes this. */
export type RequestContext = Exchange & Understood

/** Only the steps of an exchange write what they find out. */
type Known = { -readonly [Name in keyof Exchange]: Exchange[Name] }

/**
 * One exchange with a client at the MCP endpoint: a request, as far as it is known, and its answer. It becomes known step by
 * step, and each step gives it on to the next: `admit` (who calls), `understand` (what is asked), `inEra`, `inSession`.
 * Nobody else writes what they have found out.
 */
export class Exchange implements Origin {
  readonly host: RequestHost
  /** What is in force for this request, whatever is reloaded meanwhile. */
  readonly setup: Setup
  readonly req: IncomingMessage
  readonly reply: Reply
  /** Nobody in particular until it is admitted. */
  readonly caller: Caller
  /** The name by which things of the caller are kept. */
  readonly binding: string
  /** What its caller makes the gateway hold; undefined until it is known who calls. */
  readonly share: Share | undefined
  readonly era: 'modern' | 'legacy'
  readonly session: Session | undefined
  /** The parsed body of a POST. */
  readonly message: Message | undefined = undefined
  /** Its client is at another replica. */
  readonly isRemote: boolean
  readonly startedAt = performance.now()
  /** `performance.now()` when it was known who calls; undefined where that took no token. */
  readonly admittedAt: number | undefined = undefined
  /** The name of the tool or prompt that is used, once it is known to be there. */
  readonly used: string | undefined = undefined
  /** The name of the backend that it is for, once that is known. */
  readonly backend: string | undefined = undefined
  /** The id of the session that it opens, listens in or ends; that which it belongs to is `session`. */
  readonly sessionId: string | undefined = undefined
  /** Told when the client goes away before its answer is whole. */
  onGone: { gone(): void } | undefined
  #requestId: string | undefined
  #observation: Observation | undefined
  #log: Logger | undefined
  #bytes = 0
  #isOver = false

  /** `of`: the exchange that it is a part of, whose client, session and id it has. */
  constructor(host: RequestHost, req: IncomingMessage, reply: Reply, of?: Exchange) {
    this.host = host
    this.setup = host.setup
    this.req = req
    this.reply = reply
    this.caller = of === undefined ? ANONYMOUS : of.caller
    this.binding = of === undefined ? '' : of.binding
    this.share = of?.share
    this.era = of === undefined ? 'legacy' : of.era
    this.session = of?.session
    this.isRemote = of?.isRemote === true
    this.#requestId = of?.requestId
  }

  /** It is known who calls; `share` is what the caller may make the gateway hold. */
  admit(caller: Caller, binding: string, share: Share): this {
    const known = this as Known
    known.caller = caller
    known.binding = binding
    known.share = share
    if (caller.kind === 'authenticated') known.admittedAt = performance.now()
    return this
  }

  /** The same caller, as the last check of the token has it. */
  renew(caller: Caller): void {
    const known = this as Known
    known.caller = caller
  }

  /** It is known what is asked. */
  understand(message: Message): this & Understood {
    const known = this as Known
    known.message = message
    this.#observe(this.operationOf(message.method))
    if (this.#observation?.isTold === true) known.reply = findingErrorResult(this.reply, message.method)
    return this as this & Understood
  }

  /** It is known which era the client speaks; until then it is taken for the legacy one. */
  inEra(era: 'modern' | 'legacy'): this {
    const known = this as Known
    known.era = era
    return this
  }

  /** It belongs to a session. */
  inSession(session: Session): this {
    const known = this as Known
    known.session = session
    return this
  }

  /** It opens, listens in or ends the session of this id: for whoever is told of it. */
  tellSession(id: string): void {
    const known = this as Known
    known.sessionId = id
  }

  /** It uses this tool or prompt, and is for this backend: for whoever is told of it. */
  tellUse(name: string | undefined, backend = this.backend): void {
    const known = this as Known
    known.used = name
    known.backend = backend
  }

  /** Holds so many bytes of the caller's share from now on, until its end. Throws where that is too much. */
  hold(bytes: number): void {
    this.share?.take(bytes - this.#bytes)
    this.#bytes = bytes
  }

  /** Bytes that were held, and are somebody else's to count and to release from now on. */
  handOver(): number {
    const bytes = this.#bytes
    this.#bytes = 0
    return bytes
  }

  protected release(): void {
    this.share?.release(this.#bytes)
    this.#bytes = 0
  }

  /** That of the client where it is plain; in the answer, and wherever something is told of the request. */
  get requestId(): string {
    this.#requestId ??= requestIdOf(this.req.headers['x-request-id'])
    return this.#requestId
  }

  /** Where the stream that answers a request of a session is kept, for a client that loses it. */
  openLog(): EventLog | undefined {
    const id = this.message?.id
    return this.session === undefined || id === undefined ? undefined : this.host.streams.open(this.session.record, id)
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
    return incomingTrace(this.req, this.message)
  }

  details(): Details {
    return requestDetails(this.req, this.message, this.setup.addressOf(this.req))
  }

  target(): string | undefined {
    return this.used
  }

  /** Goes on without the message but for its id, for what goes on long after it was understood. */
  forgetMessage(): void {
    const { id, method = '' } = this.message ?? {}
    // A part of a text keeps the whole text: it is taken out of it.
    const text = Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}}`).toString()
    const known = this as Known
    known.message = new Message(text, JSON.parse(text))
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
    this.reply.json(200, resultText(this.message?.id as string, json), extra)
    this.ended(OK)
  }

  /** Answers with a result that is there already serialized. */
  resultBytes(json: Buffer): void {
    const head = Buffer.from(`{"jsonrpc":"2.0","id":${this.message?.id},"result":`)
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
    const { message } = this
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
    const answersRequest = this.era === 'legacy' && this.session !== undefined && this.message?.id !== undefined
    return answersRequest && error.status < 500 && !TELLING.has(error.status) ? 200 : error.status
  }

  /** Whether its answer is a tool's error result, as far as anything is told of that. */
  get hasErrorResult(): boolean {
    return this.message !== undefined && isErrorResult(this.reply, this.message.method)
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

const ANONYMOUS: Caller = { kind: 'anonymous' }

const headersOf = ({ headers }: PublicError): readonly string[] =>
  headers === undefined ? [] : Object.entries(headers).flat()

const CLOSING = Buffer.from('}')
/** What a client of any era is to act on: another token, another scope, patience. */
const TELLING: ReadonlySet<number> = new Set([401, 403, 429])

export const OK: Outcome = { result: 'ok' }
const FAILED_TOOL: Outcome = { result: 'error', code: TOOL_ERROR }
