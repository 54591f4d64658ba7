import type { Backend } from '../backends/backend/backend.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { ResourceWatch } from '../backends/session/resource-watch.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { ANSWERS, type NoteKeeper, type Session, STREAM, WATCH } from './session.ts'
import type { BusMessage, SessionBus } from './store/bus.ts'
import type { SessionRecord } from './store/store.ts'

export interface SubscribedSessions extends Pick<NoteKeeper, 'note'> {
  known(id: string): Session | undefined
  recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  refresh(session: Session): Promise<void>
  send(session: Session, message: string): Promise<boolean>
}

export interface ServerMessagesOptions {
  findBackend(session: Session, name: string): Backend | undefined
  /** Begins to watch a resource for a session; undefined if no backend in its caller's view has it. */
  watch(session: Session, uri: string, onUpdate: () => void): ResourceWatch | undefined
  onServerMessage(session: Session, backendSession: BackendSession, bytes: Buffer): void
  /** Reports an error in an operation that no request waits for. */
  onFault(error: unknown, what: string): void
}

/** The longest wait of a call until another replica has subscribed to the messages of its backend. */
const PATIENCE_MS = 1_500

/**
 * Subscribes to the unsolicited messages of backends. The replica with the client's GET stream subscribes. Replicas
 * share the necessary facts, so that nothing is lost when one stops.
 */
export class ServerMessages {
  readonly #sessions: SubscribedSessions
  readonly #options: ServerMessagesOptions
  readonly #waiting = new Map<string, () => void>()
  #bus: SessionBus | undefined

