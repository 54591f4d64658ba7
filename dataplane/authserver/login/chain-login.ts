import { decodeJwt } from 'jose'
import type { AuthServerConfig } from '../../config/auth-server.ts'
import { SKEW_S } from '../../identity/index.ts'
import { networkHolder } from '../../server/network-of.ts'
import type { Holder } from '../../storage/fair-cache.ts'
import type { Sealer } from '../../upstream-tokens/index.ts'
import { isEqual, randomSecret } from '../keys/keyed-hash.ts'
import { deriveSubject } from '../provider/subject.ts'
import { firstRecord } from '../store/record-store.ts'
import type {
  Browser,
  Choose,
  Done,
  Failed,
  FlowPosition,
  LoggedInUser,
  LoginError,
  LoginFault,
  LoginFlow,
  LoginParts,
  Open,
  PendingAuthorization,
  Purpose,
  Refused,
  Respond,
} from './login.ts'
import type { LoginsUnderWay } from './logins-under-way.ts'
import { createQuestions } from './questions.ts'
import { logFields, ProviderFault } from './upstream/provider-fault.ts'
import { type Upstream, UpstreamDenied, type UpstreamLogin } from './upstream/upstream.ts'

interface ChainLoginOptions extends LoginParts {
  readonly issuer: string
  /** The providers in the order in which users log in; at least one. */
  readonly upstreams: readonly Upstream[]
  /**
   * Names of the providers that identify users. If there are several, the user chooses one, and the login begins there.
   */
  readonly primaries: readonly string[]
  /** Seals the login in the page on which a user chooses; needed if there are several providers to choose from. */
  readonly pageSealer?: Sealer
  /** The last path segment of each provider's callback, by the provider's name; absent: the shared callback. */
  readonly callbackNames?: ReadonlyMap<string, string | undefined>
  /** Chooses the providers after the first one by the user's claims; absent: a login visits all of them. */
  readonly filter?: AuthServerConfig['upstreamFilter']
  /** Names of the providers that a login does not visit; absent: none. */
  readonly onDemand?: ReadonlySet<string>
  /** Returns the mark of a provider; under the same name a changed configuration may have another one. Absent: none has. */
  readonly markOf?: (provider: string) => string | undefined
  /** Limits the memory of the logins that are under way; absent: logins take no memory here. */
  readonly loginsUnderWay?: LoginsUnderWay | undefined
}

/** The identity of the user, from one provider. */
interface Known extends Pick<Done, 'user' | 'by' | 'authTime' | 'isSynthetic'> {
  /** The mark of that provider at the login. */
  readonly mark?: string
}

/** The results of earlier providers: the login that keeps their tokens and, after the primary one, the user. */
interface SoFar {
  readonly login: string
  readonly known?: Known
  /** Names of all providers that this login visits, if the filter has chosen them. */
  readonly visits?: readonly string[]
}

/** A login whose user has yet to choose where to log in. */
type Undecided = Open<LoginFlow> & { readonly bytes: number }

/** A login that waits for its user at a provider. It is found by the `state` that the provider returns. */
interface Underway extends LoginFlow {
  readonly upstream: string
  /** The mark of that provider. Its code must not go to another one of the same name. */
  readonly mark?: string
  readonly nonce: string
  readonly verifier: string
  /** The time of the redirect to the provider, in seconds since 1970. */
  readonly sentAt: number
  /** Digest of the browser's secret. */
  readonly browser: string
  /** Absent at the first provider. */
  readonly soFar?: SoFar
}

/** The `state` of a login, and the name that its tokens are kept under. */
interface UnderState {
  readonly state: string
  readonly login: string
}

const failed = ({ purpose, uid }: LoginFlow, error: LoginError, fault?: LoginFault): Failed => ({
  kind: 'failed',
  purpose,
  uid,
  error,
  ...(fault && { fault }),
})

/** Returns the fault for the page if the provider has answered. An unreachable provider may be back a moment later. */
const faultAt = (provider: string, error: unknown): LoginFault | undefined =>
  error instanceof ProviderFault && error.isAnswer ? { provider, code: error.code } : undefined

