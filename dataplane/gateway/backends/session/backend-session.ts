import { setTimeout as delay } from 'node:timers/promises'
import { isObject } from '../../../../crds/settings/json.ts'
import { sameId } from '../../mcp/answer-scanner.ts'
import { memberText } from '../../mcp/json.ts'
import { LEVELS } from '../../mcp/log-levels.ts'
import { isId } from '../../mcp/message.ts'
import { parseBytes } from '../../mcp/parse.ts'
import { isLegacyRevision, isOldRevision, legacyRevisions } from '../../mcp/revisions.ts'
import { FIRST_OWN_ID, notificationText, requestText } from '../../mcp/rpc-text.ts'
import { IDENTITY } from '../connection/answer-head.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import type { BackendAnswer } from '../connection/request.ts'
import { resultOf, streamHeaders } from '../connection/request.ts'
import { isKnownBy, type SessionState } from '../connection/session-check.ts'
import { BackendSessionStream } from './backend-session-stream.ts'
import { capabilitiesIn, instructionsIn, isRefusal } from './era.ts'
import { type Opened, parseSharedSession, SESSION_ID, sharedSessionText } from './opened-session.ts'
import type { OwnPost, SessionPeer } from './session-peer.ts'

/**
 * Shares a session with a backend between the replicas that serve the client's session. `value` describes the session
 * that `open` has opened. `claim` returns the description in force, or undefined if the client's session has ended.
 */
export interface SessionKeeper {
  recall(): string | undefined
  claim(expected: string | undefined, value: string): string | undefined | Promise<string | undefined>
}

/** The longest text of a backend in an error. */
const LONGEST_QUOTED = 64
/** The HTTP status of a session that is over (2025-11-25, session management). */
const NOT_FOUND = 404
/** The least time between two pings in one session, in milliseconds. */
const PING_PAUSE_MS = 1_000
/** The timeout of a ping. */
const PING_MS = 5_000
/** The header of a session's id. */
export const SESSION_HEADER = 'mcp-session-id'
/** The most answers that are kept because they arrived before the backend accepted their requests, and their bytes. */
const MOST_EARLY = 4
const LARGEST_EARLY = 64 * 1024

