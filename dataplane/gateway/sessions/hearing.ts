import type { Backend } from '../backends/backend/backend.ts'
import type { Link } from '../backends/session/link.ts'
import type { ResourceWatch } from '../backends/session/resource-updates.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { type Session, WATCH } from './session.ts'
import type { BusMessage, SessionBus } from './store/bus.ts'
import type { SessionRecord } from './store/store.ts'

/** What hearing needs of the sessions of this replica. */
export interface SessionsHeard {
  /** The session of this id, where it is known here. */
  known(id: string): Session | undefined
  /** As the store has it. */
  recordOf(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  note(session: Session, name: string, value: string | undefined): void | Promise<void>
  say(session: Session, message: string): Promise<boolean>
}

export interface HearingOptions {
  /** The backend of this name, where there is one. */
  backendNamed(name: string): Backend | undefined
  /** Begins to watch a resource; undefined where no backend has it. */
  watch(uri: string, onUpdate: () => void): ResourceWatch | undefined
  /** A backend has said something in this session outside of any request. */
  onHeard(session: Session, link: Link, bytes: Buffer): void
  /** Something failed that nobody waits for; `what` is then not done. */
  onFault(error: unknown, what: string): void
}

/** Note of the replica at which a client listens. */
export const STREAM = 'stream'
/** How long a call waits for another replica to hear its backend. */
const PATIENCE_MS = 1_500

/**
 * Hears what backends say unasked to clients with sessions, at the replica at which the client listens: what one
 * replica knows of a session with a backend the others do, and a replica that goes takes nothing along.
 */
export class Hearing {
  readonly #sessions: SessionsHeard
  readonly #options: HearingOptions
  /** Calls that wait until another replica hears, by session and backend. */
  readonly #waiting = new Map<string, () => void>()
  #bus: SessionBus | undefined

  constructor(sessions: SessionsHeard, options: HearingOptions) {
    this.#sessions = sessions
    this.#options = options
  }

  /** Speaks with other replicas; undefined where there are none. `replica`: the name of this one. */
  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('linked', (message) => {
      this.#linkedThere(message, bus).catch((error) => this.#options.onFault(error, 'a backend’s session is not heard'))
    })
    bus?.on('hears', ({ session, backend }) => this.#waiting.get(keyOf(session, backend))?.())
    bus?.on('listens', ({ session }) => {
      const known = this.#sessions.known(session)
      known?.listening?.end()
      for (const link of known?.openLinks ?? []) link.unhear()
    })
  }

  /** A session with a backend has been opened here: it is heard where the client listens. */
  opened(session: Session, link: Link): void {
    if (session.listening !== undefined) this.#hear(session, link)
    else if (this.#bus !== undefined) link.waitFor(this.#hearElsewhere(session, link, this.#bus).catch(() => {}))
  }

  async #hearElsewhere(session: Session, link: Link, bus: SessionBus): Promise<void> {
    await this.#refresh(session)
    const at = session.noted(STREAM)
    if (at !== undefined && at !== bus.replica) await this.#hearAt(at, session, link, bus)
  }

  /** What other replicas have noted meanwhile. */
  async #refresh(session: Session): Promise<void> {
    session.record = (await this.#sessions.recordOf(session.record.id)) ?? session.record
  }

  #hear(session: Session, link: Link): void {
    link.hear((bytes) => this.#options.onHeard(session, link, bytes))
  }

  /** Settles when the other replica hears, or does not. */
  async #hearAt(at: string, session: Session, link: Link, bus: SessionBus): Promise<void> {
    const { id } = session.record
    const backend = link.backend.name
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, PATIENCE_MS)
    this.#waiting.set(keyOf(id, backend), resolve)
    const isTold = await bus.send({ kind: 'linked', session: id, backend, from: bus.replica }, at)
    // A replica that is gone listens for nobody: until the client comes elsewhere it is heard here.
    if (!isTold) this.#hear(session, link)
    else await promise
    clearTimeout(timer)
    this.#waiting.delete(keyOf(id, backend))
  }

  /** Another replica has opened a session with a backend for a client that listens here. */
  async #linkedThere({ session: id, backend: name, from }: Extract<BusMessage, { kind: 'linked' }>, bus: SessionBus) {
    const session = this.#sessions.known(id)
    const backend = this.#options.backendNamed(name)
    if (session?.listening !== undefined && backend !== undefined) {
      await this.#refresh(session)
      const link = session.link(backend)
      if (link.renew() !== undefined) this.#hear(session, link)
      await link.beginning
    }
    bus.tell({ kind: 'hears', session: id, backend: name }, from)
  }

  /** Hears for a client that has begun to listen here what its backends say unasked, whichever replica has opened them. */
  async begin(session: Session): Promise<void> {
    if (this.#bus !== undefined) {
      await this.#listensHere(session, this.#bus)
      await this.#refresh(session)
    }

    for (const name of session.linked) {
      const backend = this.#options.backendNamed(name)
      if (backend !== undefined) session.link(backend).adopt()
    }
    for (const link of session.openLinks) this.#hear(session, link)
  }

  /** Tells the other replicas that this session's client listens here. */
  async #listensHere(session: Session, bus: SessionBus): Promise<void> {
    const before = session.noted(STREAM)
    if (before === bus.replica) return
    await this.#sessions.note(session, STREAM, bus.replica)
    // Many backends give a session one stream alone: who has it must let go of it.
    if (before !== undefined) await bus.send({ kind: 'listens', session: session.record.id })
    // What another replica has watched for it, which may be gone.
    for (const uri of session.watched) if (session.noted(WATCH + uri) !== bus.replica) await this.watch(session, uri)
  }

  /** Watches a resource for a session's client, at this replica until the client listens at another. */
  async watch(session: Session, uri: string): Promise<void> {
    session.watch(uri, () => this.#options.watch(uri, () => this.#tellUpdated(session, uri)))
    await this.#sessions.note(session, WATCH + uri, this.#replica)
  }

  /** Watches once more what its client still watches, at the backend that has it now; false where none is known yet. */
  watchAgain(session: Session, uri: string): boolean {
    if (session.noted(WATCH + uri) !== this.#replica) return true
    session.watch(uri, () => this.#options.watch(uri, () => this.#tellUpdated(session, uri)))
    return session.watchesOf(uri).length > 0
  }

  async unwatch(session: Session, uri: string): Promise<void> {
    session.unwatch(uri)
    await this.#sessions.note(session, WATCH + uri, undefined)
  }

  #tellUpdated(session: Session, uri: string): void {
    this.#updated(session, uri).catch(() => {})
  }

  /** Tells of a resource that has changed, unless another replica watches it by now. */
  async #updated(session: Session, uri: string): Promise<void> {
    const record = await this.#sessions.recordOf(session.record.id)
    if (record?.notes?.[WATCH + uri] !== this.#replica) session.unwatch(uri)
    else await this.#sessions.say(session, notificationText('notifications/resources/updated', { uri }))
  }

  get #replica(): string {
    return this.#bus?.replica ?? LOCAL
  }
}

const LOCAL = 'here'
const keyOf = (session: string, backend: string): string => `${session} ${backend}`
