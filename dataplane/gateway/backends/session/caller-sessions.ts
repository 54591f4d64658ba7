import type { BackendSession } from './backend-session.ts'

/** Makes and ends sessions with a backend. */
interface SessionMaker {
  readonly closed: boolean
  /** A new one, not opened yet, for a client that is declared to have these capabilities (JSON text). */
  newSession(keeper?: undefined, declared?: string): BackendSession
  closeSession(session: BackendSession): void
}

/** A caller of the modern era may not come back: its session with a legacy backend ends after this silence. */
const IDLE_MS = 5 * 60_000
/** Sessions that nobody uses at the moment; of more, the one that was not used for longest ends. */
const MOST_UNUSED = 256
const MOST_UNUSED_OF_CALLER = 16

/** Sessions with a legacy backend for modern callers, who have none themselves. Each one acquired must be released. */
export class CallerSessions {
  readonly #backend: SessionMaker
  /** By caller and by what was declared for it. */
  readonly #shared = new Map<string, BackendSession>()
  /** Sessions for one call at a time, while no call has them; by caller and by what was declared for it. */
  readonly #idle = new Map<string, BackendSession[]>()

  /** Sessions that no request uses and their callers, the one that was not used for longest first. */
  readonly #unused = new Map<BackendSession, string>()
  /** The caller of each session. */
  readonly #callers = new WeakMap<BackendSession, string>()

  constructor(backend: SessionMaker) {
    this.#backend = backend
  }

  /** The session that all requests of one caller share for which the same was `declared` (JSON text). */
  acquireShared(binding: string, declared?: string): BackendSession {
    const key = declared === undefined ? binding : `${declared}\0${binding}`
    let session = this.#shared.get(key)
    if (session === undefined) {
      session = this.#backend.newSession(undefined, declared)
      this.#shared.set(key, session)
      this.#callers.set(session, binding)
    }
    this.#unused.delete(session)
    session.users++
    return session
  }

  /**
   * A session for one call whose client takes requests of the backend (`declared`: JSON text): those that come in it
   * belong to that call.
   */
  acquire(binding: string, declared: string): BackendSession {
    const key = `${declared}\0${binding}`
    const idle = this.#idle.get(key)?.pop()
    if (idle !== undefined) {
      this.#unused.delete(idle)
      return idle
    }
    const session = this.#backend.newSession(undefined, declared)
    session.reservedFor = key
    this.#callers.set(session, binding)
    session.onOpened = () => session.subscribe((bytes) => session.onUnsolicited?.(bytes))
    return session
  }

  release(session: BackendSession): void {
    session.usedAt = Date.now()
    if (session.reservedFor === undefined) {
      if (--session.users === 0) this.#setAside(session)
      return
    }
    session.onUnsolicited = undefined
    const idle = this.#idle.get(session.reservedFor)
    if (this.#backend.closed) this.#backend.closeSession(session)
    else if (idle === undefined) this.#idle.set(session.reservedFor, [session])
    else idle.push(session)
    this.#setAside(session)
  }

  /** Keeps a session for the next request of its caller, and ends others where too many are kept. */
  #setAside(session: BackendSession): void {
    if (this.#backend.closed) return
    const caller = this.#callers.get(session) as string
    this.#unused.set(session, caller)
    let ofCaller = 0
    for (const other of this.#unused.values()) if (other === caller) ofCaller++
    const [oldest] =
      ofCaller > MOST_UNUSED_OF_CALLER ? ([...this.#unused].find(([, other]) => other === caller) ?? []) : []
    const [first] = this.#unused.size > MOST_UNUSED ? this.#unused.keys() : []
    const ended = oldest ?? first
    if (ended !== undefined) this.#end((other) => other === ended)
  }

  /** Ends sessions that have not been used for a while; `now` in milliseconds since 1970. */
  sweep(now: number): void {
    const isIdle = ({ users, usedAt }: BackendSession) => users === 0 && now - usedAt >= IDLE_MS
    this.#end(isIdle)
  }

  /** Ends those of the unused sessions for which this is true. */
  #end(isEnded: (session: BackendSession) => boolean): void {
    for (const session of this.#unused.keys()) {
      if (!isEnded(session)) continue
      this.#unused.delete(session)
      this.#forget(session)
      this.#backend.closeSession(session)
    }
  }

  #forget(session: BackendSession): void {
    if (session.reservedFor === undefined) {
      for (const [key, shared] of this.#shared) if (shared === session) this.#shared.delete(key)
      return
    }
    const kept = this.#idle.get(session.reservedFor)?.filter((idle) => idle !== session) ?? []
    if (kept.length === 0) this.#idle.delete(session.reservedFor)
    else this.#idle.set(session.reservedFor, kept)
  }

  /** Forgets them all: the backend ends them with its other sessions. */
  clear(): void {
    this.#unused.clear()
    this.#shared.clear()
    this.#idle.clear()
  }
}
