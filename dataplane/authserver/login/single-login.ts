import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import { isEqual, type KeyedHash } from '../keys/keyed-hash.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { Browser, Login, LoginStep, PendingAuthorization } from './login.ts'
import { subjectOf } from './subject.ts'
import { type Upstream, UpstreamDenied } from './upstream.ts'

interface SingleLoginOptions {
  readonly issuer: string
  readonly upstream: Upstream
  readonly store: RecordStore
  readonly keyed: () => KeyedHash
  readonly tokens: UpstreamTokenStore
  /** How long a user may take, and how long what a provider gives is kept; in seconds. */
  readonly loginS: number
  readonly keepS: number
  readonly log: Logger
}

/** A login that is under way at a provider, found by the `state` that the provider sends back. */
interface Underway {
  readonly uid: string
  readonly upstream: string
  readonly nonce: string
  readonly verifier: string
  /** Digest of the browser's secret. */
  readonly browser: string
}

const secret = () => randomBytes(32).toString('base64url')
const respond = (location: string): LoginStep => ({
  kind: 'respond',
  response: new Response(null, { status: 302, headers: { location } }),
})

/** Users log in at one provider. */
export function singleLogin(options: SingleLoginOptions): Login {
  const { issuer, upstream, store, keyed, tokens, log } = options

  async function begin({ uid }: PendingAuthorization, { id }: Browser): Promise<LoginStep> {
    const [state, nonce, verifier] = [secret(), secret(), secret()]
    try {
      const location = await upstream.authorizationUrl({ state, nonce, verifier })
      const underway: Underway = { uid, upstream: upstream.name, nonce, verifier, browser: keyed().of('browser', id) }
      await store.set('login', keyed().of('state', state), JSON.stringify(underway), options.loginS)
      return respond(location)
    } catch (error) {
      log.warn({ err: error, provider: upstream.name }, 'a login can’t begin')
      return { kind: 'failed', uid, error: 'server_error' }
    }
  }

  async function takeUnderway(state: string): Promise<Underway | undefined> {
    for (const name of keyed().all('state', state)) {
      const text = await store.take('login', name)
      if (text !== undefined) return JSON.parse(text) as Underway
    }
    return undefined
  }

  async function callback(parameters: URLSearchParams, browser: Browser | undefined): Promise<LoginStep> {
    const state = parameters.get('state')
    if (state === null || (!parameters.has('code') && !parameters.has('error'))) return { kind: 'refused' }
    const underway = await takeUnderway(state)
    // Somebody else's browser: who began this login is not who ends it (RFC 9700 section 4.7).
    if (underway === undefined || browser === undefined || !isSameBrowser(underway, browser)) return { kind: 'refused' }
    try {
      return await exchange(parameters, state, underway)
    } catch (error) {
      const isDenied = error instanceof UpstreamDenied
      log[isDenied ? 'debug' : 'warn']({ err: error, provider: upstream.name }, 'a login failed')
      return { kind: 'failed', uid: underway.uid, error: isDenied ? 'access_denied' : 'server_error' }
    }
  }

  async function exchange(parameters: URLSearchParams, state: string, underway: Underway): Promise<LoginStep> {
    const { uid, nonce, verifier } = underway
    if (underway.upstream !== upstream.name) throw new Error('a login that began at another provider')
    const { name, email, ...found } = await upstream.exchange(parameters, { state, nonce, verifier })
    const subject = subjectOf(issuer, upstream.name, found.issuer, found.tokens.subject)
    const login = secret()
    const place = { login, provider: upstream.name }
    await tokens.put(place, { ...found.tokens, owner: subject }, { ttlMs: options.keepS * 1000 })
    const user = { subject, ...(name !== undefined && { name }), ...(email !== undefined && { email }) }
    return { kind: 'done', uid, login, user }
  }

  const isSameBrowser = (underway: Underway, { id }: Browser) =>
    keyed()
      .all('browser', id)
      .some((digest) => isEqual(digest, underway.browser))

  return { begin, callback, close: () => upstream.close() }
}
