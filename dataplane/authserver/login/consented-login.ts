import type { Sealer } from '../../upstream-tokens/index.ts'
import { isWebSite } from '../clients/redirect-uris.ts'
import { firstRecord } from '../store/record-store.ts'
import type { Login } from './chain-login.ts'
import { type Asked, createConsents } from './consents.ts'
import type {
  Ask,
  Browser,
  Choose,
  Done,
  Failed,
  FlowPosition,
  LoginParts,
  LoginStep,
  PendingAuthorization,
  Refused,
  Respond,
} from './login.ts'
import { createQuestions } from './questions.ts'

/** A login that begins with the user's consent to the client. */
export type ConsentedLogin = ReturnType<typeof consentedLogin>

interface ConsentedLoginOptions extends Pick<LoginParts, 'store' | 'keyed' | 'loginS'> {
  readonly login: Login
  readonly requests: () => AuthorizationRequests
  /** Seals the request in a consent page. */
  readonly pageSealer: Sealer
  forgetTokens(login: string): Promise<unknown>
}

export interface AuthorizationRequests {
  /** Stores a request with these parameters. Returns its `uid`, or undefined if it is no longer accepted. */
  open(request: string): Promise<string | undefined>
  drop(uid: string): Promise<void>
}

/** An authorization request that has consent. */
interface Allowed {
  readonly authorization: PendingAuthorization
  /** The user who gave an earlier consent; absent: the current user has just consented. */
  readonly by?: string
}

/**
 * Asks for consent before anything goes to a provider. Providers know one client, the gateway, and do not ask again for
 * a known client. Without a consent page, an attacker could register a client here, make a victim follow a link, and
 * receive the victim's tokens (confused deputy; MCP, security best practices).
 *
 * Only consents for web sites are remembered: a loopback address or a custom scheme may lead to a different program
 * each time (RFC 8252 section 8.6).
 */
export function consentedLogin(options: ConsentedLoginOptions) {
  const { login, requests, store, keyed, pageSealer, loginS, forgetTokens } = options
  const consents = createConsents(store, keyed)
  const questions = createQuestions<AskedRequest>(pageSealer, { page: 'consent page', lifeS: loginS })

  async function ask({ uid, ...authorization }: PendingAuthorization, browser: Browser): Promise<Ask> {
    await requests().drop(uid)
    return { kind: 'ask', authorization, token: questions.seal(authorization, browser) }
  }

  async function goOn(authorization: PendingAuthorization, browser: Browser, by?: string) {
    const step = await login.begin(authorization, browser)
    if (step.kind === 'failed') return step
    const allowed: Allowed = { authorization, ...(by !== undefined && { by }) }
    await store.set('allowed', keyed().of('allowed', authorization.uid), JSON.stringify(allowed), loginS)
    return step
  }

  async function finish(done: Done, browser: Browser): Promise<Done | Ask | Refused> {
    const names = keyed().all('allowed', done.uid)
    const allowed = await firstRecord<Allowed>(names, (name) => store.take('allowed', name))
    if (allowed === undefined) {
      await forgetTokens(done.login)
      return { kind: 'refused' }
    }
    const { authorization, by } = allowed
    const asked = askedBy(authorization)
    const { subject } = done.user
    // A different user of this browser gave the consent, or it was revoked during the login.
    if (by !== undefined && (by !== subject || (await consents.find(browser, asked)) !== subject)) {
      await forgetTokens(done.login)
      await consents.forget(browser, asked)
      return ask(authorization, browser)
    }
    if (done.isSynthetic !== true && isWebSite(asked.redirectUri)) await consents.keep(browser, asked, subject)
    return done
  }

  return {
    async begin(authorization: PendingAuthorization, browser: Browser): Promise<Ask | Respond | Choose | Failed> {
      const isRemembered = authorization.isAskedAnew !== true && isWebSite(authorization.redirectUri)
      const by = isRemembered ? await consents.find(browser, askedBy(authorization)) : undefined
      return by === undefined ? ask(authorization, browser) : goOn(authorization, browser, by)
    },
    /** Handles the answer from the consent page with this token. `onFound` receives the login that it belongs to. */
    async decide(
      token: string,
      isAllowed: boolean,
      browser: Browser | undefined,
      onFound?: (position: FlowPosition) => void,
    ): Promise<Respond | Choose | Failed | Refused> {
      const authorization = browser && questions.open(token, browser)
      const uid = authorization && (await requests().open(authorization.request))
      if (browser === undefined || authorization === undefined || uid === undefined) return { kind: 'refused' }
      const { trace } = authorization
      onFound?.({ purpose: 'authorize', uid, ...(trace !== undefined && { trace }) })
      if (!isAllowed) return { kind: 'failed', purpose: 'authorize', uid, error: 'access_denied' }
      return goOn({ ...authorization, uid }, browser)
    },
    /** Continues as `Login` does, but asks for consent again if a different user of this browser gave the consent. */
    async callback(...[parameters, browser, ...rest]: Parameters<Login['callback']>): Promise<LoginStep> {
      const step = await login.callback(parameters, browser, ...rest)
      const isAuthorized = step.kind === 'done' && step.purpose === 'authorize'
      return isAuthorized && browser !== undefined ? finish(step, browser) : step
    },
    forget: consents.forgetUser,
    pass: (...flow: Parameters<Login['pass']>) => login.pass(...flow),
    choose: (...answer: Parameters<Login['choose']>) => login.choose(...answer),
    close: () => login.close(),
  }
}

const askedBy = ({ clientId, redirectUri, resource, scope }: PendingAuthorization): Asked => ({
  clientId,
  redirectUri,
  resource,
  scopes: scope.split(' '),
})

/** An authorization request that waits for consent. The consent page holds it, not the store. */
type AskedRequest = Omit<PendingAuthorization, 'uid'>
