import { hash, randomUUID } from 'node:crypto'
import { BlockList, isIPv6 } from 'node:net'
import type { Context, Hono } from 'hono'
import { getCookie } from 'hono/cookie'
import { LRUCache } from 'lru-cache'
import { isObject } from '../../crds/settings/json.ts'
import { readBody } from '../../dataplane/server/body.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import { networksOf } from '../../dataplane/server/network-of.ts'
import { type ConsoleConfig, milliseconds } from '../config/console.ts'
import { type OidcClient, readExpiry, type Tokens } from './oidc.ts'
import type { Seal } from './seal.ts'
import { isFormToken, type Session, type Sessions } from './sessions.ts'

/** The sealed content of a session's cookie. Times are milliseconds since 1970. */
interface StoredSession {
  readonly id: string
  readonly name: string
  readonly token: string
  readonly refresh?: string | undefined
  readonly endsAt?: number | undefined
  readonly since: number
  readonly seen: number
  readonly namespaces?: readonly string[] | undefined
}

interface LoginOptions {
  readonly config: ConsoleConfig
  readonly seal: Seal
  readonly oidc: OidcClient | undefined
  /** Returns the user name of a token's owner, by SelfSubjectReview. Throws a PlaceError if the cluster refuses it. */
  whoIs(token: string): Promise<string>
  readonly pages: LoginPages
}

/** The pages of a login. */
interface LoginPages {
  /** Renders the form for a token. `to`: the path to go to afterwards. */
  tokenForm(c: Context, to: string, message?: string): Response
  /** Renders the page that redirects to a path by itself. */
  loggedIn(c: Context, to: string): Response
  loggedOut(c: Context): Response
}

const LARGEST_FORM = 64 * 1024
const LONGEST_TOKEN = 32 * 1024
const LOGIN_SECONDS = 600
const REFRESH_BEFORE_MS = 60_000
/** The least time between two updates of a cookie, in milliseconds. */
const SEEN_MS = 60_000
const MOST_IN_MEMORY = 200
/** The most sessions of one user in memory. */
const MOST_OF_ONE = 8
/** The most ended sessions that are remembered. */
const MOST_ENDED = 100_000

const computeDigest = (token: string): string => hash('sha256', token, 'hex')

const isStoredSession = (value: unknown): value is StoredSession =>
  isObject(value) &&
  typeof value['id'] === 'string' &&
  typeof value['token'] === 'string' &&
  typeof value['since'] === 'number'

/** Admits viewers of a console in a pod: by a login at a provider, a pasted token, or a token from a trusted proxy. */
export class LoginSessions implements Sessions {
  readonly isLocal = false
  readonly loginPath: string | undefined
  readonly formKey: Buffer
  readonly #options: LoginOptions
  readonly #cookies: Cookies
  /** Sessions whose sealed form is too long for cookies. */
  readonly #memory: LRUCache<string, StoredSession>
  /** The sessions that were ended here, by id. A copy of their cookies opens nothing. */
  readonly #ended: LRUCache<string, true>
  readonly #checks = new LoginChecks()
  readonly #refreshing = new Map<string, Promise<StoredSession | undefined>>()
  readonly #proxies: BlockList | undefined
  readonly #names = new LRUCache<string, Promise<string>>({ max: 1_000, ttl: 60_000 })

  constructor(options: LoginOptions) {
    const { config, seal } = options
    this.#options = options
    this.formKey = seal.key
    this.#cookies = new Cookies(config.publicUrl.startsWith('http:'))
    const ttl = milliseconds(config.session.maxAge)
    this.#memory = new LRUCache({ max: MOST_IN_MEMORY, ttl })
    this.#ended = new LRUCache({ max: MOST_ENDED, ttl })
    this.loginPath = config.login.proxy === undefined ? '/login' : undefined
    this.#proxies = config.login.proxy && networks(config.login.proxy.trustedProxies)
  }

  /** The number of sessions that exist on this replica only, for `/status`. */
  get inMemory(): number {
    return this.#memory.size
  }

