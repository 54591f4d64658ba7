import { hash } from 'node:crypto'
import { SKEW_S } from '../../identity/index.ts'
import { networkHolder } from '../../server/network-of.ts'
import type { Holder } from '../../storage/fair-cache.ts'
import { isEqual, randomSecret } from '../keys/keyed-hash.ts'
import { firstRecord } from '../store/record-store.ts'
import type {
  Browser,
  Course,
  Done,
  Failed,
  LoggedInUser,
  Login,
  LoginError,
  LoginFault,
  LoginParts,
  PendingAuthorization,
  Refused,
  Respond,
  Waypoint,
} from './login.ts'
import type { LoginsUnderWay } from './logins-under-way.ts'
import { ProviderFault, toldOf } from './upstream/provider-fault.ts'
import { type Upstream, UpstreamDenied, type UpstreamLogin } from './upstream/upstream.ts'

interface ChainLoginOptions extends LoginParts {
  readonly issuer: string
  /** At least one, in the order in which users log in. */
  readonly upstreams: readonly Upstream[]
  /** Name of the one that says who the user is. */
  readonly primary: string
  /** What names a provider at the end of its callback's path, by the provider's name; absent: nothing does. */
  readonly callbackNames?: ReadonlyMap<string, string | undefined>
  /** Names of those that a login does not visit; absent: none. */
  readonly onDemand?: ReadonlySet<string>
  /** Bounds how many logins are under way; absent: they take no memory here. */
  readonly loginsUnderWay?: LoginsUnderWay | undefined
}

/** Who the user is, as one provider says it. */
interface Known {
  readonly by: string
  readonly user: LoggedInUser
  readonly authTime?: number
  readonly isSynthetic?: boolean
}

/** What the providers before have given: the login that their tokens are kept under and, where the one was there, the user. */
interface SoFar {
  readonly login: string
  readonly known?: Known
}

/** A login that is under way at a provider, found by the `state` that the provider sends back. */
interface Underway extends Course {
  readonly upstream: string
  readonly nonce: string
  readonly verifier: string
  /** When the browser was sent there, in seconds since 1970. */
  readonly sentAt: number
  /** Digest of the browser's secret. */
  readonly browser: string
  /** Absent at the first provider. */
  readonly soFar?: SoFar
}

/** What was found by the `state`, with the name that its tokens are kept under. */
interface UnderState {
  readonly state: string
  readonly login: string
}

const failed = ({ purpose, uid }: Course, error: LoginError, fault?: LoginFault): Failed => ({
  kind: 'failed',
  purpose,
  uid,
  error,
  ...(fault && { fault }),
})

/** What the page says of an error that a provider has caused. One that is away may be there a moment later. */
const faultAt = (provider: string, error: unknown): LoginFault | undefined =>
  error instanceof ProviderFault && error.isAnswer ? { provider, code: error.code } : undefined

/** Somebody else has logged in than who it has to be. */
class OtherUser extends Error {}

/** The provider has had the user log in longer ago than it was asked to. */
class StaleLogin extends Error {}

/** Whose tokens are until it is known who the user is: they are of no use to anybody. */
const NOBODY = ''

/** Who makes us keep what a login brings: its user or, where a user can't be told from others, the network. */
const holderOf = (known: Known | undefined, address: string | undefined): Holder =>
  known === undefined || known.isSynthetic === true ? networkHolder(address) : [known.user.subject]

/** What the records of a login take (1.7 kB were measured), and how often its request is in them. */
const LOGIN_BYTES = 3072
const TIMES_KEPT = 3

/** What is got at one provider is there for longer than the way to the next may take. */
const MARGIN_S = 30

const nowS = () => Math.floor(Date.now() / 1000)

/**
 * Users log in at one provider after the other, each with a state, nonce and verifier of its own. What a login has got
 * from providers is forgotten where it fails at a later one.
 */
export class ChainLogin implements Login {
  readonly #options: ChainLoginOptions

  constructor(options: ChainLoginOptions) {
    this.#options = options
  }

