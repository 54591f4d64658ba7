import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { isObject } from '../../../../crds/settings/json.ts'
import { isLegacyRevision, isOldRevision, LEVELS, legacyRevisions } from '../../mcp/eras.ts'
import { memberText, parseBytes } from '../../mcp/json.ts'
import { FIRST_OWN_ID, notificationText, requestText } from '../../mcp/rpc-text.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import { IDENTITY, MOST_ANSWERS } from '../connection/http.ts'
import { type BackendAnswer, readResult, streamHeaders } from '../connection/request.ts'
import { isKnownBy, rateDoubt, type SessionState } from '../connection/session-check.ts'
import { isRefusal, readCapabilities, readInstructions } from './era.ts'
import type { TakeAnswer } from './late-answers.ts'
import { SessionInbox } from './session-inbox.ts'
import type { OwnPost, SessionPeer } from './session-peer.ts'
import { type Opened, SESSION_ID, type SessionKeeper, SharedSession } from './shared-session.ts'

/** The longest text of a backend in an error. */
const LONGEST_QUOTED = 64
/** The HTTP status of a session that is over (2025-11-25, session management). */
const NOT_FOUND = 404
/** The least time between two pings in one session, in milliseconds. */
const PING_PAUSE_MS = 1_000
const PING_MS = 5_000
export const SESSION_HEADER = 'mcp-session-id'
/**
 * The number of ranges of request ids, and the ids of a range. Each replica chooses a range at random in a session that
 * replicas may share.
 */
const ID_STARTS = 100_000
const IDS = 10_000

/**
 * A session with a legacy backend: for one client session, for one modern caller, or for the gateway itself. It is
 * opened when it is first needed, and again when the backend has lost it.
 */
export class BackendSession {
  readonly backend: SessionPeer
  opened: Opened | undefined
  /** The time of the last use in milliseconds since 1970, for sessions that end when idle. */
  usedAt = 0
  /** True once the backend has lost an earlier session. */
  isReplacement = false
  /** The number of requests in flight in a shared session. */
  users = 0
  #opening: Promise<Opened> | undefined
  #nextId = 0
  #headers: string[] = []
  #headersVersion = -1
  #closed = false
  /** The number of answers to requests of the backend that are on their way to it. */
  #answering = 0
  /** The lowest log level that was set in the open session. It applies to all requests that share the session. */
  #logLevel: string | undefined
  onOpened: (() => void) | undefined
  /**
   * The caller whose calls have this session to themselves, one at a time, with the capabilities declared for them;
   * undefined for other sessions.
   */
  reservedFor: string | undefined
  /** Receives the unsolicited messages of a session that a call has acquired. */
  onUnsolicited: ((bytes: Buffer) => void) | undefined
  /** The capabilities that are declared to the backend, as JSON text. */
  readonly #declared: string
  /** Receives the messages on the session's stream. */
  readonly inbox: SessionInbox
  readonly #shared: SharedSession
  #checking: Promise<SessionState> | undefined
  /** The time of the last ping in the open session (`performance.now()`), and its result. */
  #pingedAt = Number.NEGATIVE_INFINITY
  #pinged: SessionState = 'alive'
  /** The reason why no session could be opened in place of the lost one. */
  #unopened: BackendFailure | undefined

  constructor(backend: SessionPeer, keeper?: SessionKeeper, declared = '{}') {
    this.backend = backend
    this.#declared = declared
    this.#shared = new SharedSession(keeper, backend)
    this.inbox = new SessionInbox(this, keeper)
    // An answer may come by way of another replica, which has requests of its own in the session.
    if (keeper !== undefined) this.#nextId = IDS * randomInt(ID_STARTS)
  }

  /** Returns an id for one of the gateway's own requests, in a session in which a client chooses ids too. */
  ownId(): number {
    return FIRST_OWN_ID + ++this.#nextId
  }