  async find(c: Context): Promise<Session | undefined> {
    if (this.#proxies !== undefined) return this.#ofProxy(c, this.#proxies)
    const kept = await this.#read(c)
    return kept && { id: kept.id, canLogOut: true, viewer: toViewer(kept) }
  }

  /** A token counts only if the peer address itself is a trusted proxy. Forwarding headers are ignored. */
  async #ofProxy(c: Context, proxies: BlockList): Promise<Session | undefined> {
    const { incoming } = c.env as { incoming?: { socket: { remoteAddress?: string } } }
    const peer = incoming?.socket.remoteAddress?.replace(/^::ffff:/, '') ?? ''
    if (!proxies.check(peer, isIPv6(peer) ? 'ipv6' : 'ipv4'))
      throw new PublicError('forbidden', { message: 'Come through the proxy in front of this console.' })
    const header = this.#options.config.login.proxy?.tokenHeader ?? ''
    const token = (c.req.header(header) ?? '').replace(/^Bearer /i, '').trim()
    if (token === '' || token.includes(','))
      throw new PublicError('unauthenticated', { message: `The proxy in front sends no token in ${header}.` })
    const id = computeDigest(token)
    let name = this.#names.get(id)
    if (name === undefined) {
      name = this.#options.whoIs(token)
      this.#names.set(id, name)
      name.catch(() => this.#names.delete(id))
    }
    return { id, canLogOut: false, viewer: { id, name: await name, token } }
  }

  async #read(c: Context): Promise<StoredSession | undefined> {
    const sealed = this.#cookies.get(c, '')
    if (sealed === '') return undefined
    const opened = await this.#options.seal.open('session', sealed)
    const inMemory =
      isObject(opened) && typeof opened['memory'] === 'string' ? this.#memory.get(opened['memory']) : undefined
    const kept = inMemory ?? (isStoredSession(opened) ? opened : undefined)
    if (kept === undefined || this.#ended.has(kept.id)) return undefined
    const { maxAge, idle } = this.#options.config.session
    const now = Date.now()
    if (now - kept.since > milliseconds(maxAge) || now - kept.seen > milliseconds(idle)) return undefined
    const fresh = await this.#fresh(kept, now)
    if (fresh !== undefined && (fresh !== kept || now - kept.seen > SEEN_MS))
      await this.#write(c, { ...fresh, seen: now })
    return fresh
  }

  /**
   * Returns the session with a valid token; undefined if it has ended. Only one refresh runs for a session at a time.
   */
  async #fresh(kept: StoredSession, now: number): Promise<StoredSession | undefined> {
    if (kept.endsAt === undefined || kept.endsAt - now > REFRESH_BEFORE_MS) return kept
    if (kept.refresh === undefined || this.#options.oidc === undefined) return kept.endsAt > now ? kept : undefined
    const key = `${kept.id} ${computeDigest(kept.refresh)}`
    let refreshing = this.#refreshing.get(key)
    if (refreshing === undefined) {
      refreshing = this.#refresh(kept)
      this.#refreshing.set(key, refreshing)
      // The result is kept for a while, because some requests still carry the cookie from before the refresh.
      const forget = () => setTimeout(() => this.#refreshing.delete(key), 10_000).unref()
      refreshing.then(forget, forget)
    }
    return refreshing
  }

  async #refresh(kept: StoredSession): Promise<StoredSession | undefined> {
    try {
      const tokens = await this.#options.oidc?.refresh(kept.refresh as string)
      return tokens && { ...kept, ...tokens, refresh: tokens.refresh ?? kept.refresh }
    } catch {
      return undefined
    }
  }

  async #write(c: Context, kept: StoredSession): Promise<void> {
    const seconds = Math.floor(milliseconds(this.#options.config.session.maxAge) / 1000)
    let sealed = await this.#options.seal.seal('session', kept)
    if (sealed.length > MOST_SEALED) {
      this.#keepInMemory(kept)
      sealed = await this.#options.seal.seal('session', { memory: kept.id })
    }
    this.#cookies.set(c, '', sealed, seconds)
  }

  /** Stores a session in memory. A user with too many sessions ends their own oldest one, and nobody else's. */
  #keepInMemory(kept: StoredSession): void {
    const own = [...this.#memory.entries()].filter(([id, { name }]) => name === kept.name && id !== kept.id)
    for (const [id] of own.slice(MOST_OF_ONE - 1)) this.#memory.delete(id)
    this.#memory.set(kept.id, kept)
  }

  /** Begins a session with a token that the cluster accepts. */
  async #begin(c: Context, tokens: Tokens, to: string): Promise<Response> {
    const name = await this.#options.whoIs(tokens.token)
    const now = Date.now()
    await this.#write(c, { ...tokens, id: randomUUID(), name, since: now, seen: now })
    // An HTTP redirect would continue a chain that began at another site, which the guard refuses. A refresh begins a
    // new chain.
    c.header('refresh', `0;url=${to}`)
    return this.#options.pages.loggedIn(c, to)
  }

  routes(app: Hono): void {
    if (this.#proxies !== undefined) return
    const { oidc, pages } = this.#options
    if (oidc === undefined) {
      app.get('/login', (c) => pages.tokenForm(c, returnPath(c.req.query('to'))))
      app.post('/login', (c) => this.#pasted(c))
    } else {
      app.get('/login', (c) => this.#toProvider(c, oidc))
      app.get('/login/callback', (c) => this.#fromProvider(c, oidc))
    }
    app.get('/logged-out', (c) => pages.loggedOut(c))
    app.post('/logout', (c) => this.#logout(c))
    app.get('/namespaces', (c) => this.#setNamespaces(c))
  }

  async #pasted(c: Context): Promise<Response> {
    const form = new URLSearchParams((await readBody(c, LARGEST_FORM)).toString())
    const token = form.get('token')?.trim() ?? ''
    const to = returnPath(form.get('to') ?? undefined)
    if (token.length > LONGEST_TOKEN || !/^[\w.~+/=-]+$/.test(token))
      return loginRefused(this.#options.pages.tokenForm(c, to, 'This is not a token.'))
    return this.#checks.run(c, () => this.#begin(c, { token, endsAt: readExpiry(token) }, to))
  }

  async #toProvider(c: Context, oidc: OidcClient): Promise<Response> {
    const { url, ...secrets } = await oidc.start()
    const sealed = await this.#options.seal.seal('login', {
      ...secrets,
      to: returnPath(c.req.query('to')),
      at: Date.now(),
    })
    this.#cookies.set(c, '-login', sealed, LOGIN_SECONDS)
    return c.redirect(url, 303)
  }

  async #fromProvider(c: Context, oidc: OidcClient): Promise<Response> {
    const opened = await this.#options.seal.open('login', this.#cookies.get(c, '-login'))
    this.#cookies.set(c, '-login', '', 0)
    if (!isObject(opened) || Date.now() - Number(opened['at']) > LOGIN_SECONDS * 1000)
      throw new PublicError('forbidden', {
        message: 'This login was begun in another browser, or took too long. Log in again.',
      })
    return this.#checks.run(c, async () => {
      const tokens = await oidc.finish(new URL(c.req.url).search, opened)
      return this.#begin(c, tokens, returnPath(String(opened['to'])))
    })
  }

  async #logout(c: Context): Promise<Response> {
    const kept = await this.#read(c)
    const form = new URLSearchParams((await readBody(c, LARGEST_FORM)).toString())
    if (kept !== undefined && !isFormToken(form.get('form') ?? '', this.formKey, kept.id, '/logout'))
      throw new PublicError('forbidden')
    if (kept !== undefined) this.#end(kept)
    this.#cookies.set(c, '', '', 0)
    // A redirect to the provider would log the viewer in again if the provider still has a session.
    return c.redirect('/logged-out', 303)
  }

