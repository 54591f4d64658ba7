import { isObject } from '../../../../crds/shared/json.ts'
import { LEVELS } from '../../mcp/log-levels.ts'
import { isLegacyRevision, isOldRevision, legacyRevisions } from '../../mcp/revisions.ts'
import { notificationText, requestText } from '../../mcp/rpc-text.ts'
import { BackendFailure } from '../connection/failure.ts'
import { resultOf } from '../connection/result-of.ts'
import { streamHeaders } from '../connection/resumption.ts'
import { capabilitiesIn, instructionsIn } from '../connection/self-description.ts'
import { keptLink, keptText, SESSION_ID } from './kept-link.ts'
import { LinkStream } from './link-stream.ts'
import type { Opened } from './opened.ts'
import type { SessionPeer } from './session-peer.ts'

/**
 * Remembers a session with a backend for all replicas that serve the client's session. The text is what `open` has
 * made; `claim` gives the text that is in force, undefined where the client's session has ended.
 */
export interface LinkKeeper {
  recall(): string | undefined
  claim(expected: string | undefined, value: string): string | undefined | Promise<string | undefined>
}

/** Of what a backend has said, in an error. */
const LONGEST_TOLD = 64

/**
 * One session with a legacy backend: of one gateway session, of one caller of the modern era, or of the gateway
 * itself. Opened when it is first needed; opened anew when the backend has lost it.
 */
export class Link {
  readonly backend: SessionPeer
  opened: Opened | undefined
  /** Milliseconds since 1970 of the last use, for links that end when they are idle. */
  usedAt = 0
  /** Requests under way in a session that is shared. */
  users = 0
  #opening: Promise<Opened> | undefined
  #nextId = 0
  #headers: string[] = []
  #headersVersion = -1
  #closed = false
  /** The lowest level of log messages that was asked for in the open session, of those who share it. */
  #logLevel: string | undefined
  /** Told when the session has been opened here. */
  onOpened: (() => void) | undefined
  /** Whose calls borrow this session, one after the other, and what was declared for them. */
  lentTo: string | undefined
  /** Takes what is heard in a session that is lent. */
  heard: ((bytes: Buffer) => void) | undefined
  /** What the backend is told that the client can do, as JSON text. */
  readonly #declared: string
  #stream: LinkStream | undefined
  #awaited: Promise<void> | undefined
  readonly #keeper: LinkKeeper | undefined
  /** How the open session is remembered, and the last one that the backend has lost. */
  #kept: string | undefined
  #lost: string | undefined

  constructor(backend: SessionPeer, keeper?: LinkKeeper, declared = '{}') {
    this.backend = backend
    this.#declared = declared
    this.#keeper = keeper
  }