  /** Returns an unused request id of this session, as JSON text. */
  nextId(): string {
    return String(++this.#nextId)
  }

  /** Opens the session if it is not open. Rejects with a BackendFailure; the next call tries again. */
  open(): Promise<Opened> {
    const opened = this.opened ?? this.adopt()
    if (opened !== undefined) return Promise.resolve(opened)
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  /** Takes over a session that another replica has opened, if any. */
  adopt(): Opened | undefined {
    return this.opened ?? this.#take(this.#shared.found())
  }

  /** Takes over the newest session of another replica, even in place of the open one. */
  renew(): Opened | undefined {
    return this.#take(this.#shared.newer())
  }

  #take(other: Opened | undefined): Opened | undefined {
    if (other === undefined) return this.opened
    this.opened = other
    this.#headers = []
    return other
  }

  /**
   * Stores the session id that an answer gives. Official clients send the newest one, and some servers change it with
   * each answer, or once after `initialize`.
   */
  takeId(opened: Opened, given: string | string[] | undefined): void {
    if (given === undefined || given === opened.sessionId) return
    if (typeof given !== 'string' || !SESSION_ID.test(given)) return
    opened.sessionId = given
    this.#headers = []
    if (this.opened === opened) this.#shared.tell(opened)
  }

  /**
   * Sends one of the gateway's own requests in the open session. `mayBeLate`: the answer may arrive on the session's
   * stream. Rejects with a BackendFailure.
   */
  post(
    body: string,
    options: { readonly headers?: string[]; readonly timeoutMs?: number; readonly mayBeLate?: boolean } = {},
  ): Promise<BackendAnswer> {
    const { mayBeLate, headers = this.headers(), ...others } = options
    const opened = this.opened as Opened
    return this.backend.post({
      ...others,
      headers,
      body,
      isInSession: true,
      onHead: (head) => this.takeId(opened, head[SESSION_HEADER]),
      // A request that the backend sends during the gateway's own request concerns no client.
      onRequest: (id, bytes) => {
        this.#checkFlood()
        this.answer(methodOf(bytes), id)
      },
      ...(mayBeLate === true ? { onAccepted: (take) => this.awaitAnswer(memberText(body, 'id') ?? '', take) } : {}),
    })
  }

  /**
   * Waits for the answer to a request (`id`: JSON text) that the backend has only accepted. Returns how to stop waiting;
   * undefined if none can come.
   */
  awaitAnswer(id: string, take: TakeAnswer): (() => void) | undefined {
    return this.opened === undefined || this.#closed ? undefined : this.inbox.await(id, take)
  }

  /** Forgets a session that the backend no longer knows. */
  invalidate(opened: Opened): void {
    if (this.opened !== opened) return
    this.opened = undefined
    this.isReplacement = true
    this.#shared.lose()
  }

  /**
   * Checks whether the backend still knows the session `opened`, in which a request has failed. Returns undefined if the
   * failure says nothing of that.
   */
  checkAfter(
    failure: BackendFailure,
    { opened, isRepeatable }: { readonly opened: Opened; readonly isRepeatable: boolean },
  ): Promise<SessionState> | undefined {
    const doubt = rateDoubt(failure, isRepeatable)
    if (doubt === 'none' || (opened.sessionId === undefined && doubt !== 'unread')) return undefined
    return this.check(opened, doubt !== 'some')
  }

  /**
   * Checks by a ping whether the backend still knows this session, in which a request has failed, and opens a new
   * session if the ping fails. Never rejects. `opened` is the session in which the request was sent. There is at most
   * one ping a second; until the next one the last result counts. With `isDoubtful` it waits for the next ping, because
   * the session may have ended after the last.
   */
  async check(opened: Opened, isDoubtful = false): Promise<SessionState> {
    if (this.#closed || (opened.sessionId === undefined && !isDoubtful)) return 'alive'
    if ((this.renew() ?? opened) !== opened) return 'renewed'
    const last = this.#pingedAt
    const rest = last + PING_PAUSE_MS - performance.now()
    if (this.#checking === undefined && rest > 0) {
      if (!isDoubtful || this.#pinged !== 'alive') return this.#pinged
      await delay(rest)
      return this.check(opened, this.#pingedAt === last)
    }
    this.#checking ??= this.#check(opened).finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  /** True within a second of the last ping. */
  get wasPinged(): boolean {
    return performance.now() - this.#pingedAt < PING_PAUSE_MS
  }

  async #check(opened: Opened): Promise<SessionState> {
    this.#pingedAt = performance.now()
    this.#pinged = await this.#found(opened)
    // The new session has not been pinged.
    if (this.#pinged === 'renewed') this.#pingedAt = Number.NEGATIVE_INFINITY
    return this.#pinged
  }

  async #found(opened: Opened): Promise<SessionState> {
    if (opened.sessionId !== undefined) return (await this.#isKnown()) ? 'alive' : this.#replace(opened)
    // A server that had no session ids and refuses a request unprocessed may require one now.
    return (await this.#replace(opened)) === 'renewed' && this.opened?.sessionId !== undefined ? 'renewed' : 'alive'
  }

  async #isKnown(): Promise<boolean> {
    const timeoutMs = Math.min(PING_MS, this.backend.tryTimeoutMs)
    try {
      return isKnownBy(await this.post(requestText(this.ownId(), 'ping', {}), { timeoutMs }))
    } catch {
      return false
    }
  }

  /** True if the backend has refused to open a session in place of the lost one. */
  get isRefused(): boolean {
    return this.#unopened !== undefined && isRefusal(this.#unopened)
  }

  /** Returns the failure to report for a request in a lost session. A 404 itself only says that the session is lost. */
  reasonFor(failure: BackendFailure): BackendFailure {
    return failure.status === NOT_FOUND ? (this.#unopened ?? failure) : failure
  }

  /** Opens a session in place of the one that the backend has lost. If that fails, the lost one stays. */
  async #replace(opened: Opened): Promise<SessionState> {
    const undo = this.#shared.lose()
    this.isReplacement = true
    try {
      this.#opening ??= this.#open().finally(() => {
        this.#opening = undefined
      })
      await this.#opening
    } catch (error) {
      this.#unopened = connectionFailure(error)
      undo()
      return 'lost'
    }
    this.#unopened = undefined
    if (this.backend.hasStreamSessions === true) this.#end(opened)
    this.inbox.renew()
    return 'renewed'
  }

  /** Returns the headers of a request in this session as a new flat list. */
  headers(): string[] {
    const { backend, opened } = this
    const configured = backend.headers.current()
    if (this.#headersVersion !== configured.version || this.#headers.length === 0) {
      this.#headersVersion = configured.version
      this.#headers = [...postHeaders(opened as Opened), ...configured.list]
    }
    return this.#headers.slice()
  }

  /** Returns the headers of a stream's GET in this session. With `after`, it continues after the event with this id. */
  streamHeaders(after?: string): string[] {
    return streamHeaders(this.headers(), after)
  }

  async #open(): Promise<Opened> {
    const { backend } = this
    const { remembered } = this.#shared
    this.#logLevel = undefined
    let sessionId: string | undefined
    const isTry = backend.isModern
    const answer = await backend.post({
      // A request that waits for this attempt, which may fail, needs time for the call itself.
      ...(isTry ? { timeoutMs: backend.tryTimeoutMs } : {}),
      headers: [...BASE_HEADERS, ...backend.headers.current().list],
      body: requestText(this.ownId(), 'initialize', {
        protocolVersion: INITIAL,
        capabilities: JSON.parse(this.#declared) as object,
        clientInfo: backend.client,
      }),
      onHead(headers) {
        const header = headers[SESSION_HEADER]
        // An empty header counts as absent.
        if (typeof header === 'string' && header !== '') sessionId = header
      },
      onRequest: (id, bytes) => {
        this.#checkFlood()
        this.#respond({ sessionId, revision: INITIAL, capabilities: {} }, answerText(methodOf(bytes), id))
      },
    })
    const result = readResult(answer)
    if (sessionId !== undefined && !SESSION_ID.test(sessionId))
      throw new BackendFailure('backend_failed', 'gave a session id that is not allowed in a header')
    const revision = readRevision(result, answer.status)
    // A server without session ids keeps no state of a client and can't send it requests, so the modern era is
    // sufficient.
    if (isTry && sessionId === undefined)
      throw new BackendFailure('backend_failed', 'keeps no sessions', { status: answer.status })
    const opened: Opened = {
      sessionId,
      revision,
      capabilities: readCapabilities(result, backend.capabilitiesFor(this)),
    }
    if (!isTry) backend.instructed(readInstructions(result))
    await this.#notify(opened, notificationText('notifications/initialized'))
    const inForce = await this.#shared.settle(opened, remembered)
    if (inForce !== opened) this.#end(opened)
    if (inForce === undefined) throw new BackendFailure('backend_unavailable', 'the client’s session has ended')
    this.opened = inForce
    this.#headers = []
    if (this.#closed) this.close()
    else this.onOpened?.()
    return this.opened ?? opened
  }

  async #notify(opened: Opened, body: string): Promise<void> {
    const headers = [...postHeaders(opened), ...this.backend.headers.current().list]
    const onHead: OwnPost['onHead'] = (head) => this.takeId(opened, head[SESSION_HEADER])
    await this.backend.post({ headers, body, isAnswerless: true, onHead })
  }

  /** Sends a message that needs no answer and may be lost. */
  send(body: string): void {
    if (this.opened !== undefined)
      this.#notify(this.opened, body).catch(() => {
        // The caller accepts the loss. If the backend can't be reached, requests of the session report it.
      })
  }

  /**
   * Lowers the log level for one of the requests that share this session. Returns the promise that the request must
   * await; undefined if the level is low enough or the backend has no log messages.
   */
  lowerLogLevel(level: string): Promise<unknown> | undefined {
    const { opened } = this
    const isEnough = this.#logLevel !== undefined && LEVELS.indexOf(level) >= LEVELS.indexOf(this.#logLevel)
    if (isEnough || !LEVELS.includes(level) || !isObject(opened?.capabilities['logging'])) return undefined
    this.#logLevel = level
    const body = requestText(this.ownId(), 'logging/setLevel', { level })
    return this.post(body).catch(() => {
      // The request is sent anyway. It may get fewer log messages than it asked for.
    })
  }

  /** Sets the lowest level of the backend's log messages, if it has any. */
  setLogLevel(level: string): void {
    if (!isObject(this.opened?.capabilities['logging'])) return
    this.send(requestText(this.ownId(), 'logging/setLevel', { level }))
  }

  /** Subscribes to a resource again, for a client that was subscribed in the lost session. */
  resubscribe(uri: string): void {
    this.send(requestText(this.ownId(), 'resources/subscribe', { uri }))
  }

  /** The failure of a backend that sends more requests than it takes answers, while it does; else undefined. */
  get flood(): BackendFailure | undefined {
    if (this.#answering < MOST_ANSWERS) return undefined
    return new BackendFailure('backend_failed', 'sends more requests than it takes answers')
  }

  /** Throws the failure if there is one. */
  #checkFlood(): void {
    const { flood } = this
    if (flood !== undefined) throw flood
  }

  /** Sends an answer to a request of the backend. If it is lost, a backend that needs it does not continue either. */
  #respond(opened: Opened, body: string): void {
    this.#answering++
    this.#notify(opened, body)
      .finally(() => {
        this.#answering--
      })
      .catch(() => {
        // The backend needs the answer more than the gateway does.
      })
  }

