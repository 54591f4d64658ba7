import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Share } from '../../server/budget.ts'
import { errorTable, PublicError, publicError } from '../../server/errors.ts'
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
import { InvalidRequest, Message } from '../mcp/message.ts'
import { errorText, resultText } from '../mcp/rpc-text.ts'
import type { Session } from '../sessions/session.ts'
import type { SessionRecord } from '../sessions/store/store.ts'
import type { EventLog } from '../sessions/streams/event-log.ts'
import type { Reply } from './reply.ts'
import {
  auditRequest,
  findingErrorResult,
  findOperation,
  incomingTrace,
  isErrorResult,
  OTHER,
  requestDetails,
} from './request-record.ts'
import type { Setup } from './setup.ts'

/** The place where event streams are kept for clients that lose their connection. */
interface EventLogs {
  /** Opens a log. `request`: JSON text of the id of the request that it answers. */
  open(record: SessionRecord, request: string): EventLog
}

/** The parts of the gateway that a request uses. */
interface RequestHost {
  readonly setup: Setup
  readonly streams: EventLogs
  readonly observe: Observe
  readonly audit: Auditing
  readonly log: Logger
}

/** The memory of a request besides its body: its head, and the state kept while it is in flight. */
export const REQUEST_BYTES = 4096

/** The members of an exchange once its message has been understood. */
export interface Understood {
  readonly message: Message
}

/** An exchange whose message has been understood: the functions that serve a message take it. */
export type RequestContext = Exchange & Understood

/** A writable view of an exchange, for its own steps. */
type Known = { -readonly [Name in keyof Exchange]: Exchange[Name] }

/**
 * One exchange with a client at the MCP endpoint: a request, as far as it is known, and its answer. Each step adds its
 * findings and passes the exchange to the next: `admit` (caller), `understand` (message), `inEra`, `inSession`. Nothing
 * else writes these members.
 */
export class Exchange implements Origin {
  readonly host: RequestHost
  /** The configuration in force for this request, even if it is reloaded meanwhile. */
  readonly setup: Setup
  readonly req: IncomingMessage
  readonly reply: Reply
  /** The caller; anonymous until it is admitted. */
  readonly caller: Caller
  /** The name under which the caller's state is kept. */
  readonly binding: string
  /** The caller's share of memory; undefined until the caller is known. */
  readonly share: Share | undefined
  readonly era: 'modern' | 'legacy'
  readonly session: Session | undefined
  /** The parsed body of a POST. */
  readonly message: Message | undefined = undefined
  /** Tells whether the client is at another replica. */
  readonly isRemote: boolean
  readonly startedAt = performance.now()
  /** `performance.now()` when the caller became known; undefined if that took no token. */
  readonly admittedAt: number | undefined = undefined
  /** The name of the tool or prompt that is used, once it is known to exist. */
  readonly used: string | undefined = undefined
  /** The name of the backend that serves it, once that is known. */
  readonly backend: string | undefined = undefined
  /** The digest of the definition of the tool that is used, if its backend has pins. */
  readonly digest: string | undefined = undefined
  /** The id of the session that the request opens, listens in or ends. The session that it belongs to is `session`. */
  readonly sessionId: string | undefined = undefined
  /** Notified when the client disconnects before its answer is complete. */
  onGone: { gone(): void } | undefined
  #requestId: string | undefined
  #observation: Observation | undefined
  #log: Logger | undefined
  #bytes = 0
  #isOver = false

  /** Creates an exchange. `of`: the exchange that it is a part of, whose client, session and id it has. */
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

  /** Sets the caller; `share` is its share of memory. */
  admit(caller: Caller, binding: string, share: Share): this {
    const known = this as Known
    known.caller = caller
    known.binding = binding
    known.share = share
    if (caller.kind === 'authenticated') known.admittedAt = performance.now()
    return this
  }

  /** Replaces the caller by the result of the last check of its token. */
  renew(caller: Caller): void {
    const known = this as Known
    known.caller = caller
  }