  /** An id that is free on this link, as JSON text. */
  nextId(): string {
    return String(++this.#nextId)
  }

  /** Opens the session where it isn't open. Rejects with a BackendFailure; the next call tries again. */
  open(): Promise<Opened> {
    const opened = this.opened ?? this.adopt()
    if (opened !== undefined) return Promise.resolve(opened)
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  /** Goes on with a session that another replica has opened, where there is one. */
  adopt(): Opened | undefined {
    const kept = this.#keeper?.recall()
    if (this.opened === undefined && kept !== undefined && kept !== this.#lost) this.#take(kept)
    return this.opened
  }

  /** The same, also where another replica has opened a newer one since. */
  renew(): Opened | undefined {
    const kept = this.#keeper?.recall()
    if (kept !== undefined && kept !== this.#kept && kept !== this.#lost) this.#take(kept)
    return this.opened
  }

  #take(kept: string): void {
    this.opened = keptLink(kept, this.backend.url.href) ?? this.opened
    this.#kept = kept
    this.#headers = []
  }

  /** Forgets a session that the backend no longer knows. */
  lose(opened: Opened): void {
    if (this.opened !== opened) return
    this.opened = undefined
    this.#lost = this.#kept
  }

  /** Headers of a request in this session, as a flat list of its own. */
  headers(): string[] {
    const { backend, opened } = this
    const configured = backend.headers.current()
    if (this.#headersVersion !== configured.version || this.#headers.length === 0) {
      this.#headersVersion = configured.version
      this.#headers = [...postHeaders(opened as Opened), ...configured.list]
    }
    return this.#headers.slice()
  }

  /** Headers of the GET of a stream in this session; with `after`, of one that goes on behind the event of this id. */
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
      // Who waits for a try that fails is still to have time for the call itself.
      ...(isTry ? { timeoutMs: backend.tryTimeoutMs } : {}),
      headers: [...BASE_HEADERS, ...backend.headers.current().list],
      body: requestText('portico-initialize', 'initialize', {
        protocolVersion: legacyRevisions[0],
        capabilities: JSON.parse(this.#declared) as object,
        clientInfo: backend.client,
      }),
      onHead(headers) {
        const header = headers['mcp-session-id']
        if (typeof header === 'string') sessionId = header
      },
    })
    const result = resultOf(answer.status, answer.text)
    const revision = result['protocolVersion']
    if (sessionId !== undefined && !SESSION_ID.test(sessionId))
      throw new BackendFailure('backend_failed', 'gave a session id that can’t stand in a header')
    if (typeof revision !== 'string' || !(isLegacyRevision(revision) || isOldRevision(revision)))
      throw new BackendFailure(
        'backend_failed',
        `chose protocol revision ${typeof revision === 'string' ? JSON.stringify(revision.slice(0, LONGEST_TOLD)) : typeof revision}`,
        { status: answer.status },
      )
    // Such a server remembers nothing of a client and can ask it nothing; in the stateless era that takes no session.
    if (isTry && sessionId === undefined)
      throw new BackendFailure('backend_failed', 'keeps no sessions', { status: answer.status })
    const opened: Opened = {
      sessionId,
      revision,
      capabilities: capabilitiesIn(result, backend.capabilitiesFor(this)),
    }
    if (!isTry) backend.instructions = instructionsIn(result)
    await this.#notify(opened, notificationText('notifications/initialized'))
    if (this.#keeper === undefined || !(await this.#isOthers(opened, remembered))) this.opened = opened
    this.#headers = []
    if (this.#closed) this.close()
    else this.onOpened?.()
    return this.opened ?? opened
  }

  /** Whether another replica was faster to open a session for the same client: then that one is used and ours ends. */
  async #isOthers(opened: Opened, remembered: string | undefined): Promise<boolean> {
    const ours = keptText(opened, this.backend.url.href)
    const keeper = this.#keeper as LinkKeeper
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
    await this.backend.post({ headers, body, isAnswerless: true })
  }

  /** Sends a message that needs no answer; what goes wrong is of no consequence. */
  send(body: string): void {
    if (this.opened !== undefined) this.#notify(this.opened, body).catch(() => {})
  }

  /** Hears what the backend says in this session outside of any request, from now on or from its opening on. */
  hear(onMessage: (bytes: Buffer) => void): void {
    this.#stream ??= new LinkStream(this, onMessage)
    this.#stream.keep()
  }

  /** What a call has to wait for before it goes out in this session. */
  get beginning(): Promise<void> | undefined {
    return this.#stream?.beginning ?? this.#awaited
  }

  /** Lets calls wait for this as well; it never rejects. */
  waitFor(awaited: Promise<void>): void {
    const waiting = awaited.finally(() => {
      if (this.#awaited === waiting) this.#awaited = undefined
    })
    this.#awaited = waiting
  }

  /** Hears it no longer. */
  unhear(): void {
    this.#stream?.stop()
    this.#stream = undefined
  }

  /**
   * What has to be waited for until the backend gives log messages from this level on to one of those who share this
   * session: undefined where it does so already, or has none.
   */
  lowerLogLevel(level: string): Promise<unknown> | undefined {
    const { backend, opened } = this
    const isEnough = this.#logLevel !== undefined && LEVELS.indexOf(level) >= LEVELS.indexOf(this.#logLevel)
    if (isEnough || !LEVELS.includes(level) || !isObject(opened?.capabilities['logging'])) return undefined
    this.#logLevel = level
    const body = requestText(`portico-level-${this.nextId()}`, 'logging/setLevel', { level })
    return backend.post({ headers: this.headers(), body, isInSession: true }).catch(() => {})
  }

  /** Tells the backend from which level on its log messages are wanted, where it has any. */
  setLogLevel(level: string): void {
    if (!isObject(this.opened?.capabilities['logging'])) return
    this.send(requestText(`portico-level-${this.nextId()}`, 'logging/setLevel', { level }))
  }

  /**
   * Answers what the backend asks; `id` is JSON text, `method` any JSON value. Nothing is asked of the client: the backend is told so at once
   * and never waits.
   */
  answer(method: unknown, id: string): void {
    const answer = method === 'ping' ? '"result":{}' : NOBODY
    this.send(`{"jsonrpc":"2.0","id":${id},${answer}}`)
  }

  /** Answers what the backend asks (`id`: JSON text) with an error: the client could be asked, but not now. */
  refuse(id: string, message: string): void {
    this.send(`{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code: -32603, message })}}`)
  }

  /** Lets go of the session without ending it: another replica goes on with it. */
  leave(): void {
    this.unhear()
    this.#closed = true
    this.opened = undefined
  }

  /** Ends the session at the backend, where there is one. */
  close(): void {
    this.unhear()
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
    // A backend may refuse to end sessions (405); it then ends them by itself.
    this.backend.end(headers)
  }
}

const NOBODY = '"error":{"code":-32601,"message":"The client behind this gateway takes no requests."}'

const BASE_HEADERS = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream']

function postHeaders({ sessionId, revision }: Opened): string[] {
  const headers = [...BASE_HEADERS, 'mcp-protocol-version', revision]
  if (sessionId !== undefined) headers.push('mcp-session-id', sessionId)
  return headers
}
