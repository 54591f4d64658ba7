import type { Backend } from './backend.ts'
import type { Link } from './link.ts'

/** A caller of the modern era may not come back: its session with a legacy backend ends after this silence. */
const IDLE_MS = 5 * 60_000

/** Sessions with a legacy backend of callers of the modern era, who have none themselves. `giveBack` ends each use. */
export class CallerLinks {
  readonly #backend: Backend
  /** By caller and by what was declared for it. */
  readonly #shared = new Map<string, Link>()
  /** Sessions that can be borrowed, while no call has them; by caller and by what was declared for it. */
  readonly #idle = new Map<string, Link[]>()

  constructor(backend: Backend) {
    this.#backend = backend
  }

  /** The session that all requests of one caller share for which the same was `declared` (JSON text). */
  share(binding: string, declared?: string): Link {
    const key = declared === undefined ? binding : `${declared}\0${binding}`
    let link = this.#shared.get(key)
    if (link === undefined) {
      link = this.#backend.link(undefined, declared)
      this.#shared.set(key, link)
    }
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
    if (idle !== undefined) return idle
    const link = this.#backend.link(undefined, declared)
    link.lentTo = key
    link.onOpened = () => link.hear((bytes) => link.heard?.(bytes))
    return link
  }

  giveBack(link: Link): void {
    link.usedAt = Date.now()
    if (link.lentTo === undefined) {
      link.users--
      return
    }
    link.heard = undefined
    const idle = this.#idle.get(link.lentTo)
    if (this.#backend.closed) this.#backend.closeLink(link)
    else if (idle === undefined) this.#idle.set(link.lentTo, [link])
    else idle.push(link)
  }

  /** Ends sessions that have not been used for a while; `now` in milliseconds since 1970. */
  sweep(now: number): void {
    const isIdle = ({ users, usedAt }: Link) => users === 0 && now - usedAt >= IDLE_MS
    for (const [key, link] of this.#shared) {
      if (!isIdle(link)) continue
      this.#shared.delete(key)
      this.#backend.closeLink(link)
    }
    for (const [key, links] of this.#idle) {
      const kept = links.filter((link) => !isIdle(link))
      for (const link of links) if (!kept.includes(link)) this.#backend.closeLink(link)
      if (kept.length === 0) this.#idle.delete(key)
      else this.#idle.set(key, kept)
    }
  }

  /** Forgets them all: the backend ends them with its other sessions. */
  clear(): void {
    this.#shared.clear()
    this.#idle.clear()
  }
}