  understand(message: Message): this & Understood {
    const known = this as Known
    known.message = message
    this.#observe(this.operationOf(message.method))
    if (this.#observation?.isTold === true || this.findsErrors)
      known.reply = findingErrorResult(this.reply, message.method)
    return this as this & Understood
  }

  /** Sets the client's era; until then it is legacy. */
  inEra(era: 'modern' | 'legacy'): this {
    const known = this as Known
    known.era = era
    return this
  }

  inSession(session: Session): this {
    const known = this as Known
    known.session = session
    return this
  }

  /** Reports the session that the request opens, listens in or ends to telemetry and audit. */
  tellSession(id: string): void {
    const known = this as Known
    known.sessionId = id
  }

  /** Reports the tool or prompt that is used, the backend and the tool's digest to telemetry and audit. */
  tellUse(name: string | undefined, backend = this.backend, digest: string | undefined = undefined): void {
    const known = this as Known
    known.used = name
    known.backend = backend
    known.digest = digest
  }

  /** Reserves this many bytes of the caller's share until the end of the request. Throws if the share is full. */
  hold(bytes: number): void {
    this.share?.take(bytes - this.#bytes)
    this.#bytes = bytes
  }

  /** Returns the number of held bytes and drops them. The caller of this method must release them. */
  handOver(): number {
    const bytes = this.#bytes
    this.#bytes = 0
    return bytes
  }

  protected release(): void {
    this.share?.release(this.#bytes)
    this.#bytes = 0
  }

  /** The client's request id if it is plain, else our own; used in the answer, log lines and events. */
  get requestId(): string {
    this.#requestId ??= requestIdOf(this.req.headers['x-request-id'])
    return this.#requestId
  }

  /** Opens the log that keeps the answer's stream for a client that loses it; undefined if none is kept. */
  openLog(): EventLog | undefined {
    const id = this.message?.id
    return this.session === undefined || id === undefined ? undefined : this.host.streams.open(this.session.record, id)
  }

  protected operationOf(method: string): Operation {
    return findOperation(method)
  }

  /** The telemetry of the request; undefined before it is understood, and after its end. */
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

  /** Drops the message except for its id, for requests that last long after it was understood. */
  forgetMessage(): void {
    const { id, method = '' } = this.message ?? {}
    // A slice keeps the whole text in memory: the id is copied out of it.
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

  /** Answers with a result that is already serialized. */
  resultBytes(json: Buffer): void {
    const head = Buffer.from(`{"jsonrpc":"2.0","id":${this.message?.id},"result":`)
    this.reply.pieces([head, json, CLOSING])
    this.ended(OK)
  }

  /** Accepts a notification, which has no answer. */
  accepted(): void {
    this.reply.empty(202)
    this.ended(OK)
  }

  /** Answers with the part of the error that a caller may see. */
  fail(thrown: unknown): void {
    const isPlain = thrown instanceof PublicError && thrown.cause === undefined
    const error = isPlain ? thrown : publicError(thrown, this.log)
    const { message } = this
    if (this.reply.begun && !this.reply.streaming) this.reply.abort()
    else this.reply.json(this.#statusOf(error), errorText(message?.id ?? readId(error), error), listHeaders(error))
    if (this.#observation === undefined) this.#observe(OTHER)
    const result = error.status === 401 || error.status === 403 ? 'denied' : 'error'
    this.ended({ result, code: error.code, rpcCode: errorTable[error.code].rpc })
  }

  /** A logger whose lines carry the ids of the request. */
  get log(): Logger {
    this.#log ??= this.host.log.child({
      requestId: this.requestId,
      ...traceIdOf(this.#observation?.trace?.traceparent),
    })
    return this.#log
  }

  /**
   * Clients of the legacy era treat every status other than 200 as a failure of the transport and read no body, so an
   * error in a request of a live session is sent with 200.
   */
  #statusOf(error: PublicError): number {
    const answersRequest = this.era === 'legacy' && this.session !== undefined && this.message?.id !== undefined
    return answersRequest && error.status < 500 && !TELLING.has(error.status) ? 200 : error.status
  }

  /** Tells whether the answer is a tool's error result, if anything records that. */
  get hasErrorResult(): boolean {
    return this.message !== undefined && isErrorResult(this.reply, this.message.method)
  }

  /** True if error results of tools must be detected even without telemetry and audit. */
  protected get findsErrors(): boolean {
    return false
  }

  protected counted?(outcome: Outcome): void

  ended(outcome: Outcome): void {
    this.onGone = undefined
    const { log } = this.host.audit
    if (log !== undefined && !this.#isOver && !this.isRemote) auditRequest(log, this, outcome)
    if (!this.#isOver) this.counted?.(outcome)
    this.#isOver = true
    this.#observation?.end(outcome.result === 'ok' && this.hasErrorResult ? FAILED_TOOL : outcome)
    this.#observation = undefined
    this.release()
  }
}

const ANONYMOUS: Caller = { kind: 'anonymous' }

const readId = (error: PublicError): string | undefined => (error instanceof InvalidRequest ? error.id : undefined)

const listHeaders = ({ headers }: PublicError): readonly string[] =>
  headers === undefined ? [] : Object.entries(headers).flat()

const CLOSING = Buffer.from('}')
/** Statuses that clients of both eras act on: they get another token, get another scope, or wait. */
const TELLING: ReadonlySet<number> = new Set([401, 403, 429])

export const OK: Outcome = { result: 'ok' }
const FAILED_TOOL: Outcome = { result: 'error', code: TOOL_ERROR }
