import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { Browser, LoggedInUser, Login, LoginStep, PendingAuthorization } from './login.ts'
import { subjectOf } from './subject.ts'
import { type Upstream, UpstreamDenied, type UpstreamLogin } from './upstream.ts'

interface ChainLoginOptions {
  readonly issuer: string
  /** At least one, in the order in which users log in; the first says who the user is. */
  readonly upstreams: readonly Upstream[]
  readonly store: RecordStore
  readonly keyed: () => KeyedHash
  readonly tokens: UpstreamTokenStore
  /** How long a user may take at one provider, and how long what it gives is kept; in seconds. */
  readonly loginS: number
  readonly keepS: number
  readonly log: Logger
}

/** What the providers before have given: the user, and the login that their tokens are kept under. */
interface SoFar {
  readonly login: string
  readonly user: LoggedInUser
}

/** A login that is under way at a provider, found by the `state` that the provider sends back. */
interface Underway {
  readonly uid: string
  readonly upstream: string
  readonly nonce: string
  readonly verifier: string
  /** Digest of the browser's secret. */
  readonly browser: string
  /** Absent at the first provider. */
  readonly soFar?: SoFar
}

const secret = () => randomBytes(32).toString('base64url')

/**
 * Users log in at one provider after the other, each with a state, nonce and verifier of its own. What a login has got
 * from providers is forgotten where it fails at a later one.
 */
export class ChainLogin implements Login {
  readonly #options: ChainLoginOptions

  constructor(options: ChainLoginOptions) {
    this.#options = options
  }

  async begin({ uid }: PendingAuthorization, { id }: Browser): Promise<LoginStep> {
    const { upstreams, keyed, log } = this.#options
    const [first] = upstreams as readonly [Upstream]
    try {
      return await this.#goTo(first, { uid, browser: keyed().of('browser', id) })
    } catch (error) {
      log.warn({ err: error, provider: first.name }, 'a login can’t begin')
      return { kind: 'failed', uid, error: 'server_error' }
    }
  }

  async callback(parameters: URLSearchParams, browser: Browser | undefined): Promise<LoginStep> {
    const state = parameters.get('state')
    if (state === null || (!parameters.has('code') && !parameters.has('error'))) return { kind: 'refused' }
    const underway = await this.#take(state)
    if (underway === undefined) return { kind: 'refused' }
    const login = underway.soFar?.login ?? secret()
    try {
      // Somebody else's browser: who began this login is not who ends it (RFC 9700 section 4.7).
      if (browser !== undefined && this.#options.keyed().matches('browser', browser.id, underway.browser))
        return await this.#exchange(parameters, { ...underway, state, login })
      await this.#forget(login)
      return { kind: 'refused' }
    } catch (error) {
      await this.#forget(login)
      return { kind: 'failed', uid: underway.uid, error: this.#reasonOf(error, underway) }
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#options.upstreams.map((upstream) => upstream.close()))
  }

  /** Sends the browser to a provider. */
  async #goTo(upstream: Upstream, found: Pick<Underway, 'uid' | 'browser' | 'soFar'>): Promise<LoginStep> {
    const { store, keyed, loginS } = this.#options
    const [state, nonce, verifier] = [secret(), secret(), secret()]
    const location = await upstream.authorizationUrl({ state, nonce, verifier })
    const underway: Underway = { ...found, upstream: upstream.name, nonce, verifier }
    await store.set('login', keyed().of('state', state), JSON.stringify(underway), loginS)
    return { kind: 'respond', response: new Response(null, { status: 302, headers: { location } }) }
  }

  /** The login of a `state`: of several callbacks with it one gets it. */
  async #take(state: string): Promise<Underway | undefined> {
    const { store, keyed } = this.#options
    for (const name of keyed().all('state', state)) {
      const text = await store.take('login', name)
      if (text !== undefined) return JSON.parse(text) as Underway
    }
    return undefined
  }

  async #exchange(
    parameters: URLSearchParams,
    { uid, upstream: name, browser, soFar, login, ...checks }: Underway & { state: string; login: string },
  ): Promise<LoginStep> {
    const { upstreams, tokens, keepS } = this.#options
    const place = upstreams.findIndex((one) => one.name === name)
    const upstream = upstreams[place]
    // The configuration has changed meanwhile: another provider says now who the user is.
    if (upstream === undefined || (place === 0) !== (soFar === undefined)) throw new Error('the providers have changed')
    const found = await upstream.exchange(parameters, checks)
    const user = soFar?.user ?? this.#userOf(upstream, found)
    const set = { ...found.tokens, owner: user.subject }
    await tokens.put({ login, provider: name }, set, { ttlMs: keepS * 1000 })
    const next = upstreams[place + 1]
    if (next === undefined) return { kind: 'done', uid, login, user }
    return this.#goTo(next, { uid, browser, soFar: { login, user } })
  }

  #userOf(upstream: Upstream, { issuer: home, tokens, name, email }: UpstreamLogin): LoggedInUser {
    return {
      subject: subjectOf(this.#options.issuer, upstream.name, home, tokens.subject),
      ...(name !== undefined && { name }),
      ...(email !== undefined && { email }),
    }
  }

  /** Forgets what a login has got so far. */
  async #forget(login: string): Promise<void> {
    const { tokens, log } = this.#options
    await tokens
      .removeLogin(login)
      .catch((error: unknown) => log.warn({ err: error }, 'tokens of a login are not forgotten'))
  }

  #reasonOf(error: unknown, { upstream }: Underway): 'access_denied' | 'server_error' {
    const isDenied = error instanceof UpstreamDenied
    this.#options.log[isDenied ? 'debug' : 'warn']({ err: error, provider: upstream }, 'a login failed')
    return isDenied ? 'access_denied' : 'server_error'
  }
}
