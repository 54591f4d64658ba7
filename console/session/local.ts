import { randomBytes } from 'node:crypto'
import type { Hono } from 'hono'
import { getCookie } from 'hono/cookie'
import { PublicError } from '../../dataplane/server/errors.ts'
import type { Doors } from './doors.ts'
import { isEqual } from './form-token.ts'

/** Most browsers that may be open at once; the one that came first goes first. */
const MOST_SESSIONS = 100

const secret = (): string => randomBytes(32).toString('base64url')

interface LocalOptions {
  /** The name under which the viewer is shown. */
  readonly name: string
  /** Called when a link was used, and the next one is there. */
  readonly onOpened?: (() => void) | undefined
}

/**
 * The door on one's own machine: a link with a secret that works once, swapped for a cookie. Cookies know no ports, so
 * the cookie's name holds the port.
 */
export class LocalDoors implements Doors {
  readonly isLocal = true
  readonly loginPath = undefined
  readonly formKey = randomBytes(32)
  readonly #options: LocalOptions
  readonly #sessions = new Set<string>()
  #secret = secret()
  #cookie = 'portico-console'

  constructor(options: LocalOptions) {
    this.#options = options
  }

  get inMemory(): number {
    return this.#sessions.size
  }

  /** Learns the port that it listens on. */
  listensOn(port: number): void {
    this.#cookie = `portico-console-${port}`
  }

  /** Returns the URL that lets one browser in. */
  openUrl(base: string): string {
    return `${base}/login?secret=${this.#secret}`
  }

  async find(c: Parameters<Doors['find']>[0]) {
    const id = getCookie(c, this.#cookie)
    if (id === undefined || !this.#sessions.has(id)) return undefined
    return { id, viewer: { id: 'local', name: this.#options.name }, canLogOut: false }
  }

  routes(app: Hono): void {
    app.get('/login', (c) => {
      if (!isEqual(c.req.query('secret') ?? '', this.#secret)) throw new PublicError('forbidden', { message: SPENT })
      this.#secret = secret()
      const id = secret()
      this.#sessions.add(id)
      if (this.#sessions.size > MOST_SESSIONS) this.#sessions.delete(this.#sessions.values().next().value as string)
      this.#options.onOpened?.()
      c.header('set-cookie', `${this.#cookie}=${id}; Path=/; HttpOnly; SameSite=Lax`)
      return c.redirect('/', 303)
    })
  }
}

const SPENT = 'This link has been used, or is another console’s. The terminal shows the next one.'
/** The answer to a browser without a session. */
export const NO_SESSION = 'Open the link that the terminal shows: it lets one browser in.'