/** Receives the answer to a request that the backend has only accepted; undefined if none can come. */
type TakeAnswer = (answer: Buffer | undefined) => void

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
  /** The lowest log level that was set in the open session. It applies to all requests that share the session. */
  #logLevel: string | undefined
  /** Called when the session has been opened here. */
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
  #stream: BackendSessionStream | undefined
  #onMessage: ((bytes: Buffer) => void) | undefined
  /** The requests whose answers should arrive on the stream, by their ids (JSON text). */
  readonly #accepted = new Map<string, TakeAnswer>()
  /** The answers on the stream for which no request waits yet, by their ids (JSON text). */
  readonly #early = new Map<string, Buffer>()
  #awaited: Promise<void> | undefined
  readonly #keeper: SessionKeeper | undefined
  #checking: Promise<SessionState> | undefined
  /** The time of the last ping in the open session (`performance.now()`), and its result. */
  #pingedAt = Number.NEGATIVE_INFINITY
  #pinged: SessionState = 'alive'
  /** The reason why no session could be opened in place of the lost one. */
  #unopened: BackendFailure | undefined
  #isSharing = false
  /** The shared descriptions of the open session, and of the last session that the backend has lost. */
  #kept: string | undefined
  #lost: string | undefined

  constructor(backend: SessionPeer, keeper?: SessionKeeper, declared = '{}') {
    this.backend = backend
    this.#declared = declared
    this.#keeper = keeper
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
    const kept = this.#keeper?.recall()
    if (this.opened === undefined && kept !== undefined && kept !== this.#lost) this.#take(kept)
    return this.opened
  }

  /** Takes over the newest session of another replica, even in place of the open one. */
  renew(): Opened | undefined {
    const kept = this.#keeper?.recall()
    if (kept !== undefined && kept !== this.#kept && kept !== this.#lost) this.#take(kept)
    return this.opened
  }

  #take(kept: string): void {
    this.opened = parseSharedSession(kept, this.backend.url.href) ?? this.opened
    this.#kept = kept
    this.#headers = []
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
    if (this.#keeper !== undefined && this.opened === opened)
      this.#share(opened, this.#keeper).catch((error) =>
        this.backend.log.debug({ err: error }, 'the new id of a session is not shared'),
      )
  }

  /** Shares the newest id of a session. One claim runs at a time, because each must name the previous description. */
  async #share(opened: Opened, keeper: SessionKeeper): Promise<void> {
    if (this.#isSharing) return
    this.#isSharing = true
    try {
      let text = sharedSessionText(opened, this.backend.url.href)
      while (text !== this.#kept && (await keeper.claim(this.#kept, text)) === text) {
        this.#kept = text
        text = sharedSessionText(opened, this.backend.url.href)
      }
    } finally {
      this.#isSharing = false
    }
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
      onRequest: (id, bytes) => this.#answerOwn(id, bytes),
      ...(mayBeLate === true
        ? { onAccepted: (take) => this.awaitAnswer(memberText(body, 'id') ?? '', take) !== undefined }
        : {}),
    })
  }

  /** Answers a request that the backend sends during the gateway's own request, which concerns no client. */
  #answerOwn(id: string, bytes: Buffer): void {
    const message = parseBytes(bytes)
    this.answer(isObject(message) ? message['method'] : undefined, id)
  }

  /**
   * Waits for the answer to a request (`id`: JSON text) that the backend has only accepted. Some servers then send the
   * answer on the session's stream, and official clients accept it there. Returns the function that ends the wait;
   * undefined if the session has no stream.
   */
  awaitAnswer(id: string, take: TakeAnswer): (() => void) | undefined {
    if (this.opened === undefined || this.#closed) return undefined
    for (const [early, answer] of this.#early)
      if (sameId(early, id)) {
        this.#early.delete(early)
        setImmediate(take, answer)
        return () => undefined
      }
    const stream = this.#keepStream()
    if (stream.isRefused) return undefined
    this.#accepted.set(id, take)
    stream.subscribing
      ?.then(() => {
        if (stream.isRefused && this.#accepted.delete(id)) take(undefined)
      })
      .catch((error) => this.backend.log.error({ err: error }, 'a late answer could not be processed'))
    return () => this.#accepted.delete(id)
  }

  /** Opens the stream before a call if this backend answers on streams. */
  listen(): void {
    if (this.backend.answersOnStreams && this.#stream === undefined && this.opened !== undefined) this.#keepStream()
  }

  #keepStream(): BackendSessionStream {
    this.#stream ??= new BackendSessionStream(this, (bytes) => this.#received(bytes))
    this.#stream.keep()
    return this.#stream
  }

  /** Handles a message on the stream: an answer that a request waits for, or a message for the subscriber. */
  #received(bytes: Buffer): void {
    const message = bytes.includes(METHOD) ? undefined : parseBytes(bytes)
    if (!isObject(message) || !isId(message['id']) || message['method'] !== undefined) {
      this.#onMessage?.(bytes)
      return
    }
    const id = JSON.stringify(message['id'])
    for (const [sent, take] of this.#accepted)
      if (sameId(id, sent)) {
        this.backend.answersOnStreams = true
        this.#accepted.delete(sent)
        take(bytes)
        return
      }
    if (bytes.length > LARGEST_EARLY) return
    const [oldest] = this.#early.keys()
    if (oldest !== undefined && this.#early.size >= MOST_EARLY) this.#early.delete(oldest)
    this.#early.set(id, bytes)
  }

  /** Forgets a session that the backend no longer knows. */
  invalidate(opened: Opened): void {
    if (this.opened !== opened) return
    this.opened = undefined
    this.isReplacement = true
    this.#lost = this.#kept
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
    const before = this.#lost
    this.#lost = this.#kept
    this.isReplacement = true
    try {
      this.#opening ??= this.#open().finally(() => {
        this.#opening = undefined
      })
      await this.#opening
    } catch (error) {
      this.#unopened = connectionFailure(error)
      this.#lost = before
      return 'lost'
    }
    this.#unopened = undefined
    this.#early.clear()
    if (this.backend.hasStreamSessions === true) this.#end(opened)
    this.#stream?.keep()
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
    const remembered = this.#keeper?.recall()
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
        const message = parseBytes(bytes)
        const method = isObject(message) ? message['method'] : undefined
        this.#notify({ sessionId, revision: INITIAL, capabilities: {} }, answerText(method, id)).catch(() => {
          // If the response is lost, a backend that needs it does not answer `initialize` either.
        })
      },
    })
    const result = resultOf(answer)
    if (sessionId !== undefined && !SESSION_ID.test(sessionId))
      throw new BackendFailure('backend_failed', 'gave a session id that can’t stand in a header')
    const revision = revisionIn(result, answer.status)
    // A server without session ids keeps no state of a client and can't send it requests, so the modern era is
    // sufficient.
    if (isTry && sessionId === undefined)
      throw new BackendFailure('backend_failed', 'keeps no sessions', { status: answer.status })
    const opened: Opened = {
      sessionId,
      revision,
      capabilities: capabilitiesIn(result, backend.capabilitiesFor(this)),
    }
    if (!isTry) backend.instructed(instructionsIn(result))
    await this.#notify(opened, notificationText('notifications/initialized'))
    if (this.#keeper === undefined || !(await this.#isOthers(opened, remembered))) this.opened = opened
    this.#headers = []
    if (this.#closed) this.close()
    else this.onOpened?.()
    return this.opened ?? opened
  }

  /**
   * Tells whether another replica has opened a session for the same client first. That session is then used, and this
   * one ends.
   */
  async #isOthers(opened: Opened, remembered: string | undefined): Promise<boolean> {
    const ours = sharedSessionText(opened, this.backend.url.href)
    const keeper = this.#keeper as SessionKeeper
    const inForce = await keeper.claim(remembered, ours)
    this.#kept = ours
    if (inForce === ours) return false
    this.#end(opened)
    if (inForce === undefined) throw new BackendFailure('backend_unavailable', 'the client’s session has ended')
    this.#take(inForce)
    return this.opened !== undefined
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

  /** Subscribes to the backend's unsolicited messages in this session, now or when it opens. */
  subscribe(onMessage: (bytes: Buffer) => void): void {
    this.#onMessage ??= onMessage
    this.#keepStream()
  }

  /** The promise that calls must await before they are sent in this session. */
  get subscribing(): Promise<void> | undefined {
    return this.#stream?.subscribing ?? this.#awaited
  }

  /** Makes calls wait for this promise, too. It must never reject. */
  waitFor(awaited: Promise<void>): void {
    const waiting = awaited.finally(() => {
      if (this.#awaited === waiting) this.#awaited = undefined
    })
    this.#awaited = waiting
  }

  unsubscribe(): void {
    this.#stream?.stop()
    this.#stream = undefined
    this.#onMessage = undefined
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

  /** Answers a request of the backend that goes to no client. `id` is JSON text, `method` any JSON value. */
  answer(method: unknown, id: string): void {
    this.send(answerText(method, id))
  }

  /** Answers a request of the backend (`id`: JSON text) with an error because it can't go to the client now. */
  refuse(id: string, message: string): void {
    this.send(`{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code: -32603, message })}}`)
  }

  /** Leaves the session without ending it: another replica continues it. */
  leave(): void {
    this.unsubscribe()
    this.#closed = true
    this.opened = undefined
  }

  /** Ends the session at the backend, if there is one. */
  close(): void {
    this.unsubscribe()
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
function revisionIn({ protocolVersion }: Readonly<Record<string, unknown>>, status: number): string {
  if (typeof protocolVersion !== 'string')
    throw new BackendFailure('backend_failed', `chose protocol revision ${typeof protocolVersion}`, { status })
  if (isLegacyRevision(protocolVersion) || isOldRevision(protocolVersion)) return protocolVersion
  const quoted = JSON.stringify(protocolVersion.slice(0, LONGEST_QUOTED))
  throw new BackendFailure('backend_failed', `chose protocol revision ${quoted}`, { status })
}

/** The revision that `initialize` asks for. */
const INITIAL = legacyRevisions[0] as string
const METHOD = Buffer.from('"method"')

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
