import { randomBytes } from 'node:crypto'
import type { Hono } from 'hono'
import { getCookie } from 'hono/cookie'
import { PublicError } from '../../dataplane/server/errors.ts'
import { isEqual, type Sessions } from './sessions.ts'

/** The most sessions. The oldest one is ended first. */
const MOST_SESSIONS = 100

const secret = (): string => randomBytes(32).toString('base64url')

interface LocalOptions {
  /** The displayed name of the viewer. */
  readonly name: string
  /** Called when a one-time link was used and replaced by the next one. */
  readonly onOpened?: (() => void) | undefined
}

/**
 * Admits viewers on their own machine, by a link with a one-time secret, which is exchanged for a cookie. The cookie's
 * name contains the port, because cookies are shared by all ports of a host.
 */
export class LocalSessions implements Sessions {
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

  /** Sets the port of the listener. */
  listensOn(port: number): void {
    this.#cookie = `portico-console-${port}`
  }

  /** Returns the URL that admits one browser. */
  openUrl(base: string): string {
    return `${base}/login?secret=${this.#secret}`
  }

  async find(c: Parameters<Sessions['find']>[0]) {
    const id = getCookie(c, this.#cookie)
    if (id === undefined || !this.#sessions.has(id)) return undefined
    return { id, viewer: { id: 'local', name: this.#options.name }, canLogOut: false }
  }

  routes(app: Hono): void {
    app.get('/login', (c) => {
      // A program that previews links asks so. It must not use the secret up.
      if (c.req.method === 'HEAD') throw new PublicError('method_not_allowed', { headers: { allow: 'GET' } })
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
/** The text for a browser without a session. */
export const NO_SESSION = 'Open the link that the terminal shows: it lets one browser in.'