  /** Answers a request of the backend that goes to no client. `id` is JSON text, `method` any JSON value. */
  answer(method: unknown, id: string): void {
    if (this.opened !== undefined) this.#respond(this.opened, answerText(method, id))
  }

  /** Answers a request of the backend (`id`: JSON text) with an error because it can't go to the client now. */
  refuse(id: string, message: string): void {
    const body = `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code: -32603, message })}}`
    if (this.opened !== undefined) this.#respond(this.opened, body)
  }

  /** Leaves the session without ending it: another replica continues it. */
  leave(): void {
    this.inbox.close()
    this.#closed = true
    this.opened = undefined
  }

  /** Ends the session at the backend, if there is one. */
  close(): void {
    this.inbox.close()
    this.#closed = true
    if (this.opened !== undefined) this.#end(this.opened)
    this.opened = undefined
  }

  #end({ sessionId, revision }: Opened): void {
    if (sessionId === undefined) return
    const headers = ['mcp-session-id', sessionId, 'mcp-protocol-version', revision]
    try {
      headers.push(...this.backend.headers.current().list)
    } catch {
      return
    }
    // A backend may refuse this (405). It then ends the session by its own timeout.
    this.backend.end(headers)
  }
}

/**
 * Returns the protocol revision that the backend has chosen. Throws a BackendFailure if the gateway does not support
 * it.
 */