/** A different user than the required one has logged in. */
class OtherUser extends Error {}

/** The user's last login at the provider is older than requested. */
class StaleLogin extends Error {}

/** The owner of tokens while the user is unknown. Nobody can use them. */
const NOBODY = ''

/** Returns the holder of a login's records: the user or, without a known user, the network. */
const chooseHolder = (known: Known | undefined, address: string | undefined): Holder =>
  known === undefined || known.isSynthetic === true ? networkHolder(address) : [known.user.subject]

/** Size of a login's records in bytes (1.7 kB were measured), and the number of copies of its request in them. */
const LOGIN_BYTES = 3072
const TIMES_KEPT = 3

/** The time by which tokens outlast the login at the next provider, in seconds. */
const MARGIN_S = 30

const nowS = () => Math.floor(Date.now() / 1000)

/** Identifies the user between an authorization request and its code. */
export type Login = Pick<ChainLogin, 'begin' | 'pass' | 'choose' | 'callback' | 'close'>

/**
 * Logs users in at one provider after another, each with its own state, nonce and verifier. If a later provider fails,
 * the tokens of the earlier ones are removed.
 */
export class ChainLogin {
  readonly #options: ChainLoginOptions
  readonly #choices: ReturnType<typeof createQuestions<Undecided>> | undefined

  constructor(options: ChainLoginOptions) {
    this.#options = options
    const { pageSealer, loginS: lifeS } = options
    this.#choices = pageSealer && createQuestions<Undecided>(pageSealer, { page: 'choice page', lifeS })
  }

  begin(
    { uid, request, subject, maxAge, trace }: PendingAuthorization,
    browser: Browser,
  ): Promise<Respond | Choose | Failed> {
    const flow = { purpose: 'authorize', uid } as const
    const conditions = { ...(subject !== undefined && { subject }), ...(maxAge !== undefined && { maxAge }) }
    const traced = { ...flow, ...conditions, ...(trace !== undefined && { trace }) }
    return this.#enter({ ...traced, bytes: LOGIN_BYTES + TIMES_KEPT * request.length }, browser)
  }

  /**
   * Sends a browser through providers for another purpose than an authorization request. Without `providers` it visits
   * the one that identifies users.
   */
  pass(flow: Open<LoginFlow>, browser: Browser): Promise<Respond | Choose | Failed> {
    return this.#enter({ ...flow, bytes: LOGIN_BYTES }, browser)
  }

  /**
   * Continues from the page on which the user chooses a provider. `token` is the page's. If `provider` is undefined,
   * the page is shown again with all providers. `onFound` receives the login that the page belongs to.
   */
  async choose(
    token: string,
    provider: string | undefined,
    browser: Browser | undefined,
    onFound?: (position: FlowPosition) => void,
  ): Promise<Respond | Choose | Failed | Refused> {
    const undecided = browser && this.#choices?.open(token, browser)
    if (browser === undefined || undecided === undefined) return { kind: 'refused' }
    const { purpose, uid, trace } = undecided
    onFound?.({ purpose, uid, ...(trace !== undefined && { trace }) })
    if (provider === undefined) return { kind: 'choose', purpose, uid, token, isListed: true }
    // The page is from an earlier configuration.
    if (!this.#isChoice || !this.#options.primaries.includes(provider)) return { kind: 'refused' }
    const { bytes, ...flow } = undecided
    // The page may be answered again. Each provider gets one place and one `state` of its own.
    const name = choiceName(uid, provider)
    const state = this.#options.keyed().of('choice', name)
    return this.#pass({ ...flow, providers: this.#way(purpose, provider) }, browser, { bytes, name, state })
  }

  get #isChoice(): boolean {
    return this.#options.primaries.length > 1
  }

