import type { Backend } from '../backends/backend/backend.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { ResourceWatch } from '../backends/session/resource-updates.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { type Session, WATCH } from './session.ts'
import type { BusMessage, SessionBus } from './store/bus.ts'
import type { SessionRecord } from './store/store.ts'

export interface SubscribedSessions {
  /** Returns the session of this id, if it is known here. */
  known(id: string): Session | undefined
  /** Reads the session's record from the store. */
  recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  note(session: Session, name: string, value: string | undefined): void | Promise<void>
  send(session: Session, message: string): Promise<boolean>
}

export interface ServerMessagesOptions {
  /** Returns the backend of this name that a session's caller has. */
  backendNamed(session: Session, name: string): Backend | undefined
  /** Begins to watch a resource for a session; undefined if no backend of its caller has it. */
  watch(session: Session, uri: string, onUpdate: () => void): ResourceWatch | undefined
  /** Handles an unsolicited message of a backend in this session. */
  onServerMessage(session: Session, backendSession: BackendSession, bytes: Buffer): void
  /** Reports a failure that nobody waits for; `what` is then not done. */
  onFault(error: unknown, what: string): void
}

/** The name of the note that holds the replica at which a client has its GET stream open. */
export const STREAM = 'stream'
/** The longest wait of a call until another replica has subscribed to the messages of its backend. */
const PATIENCE_MS = 1_500

/**
 * Subscriptions to unsolicited messages of backends. The replica with the client's GET stream subscribes. Replicas
 * share what they know, so that nothing is lost when one stops.
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
    bus?.on('hears', ({ session, backend }) => this.#waiting.get(keyOf(session, backend))?.())
    bus?.on('listens', ({ session }) => {
      const known = this.#sessions.known(session)
      known?.stream?.end()
      for (const backendSession of known?.openBackendSessions ?? []) backendSession.unsubscribe()
    })
  }

  /** Handles a backend session opened here: the replica with the client's stream subscribes to its messages. */
  opened(session: Session, backendSession: BackendSession): void {
    if (session.stream !== undefined) this.#subscribe(session, backendSession)
    else if (this.#bus !== undefined)
      backendSession.waitFor(
        this.#subscribeElsewhere(session, backendSession, this.#bus).catch(() => {
          // The session store can't be read: calls are sent without the subscription instead of failing.
        }),
      )
  }

  async #subscribeElsewhere(session: Session, backendSession: BackendSession, bus: SessionBus): Promise<void> {
    await this.#refresh(session)
    const at = session.noted(STREAM)
    if (at !== undefined && at !== bus.replica) await this.#subscribeAt(at, session, backendSession, bus)
  }

  /** Reads the notes that other replicas have written meanwhile. */
  async #refresh(session: Session): Promise<void> {
    session.record = (await this.#sessions.recordOf(session.record.id)) ?? session.record
  }

  #subscribe(session: Session, backendSession: BackendSession): void {
    backendSession.subscribe((bytes) => this.#options.onServerMessage(session, backendSession, bytes))
  }

  /** Settles when the other replica has subscribed, or its time is over. */
  async #subscribeAt(at: string, session: Session, backendSession: BackendSession, bus: SessionBus): Promise<void> {
    const { id } = session.record
    const backend = backendSession.backend.name
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, PATIENCE_MS)
    this.#waiting.set(keyOf(id, backend), resolve)
    const isSent = await bus.send({ kind: 'linked', session: id, backend, from: bus.replica }, at)
    // The other replica has stopped. This replica subscribes until the client opens its stream elsewhere.
    if (!isSent) this.#subscribe(session, backendSession)
    else await promise
    clearTimeout(timer)
    this.#waiting.delete(keyOf(id, backend))
  }

  /** Handles a session with a backend that another replica has opened for a client that has its stream here. */
  async #openedElsewhere(
    { session: id, backend: name, from }: Extract<BusMessage, { kind: 'linked' }>,
    bus: SessionBus,
  ) {
    const session = this.#sessions.known(id)
    const backend = session && this.#options.backendNamed(session, name)
    if (session?.stream !== undefined && backend !== undefined) {
      await this.#refresh(session)
      const backendSession = session.backendSession(backend)
      if (backendSession.renew() !== undefined) this.#subscribe(session, backendSession)
      await backendSession.subscribing
    }
    bus.notify({ kind: 'hears', session: id, backend: name }, from)
  }

  /** Subscribes to a client's backends, whichever replica opened their sessions, after its stream was opened here. */
  async subscribe(session: Session): Promise<void> {
    if (this.#bus !== undefined) {
      await this.#noteStreamHere(session, this.#bus)
      await this.#refresh(session)
    }

    for (const name of session.backendNames) {
      const backend = this.#options.backendNamed(session, name)
      if (backend !== undefined) session.backendSession(backend).adopt()
    }
    for (const backendSession of session.openBackendSessions) this.#subscribe(session, backendSession)
  }

  /** Notes that this session's client has its stream here, and notifies the other replicas. */
  async #noteStreamHere(session: Session, bus: SessionBus): Promise<void> {
    const before = session.noted(STREAM)
    if (before === bus.replica) return
    await this.#sessions.note(session, STREAM, bus.replica)
    // Many backends allow a session only one stream: the replica that has it must close it.
    if (before !== undefined) await bus.send({ kind: 'listens', session: session.record.id })
    // These resources were watched for it by another replica, which may be gone.
    for (const uri of session.watched) if (session.noted(WATCH + uri) !== bus.replica) await this.watch(session, uri)
  }

  /** Watches a resource for a session's client, at this replica until the client has its stream at another. */
  async watch(session: Session, uri: string): Promise<void> {
    session.watch(uri, () => this.#options.watch(session, uri, () => this.#onUpdated(session, uri)))
    await this.#sessions.note(session, WATCH + uri, this.#replica)
  }

  /** Watches a resource again, if its client still watches it, at the backend that has it; false if none does yet. */
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
      // The store is unavailable: the client, whose requests fail as well, can read the resource when it is back.
    })
  }

  /** Notifies the client of a resource that has changed, unless another replica watches it by now. */
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
const keyOf = (session: string, backend: string): string => `${session} ${backend}`