  begin({ uid, request, subject, maxAge, trace }: PendingAuthorization, browser: Browser): Promise<Respond | Failed> {
    const course = { purpose: 'authorize', uid, providers: this.#required() } as const
    const conditions = { ...(subject !== undefined && { subject }), ...(maxAge !== undefined && { maxAge }) }
    const traced = { ...course, ...conditions, ...(trace !== undefined && { trace }) }
    return this.#pass(traced, browser, LOGIN_BYTES + TIMES_KEPT * request.length)
  }

  pass(course: Course, browser: Browser): Promise<Respond | Failed> {
    return this.#pass(course, browser, LOGIN_BYTES)
  }

  async #pass(course: Course, { id, address }: Browser, bytes: number): Promise<Respond | Failed> {
    const { keyed, log, loginsUnderWay } = this.#options
    const [first] = course.providers
    if (loginsUnderWay?.begin(course.uid, address, bytes) === false) return failed(course, 'busy')
    try {
      return await this.#goTo(this.#upstream(first), { ...course, browser: keyed().of('browser', id) })
    } catch (error) {
      loginsUnderWay?.end(course.uid)
      log().warn({ ...toldOf(error), provider: first }, 'a login can’t begin')
      return failed(course, 'server_error', faultAt(first ?? '', error))
    }
  }

  async callback(
    parameters: URLSearchParams,
    browser: Browser | undefined,
    onFound?: (waypoint: Waypoint) => void,
    at?: string,
  ): Promise<Respond | Done | Failed | Refused> {
    const state = parameters.get('state')
    if (state === null || (!parameters.has('code') && !parameters.has('error'))) return { kind: 'refused' }
    const underway = await this.#take(state)
    if (underway === undefined) return { kind: 'refused' }
    const { purpose, uid, upstream: provider, trace } = underway
    onFound?.({ purpose, uid, provider, ...(trace !== undefined && { trace }) })
    // Somebody else's code: it must not go to the provider that this login is at (mix-up, RFC 9700 section 4.4).
    const isMixedUp = this.#options.callbackNames?.get(provider) !== at
    const step = await this.#goOn(parameters, isMixedUp ? undefined : browser, { ...underway, state })
    if (step.kind !== 'respond') this.#options.loginsUnderWay?.end(uid)
    return step
  }

