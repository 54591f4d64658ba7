import { randomBytes } from 'node:crypto'
import type { Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import { sameBinding } from './binding.ts'
import {
  PendingServerRequests,
  replicaOf,
  type SendMessage,
  type ServerRequestOptions,
  sendServerRequest,
} from './pending-server-requests.ts'
import { ServerMessages, type ServerMessagesOptions, STREAM, type SubscribedSessions } from './server-messages.ts'
import { type ClientStream, type NoteKeeper, Session } from './session.ts'
import { copySessions, settleSessions } from './storage-move.ts'
import type { SessionStorage } from './store/storage.ts'
import type { SessionRecord } from './store/store.ts'

export { type ClientStream, Session } from './session.ts'

interface SessionsOptions extends ServerMessagesOptions {
  readonly storage: SessionStorage
  /** A client has cancelled a request (its id is JSON text) that another replica did not find; it may run here. */
  onCancelled(session: Session, request: string): void
  /** A session (its id) is no longer here; `isExpired`: since nobody used it, or for want of room. */
  onEnded(session: string, isExpired: boolean): void
}

const ID_BYTES = 24
const LOCAL = 'here'
/** The sessions of legacy clients. */
export class Sessions implements NoteKeeper, SubscribedSessions {
  /** Unsolicited messages of backends. */
  readonly serverMessages: ServerMessages
  readonly #options: SessionsOptions
  readonly #live = new Map<string, Session>()
  #storage: SessionStorage
  readonly #requests = new PendingServerRequests(LOCAL)
  readonly #unwatched = new Unwatched()

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#storage = options.storage
    this.serverMessages = new ServerMessages(this, options)
    this.#followStorage(options.storage)
  }

  get #store() {
    return this.#storage.store
  }
  get count(): number {
    return this.#store.size
  }

  get provider(): 'memory' | 'redis' {
    return this.#store.provider
  }

  /**
   * Opens a session, which is counted in the caller's share. Throws where that or all of them have too much, and
   * `unavailable` where the store is away.
   */
  open(fields: Omit<SessionRecord, 'id' | 'notes'>, share?: Share): Session | Promise<Session> {
    const record: SessionRecord = { id: randomBytes(ID_BYTES).toString('base64url'), ...fields }
    const session = this.#keep(record, share)
    const added = this.#store.add(record)
    return added === undefined ? session : added.then(() => session, this.#giveUp(record.id))
  }

  /** Lets go of a session that the store has not taken. */
  readonly #giveUp = (id: string) => (error: unknown) => {
    this.#drop(id, true)
    throw error
  }

  /**
   * The caller's session of this id. Throws `session_unknown` where there is none, and the very same where it is
   * somebody else's.
   */
  find(id: string, binding: string, share?: Share): Session | Promise<Session> {
    const found = this.#store.find(id)
    return found instanceof Promise
      ? found.then((record) => this.#own(record, binding, share))
      : this.#own(found, binding, share)
  }

  #own(record: SessionRecord | undefined, binding: string, share: Share | undefined): Session {
    const session = record === undefined ? undefined : this.#live.get(record.id)
    if (record === undefined || !sameBinding(record.binding, binding)) {
      if (record !== undefined && session === undefined) this.#store.letGo(record.id)
      throw new PublicError('session_unknown')
    }
    if (session === undefined) return this.#keep(record, share)
    session.record = record
    return session
  }

  #keep(record: SessionRecord, share: Share | undefined): Session {
    try {
      const session = new Session(record, this, share)
      this.#live.set(record.id, session)
      return session
    } catch (error) {
      this.#store.letGo(record.id)
      throw error
    }
  }

  /** Ends a session and what hangs on it, wherever that was opened. */
  async end(session: Session): Promise<void> {
    await this.#store.remove(session.record.id)
    for (const name of session.backendNames) {
      const backend = this.#options.backendNamed(session, name)
      if (backend !== undefined) session.backendSession(backend).adopt()
    }
    this.#drop(session.record.id, true)
  }

  #drop(id: string, atBackends: boolean, isExpired = false): void {
    this.#requests.failAll(id, new PublicError('client_unreachable'))
    this.#live.get(id)?.end(atBackends)
    this.#options.onEnded(id, isExpired)
    this.#live.delete(id)
  }

  note(session: Session, name: string, value: string | undefined): void | Promise<void> {
    const noted = this.#store.note(session.record.id, name, value)
    const { [name]: _, ...others } = session.record.notes ?? {}
    session.record = { ...session.record, notes: value === undefined ? others : { ...others, [name]: value } }
    return noted
  }

  claim(session: Session, name: string, expected: string | undefined, value: string) {
    const claimed = this.#store.claim(session.record.id, name, expected, value)
    return claimed instanceof Promise
      ? claimed.then((inForce) => this.#claimed(session, name, inForce))
      : this.#claimed(session, name, claimed)
  }

  #claimed(session: Session, name: string, inForce: string | undefined): string | undefined {
    const { record } = session
    if (inForce !== undefined) session.record = { ...record, notes: { ...record.notes, [name]: inForce } }
    return inForce
  }

  opened(session: Session, backendSession: BackendSession): void {
    if (session.logLevel !== undefined) backendSession.setLogLevel(session.logLevel)
    this.serverMessages.opened(session, backendSession)
  }

  /** Whether other replicas may serve the same sessions. */
  get areShared(): boolean {
    return this.#storage.bus !== undefined
  }

  known(id: string): Session | undefined {
    return this.#live.get(id)
  }

  recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined> {
    return this.#store.find(id)
  }

  /**
   * Sends a client a message on its GET stream, at whichever replica that is open. False where the client certainly has
   * none open; it then misses nothing that it could not ask for.
   */
  async send(session: Session, message: string, request?: string): Promise<boolean> {
    if (session.stream !== undefined) {
      session.stream.send(message)
      return true
    }
    const { bus } = this.#storage
    const replica = session.noted(STREAM)
    if (bus === undefined || replica === undefined || replica === bus.replica) return false
    const about = request === undefined ? {} : { ask: request }
    return bus.send({ kind: 'say', session: session.record.id, text: message, ...about }, replica)
  }

  /**
   * Sends a client a server-to-client request (`params`: JSON text) and gives its whole JSON-RPC response as text, at
   * whichever replicas its GET stream is open and its response arrives. Whether it has declared the capability is for
   * whoever calls this to check. Rejects with `client_unreachable` where it has no stream open, its session ends or too
   * many requests are open, with `client_timeout` where it does not respond.
   */
  request(session: Session, method: string, params: string, options: ServerRequestOptions): Promise<string> {
    const send: SendMessage = (message, id) => this.send(session, message, id)
    return sendServerRequest({ requests: this.#requests, send, session }, { method, params }, options)
  }

  /** A client has not resumed its GET stream: the requests that were sent on it did not reach it. */
  streamAbandoned(session: Session): void {
    this.#requests.failAll(
      session.record.id,
      new PublicError('client_unreachable'),
      ({ isOnGetStream }) => isOnGetStream,
    )
  }

  /** Takes a client's response (`id`: JSON text; `response`: the whole message) to the replica that sent the request. */
  responded(session: Session, id: string, response: string): void {
    const { bus } = this.#storage
    const requester = replicaOf(id)
    const sessionId = session.record.id
    if (requester === undefined) return
    if (this.#requests.isOwn(requester)) this.#requests.settle(id, sessionId, response)
    else bus?.notify({ kind: 'answer', session: sessionId, ask: id, text: response }, requester)
  }

  /** Takes a cancellation of a request (JSON text of its id) that does not run here to the other replicas. */
  cancelElsewhere(session: Session, request: string): void {
    this.#storage.bus?.notify({ kind: 'cancel', session: session.record.id, request })
  }

  /** The GET streams that are open here, with those that wait for their clients to resume them. */
  get openStreams(): readonly ClientStream[] {
    return [...this.#live.values()].flatMap(({ stream }) => stream ?? [])
  }

  /** Sends a heartbeat on the GET streams that are open here. A session lives as long as its stream is open. */
  keepAlive(): void {
    for (const { stream, record } of this.#live.values()) {
      if (stream === undefined) continue
      stream.heartbeat()
      this.#touch(record.id).catch((error) => this.#options.onFault(error, 'a session is not kept alive'))
    }
  }

  /** Counts an open stream as use of its session; ends what the store no longer has. */
  async #touch(id: string): Promise<void> {
    try {
      if ((await this.#store.find(id)) === undefined) this.#drop(id, true)
    } catch {
      // The store is away: whether the session still exists is checked again with the next heartbeat.
    }
  }

  /** Ends all streams, for a stop; sessions live on until their time is over. */
  endStreams(): void {
    for (const { stream } of this.#live.values()) stream?.end()
  }

  /** Drops a backend that is gone. What was watched there is watched at the one in its place, once that is known. */
  forget(backend: Backend): void {
    for (const session of this.#live.values()) this.#unwatched.add(session, session.forget(backend))
  }

  /** The lists of backends have changed: a backend may be there now in the place of one that is gone. */
  watchAgain(): void {
    this.#unwatched.retry(
      ({ record }) => this.#live.has(record.id),
      (session, uri) => this.serverMessages.watchAgain(session, uri),
    )
  }

  #followStorage(storage: SessionStorage): void {
    const { store, bus } = storage
    this.serverMessages.follow(bus)
    store.onGone = (id, expired) => this.#drop(id, expired, expired)
    bus?.on('say', ({ session, text, ask }) => {
      const listening = this.#live.get(session)?.stream
      if (listening !== undefined) listening.send(text)
      else if (ask !== undefined) {
        const requester = replicaOf(ask)
        if (requester !== undefined) bus.notify({ kind: 'unheard', session, ask }, requester)
      }
    })
    bus?.on('answer', ({ session, ask, text }) => this.#requests.settle(ask, session, text))
    bus?.on('unheard', ({ session, ask }) => this.#requests.fail(ask, session, new PublicError('client_unreachable')))
    bus?.on('cancel', ({ session, request }) => {
      const known = this.#live.get(session)
      if (known !== undefined) this.#options.onCancelled(known, request)
    })
    this.#requests.rename(bus?.replica ?? LOCAL)
  }

  /**
   * Goes on with another storage, which must work: sessions that are known here are written to it first. Rejects, and
   * goes on with the one before, where it does not take them.
   */
  async moveTo(storage: SessionStorage): Promise<void> {
    const from = this.#storage.bus?.replica ?? LOCAL
    const names = { from, to: storage.bus?.replica ?? LOCAL, isShared: storage.bus !== undefined }
    const written = await copySessions(this.#live, storage.store, names)
    const before = this.#storage
    before.store.onGone = undefined
    this.#storage = storage
    this.#followStorage(storage)
    settleSessions(this.#live, storage.store, { written, names }).catch((error) =>
      this.#options.onFault(error, 'a session is not moved'),
    )
    before.close()
  }

  /** Lets go of all; those in memory end, those in Redis live on at other replicas. */
  close(): void {
    const isLast = this.#storage.bus === undefined
    for (const session of this.#live.values()) session.end(isLast)
    this.#live.clear()
    this.#storage.close()
  }
}

/** Resources that sessions have watched at backends that are gone, until others have them. */
class Unwatched {
  readonly #uris = new Map<Session, Set<string>>()

  add(session: Session, uris: readonly string[]): void {
    if (uris.length === 0) return
    const all = this.#uris.get(session) ?? new Set()
    for (const uri of uris) all.add(uri)
    this.#uris.set(session, all)
  }

  /** Tries each once more. `watch` gives false where it is to be tried again; what throws is given up. */
  retry(isLive: (session: Session) => boolean, watch: (session: Session, uri: string) => boolean): void {
    for (const [session, uris] of this.#uris) {
      for (const uri of uris) if (!isLive(session) || isDone(() => watch(session, uri))) uris.delete(uri)
      if (uris.size === 0) this.#uris.delete(session)
    }
  }
}

/** A client that has too much of its share used up watches no more. */
function isDone(watch: () => boolean): boolean {
  try {
    return watch()
  } catch {
    return true
  }
}
