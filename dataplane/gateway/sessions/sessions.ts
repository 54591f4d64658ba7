import { randomBytes } from 'node:crypto'
import { PublicError } from '../../server/errors.ts'
import type { Backend } from '../backends/backend.ts'
import type { Link } from '../backends/link.ts'
import { sameBinding } from './binding.ts'
import type { SessionRecord, SessionStore } from './store.ts'

/** A stream on which a client hears what the gateway says unasked. */
export interface Listening {
  /** One JSON-RPC message. */
  say(message: string): void
  /** A sign of life. */
  sign(): void
  end(): void
}

/** A legacy client's session as it lives in this process. */
export class Session {
  readonly record: SessionRecord
  /** The GET stream, where the client has one open. */
  listening: Listening | undefined
  #links: Map<Backend, Link> | undefined

  constructor(record: SessionRecord) {
    this.record = record
  }

  /** This session's own session with a backend. */
  link(backend: Backend): Link {
    this.#links ??= new Map()
    let link = this.#links.get(backend)
    if (link === undefined) {
      link = backend.link()
      this.#links.set(backend, link)
    }
    return link
  }

  /** Lets go of what concerns backends that are gone. */
  forget(backend: Backend): void {
    this.#links?.delete(backend)
  }

  end(): void {
    this.listening?.end()
    for (const [backend, link] of this.#links ?? []) backend.closeLink(link)
    this.#links = undefined
  }
}

const ID_BYTES = 24
/** Bounds the memory that somebody who only opens sessions can take. */
const MOST = 200_000

/** The sessions of legacy clients. */
export class Sessions {
  readonly #store: SessionStore
  readonly #live = new Map<string, Session>()

  constructor(store: SessionStore) {
    this.#store = store
    store.onExpired = (id) => this.#drop(id)
  }

  get count(): number {
    return this.#store.size
  }

  /** Opens a session. Throws `unavailable` where there are too many. */
  open(fields: Omit<SessionRecord, 'id'>): Session | Promise<Session> {
    if (this.#store.size >= MOST) throw new PublicError('unavailable', { message: 'Too many sessions are open.' })
    const record: SessionRecord = { id: randomBytes(ID_BYTES).toString('base64url'), ...fields }
    const session = new Session(record)
    const added = this.#store.add(record)
    this.#live.set(record.id, session)
    return added === undefined ? session : added.then(() => session)
  }

  /**
   * The caller's session of this id. Throws `session_unknown` where there is none, and the very same where it is
   * somebody else's.
   */
  find(id: string, binding: string): Session | Promise<Session> {
    const found = this.#store.find(id)
    return found instanceof Promise ? found.then((record) => this.#own(record, binding)) : this.#own(found, binding)
  }

  #own(record: SessionRecord | undefined, binding: string): Session {
    if (record === undefined || !sameBinding(record.binding, binding)) throw new PublicError('session_unknown')
    let session = this.#live.get(record.id)
    if (session === undefined) {
      session = new Session(record)
      this.#live.set(record.id, session)
    }
    return session
  }

  /** Ends a session and what hangs on it. */
  async end(session: Session): Promise<void> {
    this.#drop(session.record.id)
    await this.#store.remove(session.record.id)
  }

  #drop(id: string): void {
    this.#live.get(id)?.end()
    this.#live.delete(id)
  }

  /** Tells every listening client one message. */
  broadcast(message: string): void {
    for (const { listening } of this.#live.values()) listening?.say(message)
  }

  /** Gives listening clients a sign of life. As long as they listen, their sessions live. */
  keepAlive(): void {
    for (const { listening, record } of this.#live.values()) {
      if (listening === undefined) continue
      listening.sign()
      void this.#store.find(record.id)
    }
  }

  /** Ends all streams, for a stop; sessions live on until their time is over. */
  endStreams(): void {
    for (const { listening } of this.#live.values()) listening?.end()
  }

  forget(backend: Backend): void {
    for (const session of this.#live.values()) session.forget(backend)
  }

  /** Ends all. */
  close(): void {
    for (const session of this.#live.values()) session.end()
    this.#live.clear()
    this.#store.close()
  }
}