  /** Returns the providers that a login visits if it begins at this one. */
  #way(purpose: Purpose, primary: string): readonly string[] {
    return purpose === 'authorize' ? this.#required(primary) : [primary]
  }

  /** Begins a login. If several providers identify users, the user chooses first. */
  async #enter({ bytes, ...flow }: Undecided, browser: Browser): Promise<Respond | Choose | Failed> {
    const { primaries, loginsUnderWay } = this.#options
    const { purpose, uid, providers } = flow
    if (providers !== undefined || !this.#isChoice || this.#choices === undefined) {
      const way = providers ?? this.#way(purpose, primaries[0] ?? '')
      return this.#pass({ ...flow, providers: way }, browser, { bytes, name: uid })
    }
    if (loginsUnderWay?.begin(uid, browser.address, bytes) === false) return failed({ ...flow, providers: [] }, 'busy')
    const token = this.#choices.seal({ ...flow, bytes: LOGIN_BYTES }, browser)
    return { kind: 'choose', purpose, uid, token, isListed: false }
  }

  async #pass(
    flow: LoginFlow,
    { id, address }: Browser,
    { bytes, name, state }: { readonly bytes: number; readonly name: string; readonly state?: string },
  ): Promise<Respond | Failed> {
    const { keyed, log, loginsUnderWay } = this.#options
    const [first] = flow.providers
    if (loginsUnderWay?.begin(name, address, bytes) === false) return failed(flow, 'busy')
    try {
      return await this.#goTo(this.#upstream(first), { ...flow, browser: keyed().of('browser', id) }, state)
    } catch (error) {
      loginsUnderWay?.end(name)
      log().warn({ ...logFields(error), provider: first }, 'a login can’t begin')
      return failed(flow, 'server_error', faultAt(first ?? '', error))
    }
  }

  /**
   * Handles the parameters of a callback, each of which occurs once. `onFound` receives the login that they belong to.
   * `at` is the path segment that names the provider.
   */
  async callback(
    parameters: URLSearchParams,
    browser: Browser | undefined,
    onFound?: (position: FlowPosition) => void,
    at?: string,
  ): Promise<Respond | Done | Failed | Refused> {
    const state = parameters.get('state')
    if (state === null || (!parameters.has('code') && !parameters.has('error'))) return { kind: 'refused' }
    const underway = await this.#take(state)
    if (underway === undefined) return { kind: 'refused' }
    const { purpose, uid, upstream: provider, trace } = underway
    onFound?.({ purpose, uid, provider, ...(trace !== undefined && { trace }) })
    // The code belongs to a different provider and must not go to this one (mix-up attack, RFC 9700 section 4.4).
    const isMixedUp = this.#options.callbackNames?.get(provider) !== at
    const step = await this.#goOn(parameters, isMixedUp ? undefined : browser, { ...underway, state })
    if (step.kind !== 'respond')
      for (const name of [uid, choiceName(uid, underway.providers[0])]) this.#options.loginsUnderWay?.end(name)
    return step
  }

  async #goOn(
    parameters: URLSearchParams,
    browser: Browser | undefined,
    underway: Omit<Underway & UnderState, 'login'>,
  ): Promise<Respond | Done | Failed | Refused> {
    const login = underway.soFar?.login ?? randomSecret()
    try {
      // A different browser began this login (RFC 9700 section 4.7).
      if (browser !== undefined && this.#options.keyed().matches('browser', browser.id, underway.browser))
        return await this.#exchange(parameters, { ...underway, login }, browser)
      await this.#forget(login)
      return { kind: 'refused' }
    } catch (error) {
      await this.#forget(login)
      return failed(underway, this.#findReason(error, underway), faultAt(underway.upstream, error))
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#options.upstreams.map((upstream) => upstream.close()))
  }

  async #goTo(
    upstream: Upstream,
    found: LoginFlow & Pick<Underway, 'browser' | 'soFar'>,
    state = randomSecret(),
  ): Promise<Respond> {
    const { store, keyed, loginS, markOf } = this.#options
    const [nonce, verifier, mark] = [randomSecret(), randomSecret(), markOf?.(upstream.name)]
    const location = await upstream.authorizationUrl({ state, nonce, verifier }, found.maxAge)
    const marked = { upstream: upstream.name, ...(mark !== undefined && { mark }) }
    const underway: Underway = { ...found, ...marked, nonce, verifier, sentAt: nowS() }
    await store.set('login', keyed().of('state', state), JSON.stringify(underway), loginS)
    return { kind: 'respond', response: new Response(null, { status: 302, headers: { location } }) }
  }

  /** Takes the login of a `state`. Only one of several callbacks gets it. */
  #take(state: string): Promise<Underway | undefined> {
    const { store, keyed } = this.#options
    return firstRecord<Underway>(keyed().all('state', state), (name) => store.take('login', name))
  }

  async #exchange(
    parameters: URLSearchParams,
    { upstream: name, mark, browser, soFar, login, state, nonce, verifier, sentAt, ...flow }: Underway & UnderState,
    { address }: Browser,
  ): Promise<Respond | Done> {
    const { primaries, tokens, loginS } = this.#options
    const { purpose, uid, providers, subject, maxAge } = flow
    // The configuration has changed, so a new login visits other providers.
    if (purpose === 'authorize' && providers.join() !== this.#required(providers[0]).join())
      throw new Error('the providers have changed')
    const upstream = this.#upstream(name, mark)
    const found = await upstream.exchange(parameters, { state, nonce, verifier })
    if (isStale(found, maxAge, sentAt)) throw new StaleLogin()
    const known = primaries.includes(name) ? this.#identify(upstream, found) : soFar?.known
    // This check comes before the next provider, so that somebody else's link can't collect this user's tokens.
    if (subject !== undefined && known !== undefined && !isEqual(known.user.subject, subject)) throw new OtherUser()
    const visits = soFar?.visits ?? this.#chosen(flow, found.tokens.idToken)
    const visited = visits ?? providers
    const next = visited[visited.indexOf(name) + 1]
    // This login only identifies the user for the account page, so none of its tokens are kept.
    if (purpose === 'account' && next === undefined)
      return { kind: 'done', purpose, uid, login, ...this.#identified(known) }
    // The records expire, so an abandoned login leaves nothing.
    const ttlMs = (loginS + MARGIN_S) * 1000
    const holder = chooseHolder(known, address)
    await tokens.put({ login, provider: name }, { ...found.tokens, owner: NOBODY }, { ttlMs, holder })
    if (next === undefined) {
      // The tokens of a link have no owner until the login that the link belongs to takes them.
      const who = purpose === 'link' ? this.#identified(known) : await this.#owned({ login, holder }, visited, known)
      return { kind: 'done', purpose, uid, login, ...who }
    }
    const after = { login, ...(known && { known }), ...(visits && { visits }) }
    return this.#goTo(this.#upstream(next), { ...flow, browser, soFar: after })
  }

  /**
   * Returns the names of the providers that a login visits, in order. If users have a choice, the chosen one comes
   * first.
   */
  #required(chosen: string | undefined): readonly string[] {
    const { upstreams, onDemand, primaries } = this.#options
    const names = upstreams.map(({ name }) => name).filter((name) => onDemand?.has(name) !== true)
    if (!this.#isChoice) return names
    const others = names.filter((name) => !primaries.includes(name))
    return chosen !== undefined && primaries.includes(chosen) ? [chosen, ...others] : []
  }

  /** Chooses the providers of a login after the user has returned from the first one. Undefined means all of them. */
  #chosen({ purpose, providers }: LoginFlow, idToken: string | undefined): readonly string[] | undefined {
    const { filter, primaries } = this.#options
    if (filter === undefined || purpose !== 'authorize') return undefined
    const chosen = visitedBy(filter, idToken)
    return providers.filter((name, index) => index === 0 || primaries.includes(name) || chosen.has(name))
  }

  /** Returns the provider of this name and mark, if it is known. Throws if the configuration no longer has it. */
  #upstream(name: string | undefined, mark?: string): Upstream {
    const found = this.#options.upstreams.find((one) => one.name === name)
    if (found === undefined || this.#isAnother(found.name, mark)) throw new Error('the providers have changed')
    return found
  }

  /** Returns the identity of the user. Throws if the login did not pass the provider that identifies users. */
  #identified(known: Known | undefined): Known {
    if (known === undefined || !this.#options.primaries.includes(known.by) || this.#isAnother(known.by, known.mark))
      throw new Error('the providers have changed')
    return known
  }

  /** Tells whether a provider is not the one that had this mark. Logins of earlier versions have none. */
  #isAnother(provider: string, mark: string | undefined): boolean {
    return mark !== undefined && this.#options.markOf?.(provider) !== mark
  }

  /** Makes the user the owner of the tokens. */
  async #owned(
    { login, holder }: { readonly login: string; readonly holder: Holder },
    providers: readonly string[],
    known: Known | undefined,
  ): Promise<Known> {
    const { tokens, carried, keepS } = this.#options
    const who = this.#identified(known)
    for (const provider of providers) {
      const place = { login, provider }
      const given = await tokens.get(place)
      const owned = given && { ...given, owner: who.user.subject }
      // A synthetic user has no later login that could use the refresh token.
      const own = owned && (who.isSynthetic === true ? owned : await carried.completed(provider, owned))
      const options = { replaces: given?.version, ttlMs: keepS * 1000, holder }
      if (own === undefined || (await tokens.put(place, own, options)) === undefined)
        throw new Error('the tokens that a provider gave are no longer stored')
    }
    return who
  }

  #identify(upstream: Upstream, found: UpstreamLogin): Known {
    const { issuer: home, tokens, name, email, authTime, isSynthetic } = found
    const user: LoggedInUser = {
      subject: deriveSubject(this.#options.issuer, upstream.name, home, tokens.subject),
      ...(name !== undefined && { name }),
      ...(email !== undefined && { email }),
    }
    const mark = this.#options.markOf?.(upstream.name)
    return {
      by: upstream.name,
      ...(mark !== undefined && { mark }),
      user,
      ...(authTime !== undefined && { authTime: Math.min(authTime, nowS()) }),
      ...(isSynthetic === true && { isSynthetic }),
    }
  }

  async #forget(login: string): Promise<void> {
    const { tokens, log } = this.#options
    await tokens
      .removeLogin(login)
      .catch((error: unknown) => log().warn({ err: error }, 'tokens of a login can’t be removed'))
  }

  #findReason(error: unknown, { upstream }: Underway): LoginError {
    if (error instanceof OtherUser) {
      this.#options.log().warn({ provider: upstream }, 'another user logged in than the one that was asked for')
      return 'other_user'
    }
    if (error instanceof StaleLogin) {
      this.#options
        .log()
        .warn({ provider: upstream }, 'a provider did not have the user log in as lately as it was asked to')
      return 'stale_login'
    }
    const isDenied = error instanceof UpstreamDenied
    this.#options.log()[isDenied ? 'info' : 'warn']({ ...logFields(error), provider: upstream }, 'a login failed')
    return isDenied ? 'access_denied' : 'server_error'
  }
}