  /**
   * Ends a session: here its cookies open nothing from now on, and at other replicas no token follows the current one. A
   * provider that is unreachable delays nobody.
   */
  #end({ id, refresh }: StoredSession): void {
    this.#memory.delete(id)
    this.#ended.set(id, true)
    if (refresh !== undefined) this.#options.oidc?.revoke(refresh).catch(() => undefined)
  }

  /** Stores the namespaces that the viewer has entered in the session. */
  async #setNamespaces(c: Context): Promise<Response> {
    const kept = await this.#read(c)
    if (kept === undefined) throw new PublicError('session_ended')
    const names = (c.req.query('names') ?? '')
      .split(/[\s,]+/)
      .filter((name) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name))
    await this.#write(c, { ...kept, seen: Date.now(), namespaces: [...new Set(names)].slice(0, 50) })
    return c.redirect('/', 303)
  }
}

const loginRefused = (response: Response): Response =>
  new Response(response.body, { status: 400, headers: response.headers })

const toViewer = ({ name, token, namespaces }: StoredSession) => ({
  id: computeDigest(token),
  name,
  token,
  ...(namespaces && { namespaces }),
})

/** Parses network ranges. Throws an Error for a text that is none. */
function networks(texts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const given of texts) {
    const [address = '', prefix] = given.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    list.addSubnet(address, prefix === undefined ? (family === 'ipv6' ? 128 : 32) : Number(prefix), family)
  }
  return list
}