  async #goOn(
    parameters: URLSearchParams,
    browser: Browser | undefined,
    underway: Omit<Underway & UnderState, 'login'>,
  ): Promise<Respond | Done | Failed | Refused> {
    const login = underway.soFar?.login ?? randomSecret()
    try {
      // Somebody else's browser: who began this login is not who ends it (RFC 9700 section 4.7).
      if (browser !== undefined && this.#options.keyed().matches('browser', browser.id, underway.browser))
        return await this.#exchange(parameters, { ...underway, login }, browser)
      await this.#forget(login)
      return { kind: 'refused' }
    } catch (error) {
      await this.#forget(login)
      return failed(underway, this.#reasonOf(error, underway), faultAt(underway.upstream, error))
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#options.upstreams.map((upstream) => upstream.close()))
  }

  /** Sends the browser to a provider. */
  async #goTo(upstream: Upstream, found: Course & Pick<Underway, 'browser' | 'soFar'>): Promise<Respond> {
    const { store, keyed, loginS } = this.#options
    const [state, nonce, verifier] = [randomSecret(), randomSecret(), randomSecret()]
    const location = await upstream.authorizationUrl({ state, nonce, verifier }, found.maxAge)
    const underway: Underway = { ...found, upstream: upstream.name, nonce, verifier, sentAt: nowS() }
    await store.set('login', keyed().of('state', state), JSON.stringify(underway), loginS)
    return { kind: 'respond', response: new Response(null, { status: 302, headers: { location } }) }
  }

  /** The login of a `state`: of several callbacks with it one gets it. */
  #take(state: string): Promise<Underway | undefined> {
    const { store, keyed } = this.#options
    return firstRecord<Underway>(keyed().all('state', state), (name) => store.take('login', name))
  }

  async #exchange(
    parameters: URLSearchParams,
    { upstream: name, browser, soFar, login, state, nonce, verifier, sentAt, ...course }: Underway & UnderState,
    { address }: Browser,
  ): Promise<Respond | Done> {
    const { primary, tokens, loginS } = this.#options
    const { purpose, uid, providers, subject, maxAge } = course
    // The configuration has changed meanwhile: who logs in now goes another way.
    if (purpose === 'authorize' && providers.join() !== this.#required().join())
      throw new Error('the providers have changed')
    const upstream = this.#upstream(name)
    const found = await upstream.exchange(parameters, { state, nonce, verifier })
    // Providers may ignore what they are asked (OpenID Connect Core 1.0 section 3.1.2.1).
    if (maxAge !== undefined && found.authTime !== undefined && found.authTime + maxAge + SKEW_S < sentAt)
      throw new StaleLogin()
    const known = name === primary ? this.#userOf(upstream, found) : soFar?.known
    // Before anything goes on elsewhere: a link of somebody else's must not bring them what this person has.
    if (subject !== undefined && known !== undefined && !isEqual(known.user.subject, subject)) throw new OtherUser()
    const next = providers[providers.indexOf(name) + 1]
    // Nobody acts by this login: nothing of it is kept.
    if (purpose === 'account' && next === undefined)
      return { kind: 'done', purpose, uid, login, ...this.#identified(known) }
    // A login that nobody goes on with leaves nothing.
    const ttlMs = (loginS + MARGIN_S) * 1000
    const holder = holderOf(known, address)
    await tokens.put({ login, provider: name }, { ...found.tokens, owner: NOBODY }, { ttlMs, holder })
    if (next === undefined) {
      // What a link brings is nobody's until whoever has begun it takes it.
      const who = purpose === 'link' ? this.#identified(known) : await this.#owned({ login, holder }, providers, known)
      return { kind: 'done', purpose, uid, login, ...who }
    }
    return this.#goTo(this.#upstream(next), { ...course, browser, soFar: { login, ...(known && { known }) } })
  }

  /** Names of the providers that every login passes, in order. */
  #required(): readonly string[] {
    const { upstreams, onDemand } = this.#options
    return upstreams.map(({ name }) => name).filter((name) => onDemand?.has(name) !== true)
  }

  /** The provider of this name. Throws where the configuration has changed since it was named. */
  #upstream(name: string | undefined): Upstream {
    const found = this.#options.upstreams.find((one) => one.name === name)
    if (found === undefined) throw new Error('the providers have changed')
    return found
  }

  /** Who the user is. Throws where the provider that says so was not among those that were passed. */
  #identified(known: Known | undefined): Omit<Known, 'by'> {
    if (known?.by !== this.#options.primary) throw new Error('the providers have changed')
    const { by: _, ...who } = known
    return who
  }

  /** Makes what providers have given the user's own, once it is known who that is. */
  async #owned(
    { login, holder }: { readonly login: string; readonly holder: Holder },
    providers: readonly string[],
    known: Known | undefined,
  ): Promise<Omit<Known, 'by'>> {
    const { tokens, carried, keepS } = this.#options
    const who = this.#identified(known)
    for (const provider of providers) {
      const place = { login, provider }
      const given = await tokens.get(place)
      const owned = given && { ...given, owner: who.user.subject }
      // A user who never comes again has no later login.
      const own = owned && (who.isSynthetic === true ? owned : await carried.completed(provider, owned))
      const options = { replaces: given?.version, ttlMs: keepS * 1000, holder }
      if (own === undefined || (await tokens.put(place, own, options)) === undefined)
        throw new Error('what a provider has given is there no more')
    }
    return who
  }

  #userOf(upstream: Upstream, found: UpstreamLogin): Known {
    const { issuer: home, tokens, name, email, authTime, isSynthetic } = found
    const user: LoggedInUser = {
      subject: subjectOf(this.#options.issuer, upstream.name, home, tokens.subject),
      ...(name !== undefined && { name }),
      ...(email !== undefined && { email }),
    }
    return {
      by: upstream.name,
      user,
      ...(authTime !== undefined && { authTime: Math.min(authTime, nowS()) }),
      ...(isSynthetic === true && { isSynthetic }),
    }
  }

  /** Forgets what a login has got so far. */
  async #forget(login: string): Promise<void> {
    const { tokens, log } = this.#options
    await tokens
      .removeLogin(login)
      .catch((error: unknown) => log().warn({ err: error }, 'tokens of a login are not forgotten'))
  }

  #reasonOf(error: unknown, { upstream }: Underway): LoginError {
    if (error instanceof OtherUser) {
      this.#options.log().warn({ provider: upstream }, 'somebody else has logged in than who it had to be')
      return 'other_user'
    }
    if (error instanceof StaleLogin) {
      this.#options
        .log()
        .warn({ provider: upstream }, 'a provider did not have the user log in as lately as it was asked to')
      return 'stale_login'
    }
    const isDenied = error instanceof UpstreamDenied
    this.#options.log()[isDenied ? 'info' : 'warn']({ ...toldOf(error), provider: upstream }, 'a login failed')
    return isDenied ? 'access_denied' : 'server_error'
  }
}

/**
 * The name of a user in our tokens, a UUID (RFC 9562 section 5.8): the same for the same user of the same provider, at
 * every replica and after every restart, another one for every other. It is made from the issuer, the provider's name
 * and issuer, and the user's name there, each with its length, so that no two of them run into each other.
 */
function subjectOf(...parts: readonly string[]): string {
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('')
  const hex = hash('sha256', `portico-subject\0${text}`, 'hex').slice(0, 32)
  const variant = ((Number.parseInt(hex[16] as string, 16) & 0x3) | 0x8).toString(16)
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, variant + hex.slice(17, 20), hex.slice(20)].join(
    '-',
  )
}