/** Returns the name under which a login counts that begins at the provider that its user has chosen. */
const choiceName = (uid: string, provider: string | undefined): string => JSON.stringify([uid, provider])

/** Tells whether a login is older than requested. Providers may ignore `max_age` (OpenID Connect Core 1.0 section 3.1.2.1). */
const isStale = ({ authTime }: UpstreamLogin, maxAge: number | undefined, sentAt: number): boolean =>
  maxAge !== undefined && authTime !== undefined && authTime + maxAge + SKEW_S < sentAt

type Filter = NonNullable<AuthServerConfig['upstreamFilter']>

/**
 * Returns the names of the providers that a login visits after the first one, by the claims of the first one's ID
 * token. The signature was checked on receipt. Without an ID token there are no claims.
 */
function visitedBy(filter: Filter, idToken: string | undefined): ReadonlySet<string> {
  const groups = groupsIn(filter.claim, idToken)
  if (groups === undefined) return new Set(filter.defaultUpstreams)
  const matching = filter.rules.filter((rule) => rule.groups.some((group) => groups.has(group)))
  return new Set(matching.flatMap(({ upstreamProviders }) => upstreamProviders))
}

function groupsIn(claim: string, idToken: string | undefined): ReadonlySet<unknown> | undefined {
  const claims: Record<string, unknown> = idToken === undefined ? {} : decodeJwt(idToken)
  const groups = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  return Array.isArray(groups) ? new Set(groups) : undefined
}
