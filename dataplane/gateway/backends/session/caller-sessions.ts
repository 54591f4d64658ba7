import type { BackendSession } from './backend-session.ts'

/** Creates and ends sessions with a backend. */
interface SessionMaker {
  readonly closed: boolean
  /** Creates a session, not opened yet, for a client with these declared capabilities (JSON text). */
  newSession(keeper?: undefined, declared?: string): BackendSession
  closeSession(session: BackendSession): void
}

/** The idle timeout of a modern caller's session with a legacy backend, because the caller may never return. */
const IDLE_MS = 5 * 60_000
/** The most unused sessions that are kept. Beyond that, the least recently used one ends. */
const MOST_UNUSED = 256
const MOST_UNUSED_OF_CALLER = 16

/**
 * The sessions with a legacy backend for modern callers, who have no sessions themselves. Each acquired session must be
 * released.
 */
export class CallerSessions {
  readonly #backend: SessionMaker
  /** Shared sessions by caller and declared capabilities. */
  readonly #shared = new Map<string, BackendSession>()
  /** Idle sessions for one call at a time, by caller and declared capabilities. */
  readonly #idle = new Map<string, BackendSession[]>()

  /** The sessions that no request uses, with their callers, least recently used first. */
  readonly #unused = new Map<BackendSession, string>()
  readonly #callers = new WeakMap<BackendSession, string>()

  constructor(backend: SessionMaker) {
    this.#backend = backend
  }

  /** Acquires the session that a caller's requests with equal declared capabilities (JSON text) share. */
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
   * Acquires a session for one call whose client accepts requests of the backend (`declared`: JSON text). Every request
   * of the backend in the session belongs to that call.
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
    session.onOpened = () => session.inbox.subscribe((bytes) => session.onUnsolicited?.(bytes))
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

  /** Keeps a session for its caller's next request. If there are too many unused sessions, others end. */
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
    if (ended !== undefined) this.#end(ended)
  }

  /** Ends sessions that have been idle too long; `now` is in milliseconds since 1970. */
  sweep(now: number): void {
    for (const session of this.#unused.keys())
      if (session.users === 0 && now - session.usedAt >= IDLE_MS) this.#end(session)
  }

  /** Ends an unused session. */
  #end(session: BackendSession): void {
    this.#unused.delete(session)
    this.#forget(session)
    this.#backend.closeSession(session)
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

  /** Forgets all sessions. The backend ends them with its other sessions. */
  clear(): void {
    this.#unused.clear()
    this.#shared.clear()
    this.#idle.clear()
  }
}