/** Returns the path of this console to return to after a login; `/` for any other text. */
function returnPath(given: string | undefined): string {
  const path = given ?? '/'
  const isOwn =
    /^\/(?![/\\])[\x21-\x7e]*$/.test(path) && !/[\\]|%(?:2f|5c|0[ad])/i.test(path) && !path.startsWith('/login')
  return isOwn && path.length <= 2_000 ? path : '/'
}

/** The longest part of a cookie's value. Browsers limit a cookie with its name and attributes to 4,096 bytes. */
const PART = 3_800
const MOST_PARTS = 3

/** The longest sealed session that fits into cookies. */
const MOST_SEALED = PART * MOST_PARTS

/**
 * The session cookies. Their names begin with `__Host-` and they are Secure, unless the console itself is on plain http
 * on loopback.
 */
class Cookies {
  readonly #name: string
  readonly #attributes: string

  constructor(isPlain: boolean) {
    this.#name = isPlain ? 'portico-console' : '__Host-portico-console'
    this.#attributes = `Path=/; HttpOnly; SameSite=Lax${isPlain ? '' : '; Secure'}`
  }

  /** Stores a text in up to three cookies, and removes those of an earlier text. */
  set(c: Context, suffix: string, text: string, maxAgeSeconds: number): void {
    for (let part = 0; part < MOST_PARTS; part++) {
      const piece = text.slice(part * PART, (part + 1) * PART)
      const name = `${this.#name}${suffix}.${part + 1}`
      if (piece !== '')
        c.header('set-cookie', `${name}=${piece}; Max-Age=${maxAgeSeconds}; ${this.#attributes}`, { append: true })
      else if (getCookie(c, name) !== undefined || text === '')
        c.header('set-cookie', `${name}=; Max-Age=0; ${this.#attributes}`, { append: true })
    }
  }

  get(c: Context, suffix: string): string {
    const parts = [1, 2, 3].map((part) => getCookie(c, `${this.#name}${suffix}.${part}`) ?? '')
    return parts.join('')
  }
}

/** The most concurrent checks, of all and of one network (for IPv6 a /64, a /56 and a /48). */
const MOST_CHECKS = 32
const MOST_CHECKS_OF_NETWORK = 8

/**
 * Limits the checks of viewers who are not identified yet. Anybody may cause such a check, and each one asks the API
 * server or the provider.
 */
class LoginChecks {
  #all = 0
  readonly #networks = new Map<string, number>()

  /**
   * Runs a check. Throws a PublicError `rate_limited` if too many checks are running, in total or for the viewer's
   * network.
   */
  async run<T>(c: Context, check: () => Promise<T>): Promise<T> {
    const { incoming } = c.env as { incoming?: { socket: { remoteAddress?: string } } }
    const networks = networksOf(incoming?.socket.remoteAddress ?? '')
    if (this.#all >= MOST_CHECKS || networks.some((one) => (this.#networks.get(one) ?? 0) >= MOST_CHECKS_OF_NETWORK))
      throw new PublicError('rate_limited', { headers: { 'Retry-After': '1' } })
    this.#count(networks, 1)
    try {
      return await check()
    } finally {
      this.#count(networks, -1)
    }
  }

  #count(networks: readonly string[], by: number): void {
    this.#all += by
    for (const one of networks) {
      const left = (this.#networks.get(one) ?? 0) + by
      if (left > 0) this.#networks.set(one, left)
      else this.#networks.delete(one)
    }
  }
}