  constructor(sessions: SubscribedSessions, options: ServerMessagesOptions) {
    this.#sessions = sessions
    this.#options = options
  }

  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('linked', (message) => {
      this.#openedElsewhere(message, bus).catch((error) =>
        this.#options.onFault(error, 'the messages of a backend’s session are not subscribed to'),
      )
    })
    bus?.on('hears', ({ session, backend }) => this.#waiting.get(formatKey(session, backend))?.())
    bus?.on('listens', ({ session }) => {
      const known = this.#sessions.known(session)
      if (known !== undefined)
        this.#handOver(known).catch((error) =>
          this.#options.onFault(error, 'answers are not awaited at another replica'),
        )
    })
  }

  /**
   * Handles a backend session that was opened here. The replica with the client's stream subscribes to its messages.
   */
  opened(session: Session, backendSession: BackendSession): void {
    if (session.stream !== undefined) this.#subscribe(session, backendSession)
    else if (this.#bus !== undefined)
      backendSession.inbox.waitFor(
        this.#subscribeElsewhere(session, backendSession, this.#bus).catch(() => {
          // The session store can't be read. Calls are then sent without the subscription, so that they don't fail.
        }),
      )
  }

  async #subscribeElsewhere(session: Session, backendSession: BackendSession, bus: SessionBus): Promise<void> {
    // The client's stream may be opening at another replica. Each writes its own note before it reads that of the other,
    // so that one of them subscribes.
    await this.#sessions.refresh(session)
    const at = session.noted(STREAM)
    if (at !== undefined && at !== bus.replica) await this.#subscribeAt(at, session, backendSession, bus)
  }

  #subscribe(session: Session, backendSession: BackendSession): void {
    backendSession.inbox.subscribe((bytes) => this.#options.onServerMessage(session, backendSession, bytes))
  }

  /** Resolves when the other replica has subscribed or has taken too long. */
  async #subscribeAt(at: string, session: Session, backendSession: BackendSession, bus: SessionBus): Promise<void> {
    const { id } = session.record
    const backend = backendSession.backend.name
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, PATIENCE_MS)
    this.#waiting.set(formatKey(id, backend), resolve)
    const isSent = await bus.send({ kind: 'linked', session: id, backend, from: bus.replica }, at)
    // The other replica has stopped, so this one subscribes until the client opens its stream elsewhere.
    if (!isSent) this.#subscribe(session, backendSession)
    else await promise
    clearTimeout(timer)
    this.#waiting.delete(formatKey(id, backend))
  }

  /** Ends the streams of a session here: its client listens at another replica, where answers are awaited as well. */
  async #handOver(session: Session): Promise<void> {
    session.stream?.end()
    const backendSessions = session.openBackendSessions
    for (const { inbox } of backendSessions) inbox.close()
    await this.#sessions.refresh(session)
    for (const { inbox } of backendSessions) inbox.awaitAgain()
  }

  /** Handles a session with a backend that another replica has opened for a client that has its stream here. */
  async #openedElsewhere(
    { session: id, backend: name, from }: Extract<BusMessage, { kind: 'linked' }>,
    bus: SessionBus,
  ) {
    const session = this.#sessions.known(id)
    const backend = session && this.#options.findBackend(session, name)
    if (session?.stream !== undefined && backend !== undefined) {
      await this.#sessions.refresh(session)
      const backendSession = session.backendSession(backend)
      if (backendSession.renew() !== undefined) this.#subscribe(session, backendSession)
      await backendSession.inbox.subscribing
    }
    bus.notify({ kind: 'hears', session: id, backend: name }, from)
  }

  /** Subscribes to a client's backends after its stream was opened here, whichever replica opened their sessions. */
  async subscribe(session: Session): Promise<void> {
    if (this.#bus !== undefined) {
      await this.#noteStreamHere(session, this.#bus)
      await this.#sessions.refresh(session)
    }

    for (const name of session.backendNames) {
      const backend = this.#options.findBackend(session, name)
      if (backend !== undefined) session.backendSession(backend).adopt()
    }
    for (const backendSession of session.openBackendSessions) this.#subscribe(session, backendSession)
  }

  /** Notes that this session's client has its stream here, and tells the other replicas. */
  async #noteStreamHere(session: Session, bus: SessionBus): Promise<void> {
    const before = session.noted(STREAM)
    if (before === bus.replica) return
    await this.#sessions.note(session, STREAM, bus.replica)
    // Many backends allow a session only one stream: the replica that has it must close it.
    if (before !== undefined || isElsewhere(session.noted(ANSWERS), bus))
      await bus.send({ kind: 'listens', session: session.record.id })
    // These resources were watched for it by another replica, which may be gone.
    for (const uri of session.watched) if (session.noted(WATCH + uri) !== bus.replica) await this.watch(session, uri)
  }

  /** Watches a resource for a session's client, until the client opens its stream at another replica. */
  async watch(session: Session, uri: string): Promise<void> {
    session.watch(uri, () => this.#options.watch(session, uri, () => this.#onUpdated(session, uri)))
    await this.#sessions.note(session, WATCH + uri, this.#replica)
  }

  /**
   * Watches a resource again at the backend that has it now, if its client still needs that. Returns false if no
   * backend has it yet.
   */
  watchAgain(session: Session, uri: string): boolean {
    if (session.noted(WATCH + uri) !== this.#replica) return true
    session.watch(uri, () => this.#options.watch(session, uri, () => this.#onUpdated(session, uri)))
    return session.watchesOf(uri).length > 0
  }

  async unwatch(session: Session, uri: string): Promise<void> {
    session.unwatch(uri)
    await this.#sessions.note(session, WATCH + uri, undefined)
  }

  #onUpdated(session: Session, uri: string): void {
    this.#notifyUpdated(session, uri).catch(() => {
      // The store is unavailable, so requests of the client fail as well. It can read the resource later.
    })
  }

  /** Notifies the client that a resource has changed, unless another replica watches it now. */
  async #notifyUpdated(session: Session, uri: string): Promise<void> {
    const record = await this.#sessions.recordOf(session.record.id)
    if (record?.notes?.[WATCH + uri] !== this.#replica) session.unwatch(uri)
    else await this.#sessions.send(session, notificationText('notifications/resources/updated', { uri }))
  }

  get #replica(): string {
    return this.#bus?.replica ?? LOCAL
  }
}

const LOCAL = 'here'
const isElsewhere = (replica: string | undefined, bus: SessionBus): boolean =>
  replica !== undefined && replica !== bus.replica
const formatKey = (session: string, backend: string): string => `${session} ${backend}`