function readRevision({ protocolVersion }: Readonly<Record<string, unknown>>, status: number): string {
  if (typeof protocolVersion !== 'string')
    throw new BackendFailure('backend_failed', `chose protocol revision ${typeof protocolVersion}`, { status })
  if (isLegacyRevision(protocolVersion) || isOldRevision(protocolVersion)) return protocolVersion
  const quoted = JSON.stringify(protocolVersion.slice(0, LONGEST_QUOTED))
  throw new BackendFailure('backend_failed', `chose protocol revision ${quoted}`, { status })
}

/** The revision that `initialize` asks for. */
const INITIAL = legacyRevisions[0] as string

/** Returns the method of a message, which is any JSON. */
function methodOf(bytes: Buffer): unknown {
  const message = parseBytes(bytes)
  return isObject(message) ? message['method'] : undefined
}

/** Builds the answer to a request of the backend (`id`: JSON text) that goes to no client. */
const answerText = (method: unknown, id: string): string =>
  `{"jsonrpc":"2.0","id":${id},${method === 'ping' ? '"result":{}' : NOBODY}}`

const NOBODY = '"error":{"code":-32601,"message":"The client behind this gateway takes no requests."}'

const BASE_HEADERS = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream', ...IDENTITY]

function postHeaders({ sessionId, revision }: Opened): string[] {
  const headers = [...BASE_HEADERS, 'mcp-protocol-version', revision]
  if (sessionId !== undefined) headers.push('mcp-session-id', sessionId)
  return headers
}
