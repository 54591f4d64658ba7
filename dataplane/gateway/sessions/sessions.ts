import { randomBytes } from 'node:crypto'
import type { Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import { PendingServerRequests, readReplica, type ServerRequestOptions } from './pending-server-requests.ts'
import type { Relays } from './relay/relays.ts'
import { ServerMessages, type ServerMessagesOptions, type SubscribedSessions } from './server-messages.ts'
import { ANSWERS, type ClientStream, type NoteKeeper, Session, STREAM, sameBinding, WATCH } from './session.ts'
import { SharedStreams } from './shared-streams.ts'
import type { SessionStorage } from './store/storage.ts'
import { type SessionRecord, type SessionStore, withNote } from './store/store.ts'

export { type ClientStream, Session } from './session.ts'

interface SessionsOptions extends ServerMessagesOptions {
  readonly storage: SessionStorage
  readonly relays: Relays
  /** Handles the cancellation of a request (its id is JSON text) that another replica did not find; it may run here. */
  onCancelled(session: Session, request: string): void
  /** Handles the end of a session (its id) at this replica. `isExpired`: it was unused for too long, or evicted. */
  onEnded(session: string, isExpired: boolean): void
}

const ID_BYTES = 24
const LOCAL = 'here'
/** The sessions of legacy clients. */
export class Sessions implements NoteKeeper, SubscribedSessions {
  readonly serverMessages: ServerMessages
  readonly sharedStreams: SharedStreams
  readonly #options: SessionsOptions
  readonly #live = new Map<string, Session>()
  #storage: SessionStorage
  readonly #requests = new PendingServerRequests(LOCAL)
  readonly #unwatched = new Unwatched()

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#storage = options.storage
    this.serverMessages = new ServerMessages(this, options)
    this.sharedStreams = new SharedStreams(this, options)
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
   * Opens a session whose memory counts in the caller's share. Throws if that share, or the memory of all, is full, and
   * `unavailable` if the store is unreachable.
   */
  open(fields: Omit<SessionRecord, 'id'>, share?: Share): Session | Promise<Session> {
    const record: SessionRecord = { id: randomBytes(ID_BYTES).toString('base64url'), ...fields }
    const session = this.#keep(record, share)
    const added = this.#store.add(record)
    return added === undefined ? session : added.then(() => session, this.#giveUp(record.id))
  }

  /** Drops a session that the store has not accepted. */
  readonly #giveUp = (id: string) => (error: unknown) => {
    this.#drop(id, true)
    throw error
  }

  /**
   * Returns the caller's session with this id. Throws `session_unknown` if there is none or it belongs to another
   * caller.
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

  /** Ends a session and everything that belongs to it, at all replicas. */
  async end(session: Session): Promise<void> {
    await this.#store.remove(session.record.id)
    for (const name of session.backendNames) {
      const backend = this.#options.findBackend(session, name)
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
    session.record = withNote(session.record, name, value)
    return noted
  }

  claim(session: Session, name: string, expected: string | undefined, value: string) {
    const claimed = this.#store.claim(session.record.id, name, expected, value)
    return claimed instanceof Promise
      ? claimed.then((inForce) => this.#claimed(session, name, inForce))
      : this.#claimed(session, name, claimed)
  }

  #claimed(session: Session, name: string, inForce: string | undefined): string | undefined {
    if (inForce !== undefined) session.record = withNote(session.record, name, inForce)
    return inForce
  }

  opened(session: Session, backendSession: BackendSession): void {
    if (session.logLevel !== undefined) backendSession.setLogLevel(session.logLevel)
    if (backendSession.isReplacement)
      for (const uri of session.subscribedAt(backendSession.backend.name)) backendSession.resubscribe(uri)
    this.serverMessages.opened(session, backendSession)
  }

  /** True if other replicas may serve the same sessions. */
  get areShared(): boolean {
    return this.#storage.bus !== undefined
  }

  known(id: string): Session | undefined {
    return this.#live.get(id)
  }

  recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined> {
    return this.#store.find(id)
  }

  /** Reads the notes that other replicas have written until now. */
  async refresh(session: Session): Promise<void> {
    session.record = (await this.#store.latest(session.record.id)) ?? session.record
  }

  /**
   * Sends a message on a client's GET stream, at whichever replica it is open. Returns false if the client certainly
   * has none open. The message is then lost, but the client can request the same information.
   */
  async send(session: Session, message: string, request?: string): Promise<boolean> {
    if (session.stream !== undefined) {
      session.stream.send(message)
      return true
    }
    const { bus } = this.#storage
    const replica = session.noted(STREAM)
    if (bus === undefined || replica === undefined || replica === bus.replica) return false
    return bus.send({ kind: 'say', session: session.record.id, text: message, ask: request }, replica)
  }

  /**
   * Sends a server-to-client request (`params`: JSON text), and returns the client's whole JSON-RPC response as text,
   * at whichever replicas its GET stream is open and its response arrives. The caller must check before that the client
   * has declared the capability. Rejects with `client_unreachable` if the client has no open stream, its session ends
   * or too many requests are open, and with `client_timeout` if it does not respond.
   */
  request(session: Session, method: string, params: string, options: ServerRequestOptions): Promise<string> {
    const send = (message: string, id?: string) => this.send(session, message, id)
    return this.#requests.request(session, { method, params, send }, options)
  }

  /** Handles a GET stream that its client has not resumed. Requests that were sent on it did not reach the client. */
  streamAbandoned(session: Session): void {
    this.#requests.failAll(
      session.record.id,
      new PublicError('client_unreachable'),
      ({ isOnGetStream }) => isOnGetStream,
    )
  }

  /**
   * Passes a client's response (`id`: JSON text; `response`: the whole message) to the replica that sent the request.
   */
  responded(session: Session, id: string, response: string): void {
    const { bus } = this.#storage
    const requester = readReplica(id)
    const sessionId = session.record.id
    if (requester === undefined) return
    if (this.#requests.isOwn(requester)) this.#requests.settle(id, sessionId, response)
    else bus?.notify({ kind: 'answer', session: sessionId, ask: id, text: response }, requester)
  }

  /** Passes the cancellation of a request (JSON text of its id) that does not run here to the other replicas. */
  cancelElsewhere(session: Session, request: string): void {
    this.#storage.bus?.notify({ kind: 'cancel', session: session.record.id, request })
  }

  /** The GET streams at this replica, including those that wait to be resumed. */
  get openStreams(): readonly ClientStream[] {
    return [...this.#live.values()].flatMap(({ stream }) => stream ?? [])
  }

  /** Sends a heartbeat on the GET streams at this replica. A session lives as long as its stream is open. */
  keepAlive(): void {
    for (const { stream, record } of this.#live.values()) {
      if (stream === undefined) continue
      stream.heartbeat()
      this.#touch(record.id).catch((error) => this.#options.onFault(error, 'a session is not kept alive'))
    }
  }

  /** Extends the session of an open stream, or ends it if the store no longer has it. */
  async #touch(id: string): Promise<void> {
    try {
      if ((await this.#store.find(id)) === undefined) this.#drop(id, true)
    } catch {
      // The store is unavailable, so the next heartbeat checks again whether the session exists.
    }
  }

  /** Ends all streams because the gateway stops. Sessions live until they expire. */
  endStreams(): void {
    for (const { stream } of this.#live.values()) stream?.end()
  }

  /** Drops the state for a removed backend. Its watched resources are watched again once another backend has them. */
  forget(backend: Backend): void {
    for (const session of this.#live.values()) this.#unwatched.add(session, session.forget(backend))
  }

  /** Handles changed lists of backends, one of which may now have a resource of a removed backend. */
  watchAgain(): void {
    this.#unwatched.retry(
      ({ record }) => this.#live.has(record.id),
      (session, uri) => this.serverMessages.watchAgain(session, uri),
    )
  }

  #followStorage(storage: SessionStorage): void {
    const { store, bus } = storage
    this.serverMessages.follow(bus)
    this.sharedStreams.follow(bus)
    store.onGone = (id, expired) => this.#drop(id, expired, expired)
    bus?.on('say', ({ session, text, ask }) => {
      const listening = this.#live.get(session)?.stream
      if (listening !== undefined) listening.send(text)
      else if (ask !== undefined) {
        const requester = readReplica(ask)
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
   * Moves to another storage, which must work, and first writes the known sessions there. Rejects and keeps the old
   * storage if the new one does not accept them.
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

  /** Drops all sessions. Those in memory end; those in Redis continue at other replicas. */
  close(): void {
    const isLast = this.#storage.bus === undefined
    for (const session of this.#live.values()) session.end(isLast)
    this.#live.clear()
    this.#storage.close()
  }
}

/** Resources that sessions have watched at removed backends, until other backends have them. */
class Unwatched {
  readonly #uris = new Map<Session, Set<string>>()

  add(session: Session, uris: readonly string[]): void {
    if (uris.length === 0) return
    const all = this.#uris.get(session) ?? new Set()
    for (const uri of uris) all.add(uri)
    this.#uris.set(session, all)
  }

  /** Tries each one again. `watch` returns false to try again later; if it throws, the resource is dropped. */
  retry(isLive: (session: Session) => boolean, watch: (session: Session, uri: string) => boolean): void {
    for (const [session, uris] of this.#uris) {
      for (const uri of uris) if (!isLive(session) || isDone(() => watch(session, uri))) uris.delete(uri)
      if (uris.size === 0) this.#uris.delete(session)
    }
  }
}

/** Treats an error as the end, because a client whose share is full can't watch more. */
function isDone(watch: () => boolean): boolean {
  try {
    return watch()
  } catch {
    return true
  }
}

/** The names of this replica in one storage and in the next. */
interface ReplicaNames {
  readonly from: string
  readonly to: string
  /** Tells whether other replicas share the next storage. */
  readonly isShared: boolean
}

/** The number of times that changed sessions are written again before the move. Later changes are written after it. */
const MOST_ROUNDS = 3

/** Writes the live sessions to another store, and returns the written records. Rejects if the store refuses one. */
async function copySessions(
  live: ReadonlyMap<string, Session>,
  store: SessionStore,
  names: ReplicaNames,
): Promise<ReadonlyMap<string, SessionRecord>> {
  const written = new Map<string, SessionRecord>()
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const changed = [...live.values()].filter(({ record }) => written.get(record.id) !== record)
    if (changed.length === 0) break
    for (const { record } of changed) written.set(record.id, record)
    await Promise.all(changed.map((session) => store.add(moveRecord(session, names))))
  }
  return written
}

/**
 * Moves the live sessions to a store that contains `written`. Notes get this replica's next name, later changes are
 * written again, and ended sessions are removed.
 */
async function settleSessions(
  live: ReadonlyMap<string, Session>,
  store: SessionStore,
  { written, names }: { readonly written: ReadonlyMap<string, SessionRecord>; readonly names: ReplicaNames },
): Promise<void> {
  const late: (void | Promise<void>)[] = []
  for (const session of live.values()) {
    const isChanged = written.get(session.record.id) !== session.record
    session.record = moveRecord(session, names)
    if (isChanged) late.push(store.add(session.record))
  }
  for (const id of written.keys()) if (!live.has(id)) late.push(store.remove(id))
  await Promise.all(late)
}

/** Returns a session's record for the next storage, whose notes name the replica with the client's stream. */
function moveRecord({ record, stream }: Session, { from, to, isShared }: ReplicaNames): SessionRecord {
  const { [STREAM]: _, ...others } = record.notes ?? {}
  const notes = Object.fromEntries(
    Object.entries(others).map(([name, value]) => [name, isOfReplica(name) && value === from ? to : value]),
  )
  // A single replica does not need the note.
  return { ...record, notes: stream !== undefined && isShared ? { ...notes, [STREAM]: to } : notes }
}

const isOfReplica = (name: string): boolean => name === ANSWERS || name.startsWith(WATCH)
