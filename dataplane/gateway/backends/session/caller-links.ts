import type { Link } from './link.ts'

/** Makes and ends sessions with a backend. */
interface SessionMaker {
  readonly closed: boolean
  /** A new one, not opened yet, for a client that is declared to have these capabilities (JSON text). */
  link(keeper?: undefined, declared?: string): Link
  closeLink(link: Link): void
}

/** A caller of the modern era may not come back: its session with a legacy backend ends after this silence. */
const IDLE_MS = 5 * 60_000
/** Sessions that nobody uses at the moment; of more, the one that was not used for longest ends. */
const MOST_UNUSED = 256
const MOST_UNUSED_OF_CALLER = 16

/** Sessions with a legacy backend of callers of the modern era, who have none themselves. `giveBack` ends each use. */
export class CallerLinks {
  readonly #backend: SessionMaker
  /** By caller and by what was declared for it. */
  readonly #shared = new Map<string, Link>()
  /** Sessions that can be borrowed, while no call has them; by caller and by what was declared for it. */
  readonly #idle = new Map<string, Link[]>()

  /** Sessions without a user and whose they are, the one that was not used for longest first. */
  readonly #unused = new Map<Link, string>()
  /** Whose a session is. */
  readonly #callers = new WeakMap<Link, string>()

  constructor(backend: SessionMaker) {
    this.#backend = backend
  }

  /** The session that all requests of one caller share for which the same was `declared` (JSON text). */
  share(binding: string, declared?: string): Link {
    const key = declared === undefined ? binding : `${declared}\0${binding}`
    let link = this.#shared.get(key)
    if (link === undefined) {
      link = this.#backend.link(undefined, declared)
      this.#shared.set(key, link)
      this.#callers.set(link, binding)
    }
    this.#unused.delete(link)
    link.users++
    return link
  }

  /**
   * A session for one call whose client can be asked something (`declared`: JSON text): what the backend asks in it
   * belongs to that call.
   */
  borrow(binding: string, declared: string): Link {
    const key = `${declared}\0${binding}`
    const idle = this.#idle.get(key)?.pop()
    if (idle !== undefined) {
      this.#unused.delete(idle)
      return idle
    }
    const link = this.#backend.link(undefined, declared)
    link.lentTo = key
    this.#callers.set(link, binding)
    link.onOpened = () => link.hear((bytes) => link.heard?.(bytes))
    return link
  }

  giveBack(link: Link): void {
    link.usedAt = Date.now()
    if (link.lentTo === undefined) {
      if (--link.users === 0) this.#setAside(link)
      return
    }
    link.heard = undefined
    const idle = this.#idle.get(link.lentTo)
    if (this.#backend.closed) this.#backend.closeLink(link)
    else if (idle === undefined) this.#idle.set(link.lentTo, [link])
    else idle.push(link)
    this.#setAside(link)
  }

  /** Keeps a session that nobody uses for whoever comes back, and ends others where there are too many of them. */
  #setAside(link: Link): void {
    if (this.#backend.closed) return
    const caller = this.#callers.get(link) as string
    this.#unused.set(link, caller)
    let ofCaller = 0
    for (const other of this.#unused.values()) if (other === caller) ofCaller++
    const [oldest] =
      ofCaller > MOST_UNUSED_OF_CALLER ? ([...this.#unused].find(([, other]) => other === caller) ?? []) : []
    const [first] = this.#unused.size > MOST_UNUSED ? this.#unused.keys() : []
    const ended = oldest ?? first
    if (ended !== undefined) this.#end((link) => link === ended)
  }

  /** Ends sessions that have not been used for a while; `now` in milliseconds since 1970. */
  sweep(now: number): void {
    const isIdle = ({ users, usedAt }: Link) => users === 0 && now - usedAt >= IDLE_MS
    this.#end(isIdle)
  }

  /** Ends sessions without a user. */
  #end(isMeant: (link: Link) => boolean): void {
    for (const link of this.#unused.keys()) {
      if (!isMeant(link)) continue
      this.#unused.delete(link)
      this.#forget(link)
      this.#backend.closeLink(link)
    }
  }

  #forget(link: Link): void {
    if (link.lentTo === undefined) {
      for (const [key, shared] of this.#shared) if (shared === link) this.#shared.delete(key)
      return
    }
    const kept = this.#idle.get(link.lentTo)?.filter((idle) => idle !== link) ?? []
    if (kept.length === 0) this.#idle.delete(link.lentTo)
    else this.#idle.set(link.lentTo, kept)
  }

  /** Forgets them all: the backend ends them with its other sessions. */
  clear(): void {
    this.#unused.clear()
    this.#shared.clear()
    this.#idle.clear()
  }
}
