import type { Sealer } from '../../upstream-tokens/index.ts'
import { isWebSite } from '../clients/redirect-uris.ts'
import { firstRecord } from '../store/record-store.ts'
import { type Asked, createConsents } from './consents.ts'
import type {
  Ask,
  Browser,
  Done,
  Failed,
  Login,
  LoginParts,
  LoginStep,
  PendingAuthorization,
  Refused,
  Respond,
  Waypoint,
} from './login.ts'

/** A login that begins with the user's consent to the client. */
export interface ConsentedLogin extends Pick<Login, 'pass' | 'close'> {
  begin(authorization: PendingAuthorization, browser: Browser): Promise<Ask | Respond | Failed>
  /** As `Login` has it. The user is asked once more where somebody else at this browser had allowed the client. */
  callback(...back: Parameters<Login['callback']>): Promise<LoginStep>
  /** The answer that was given on the page with this token. `onFound` is told which login that belongs to. */
  decide(
    token: string,
    isAllowed: boolean,
    browser: Browser | undefined,
    onFound?: (waypoint: Waypoint) => void,
  ): Promise<Respond | Failed | Refused>
  /** Has a user asked again, in whatever browser, for a client that they have allowed; without one, for each. */
  forget(subject: string, clientId?: string): Promise<void>
}

interface ConsentedLoginOptions extends Pick<LoginParts, 'store' | 'keyed' | 'loginS'> {
  /** What comes after the consent. */
  readonly login: Login
  readonly requests: () => AuthorizationRequests
  /** Seals what a page holds that waits for its answer. */
  readonly pageSealer: Sealer
  /** Forgets what providers have given at a login. */
  forgetTokens(login: string): Promise<unknown>
}

/** The authorization requests that are kept. */
export interface AuthorizationRequests {
  /** Keeps one with these parameters; gives its `uid`, undefined where it is accepted no more. */
  open(request: string): Promise<string | undefined>
  drop(uid: string): Promise<void>
}

/** An authorization request whose client may be logged in for. */
interface Allowed {
  readonly authorization: PendingAuthorization
  /** Who has allowed it on an earlier day; absent: whoever logs in now has just done so. */
  readonly by?: string
}

/**
 * Asks the user before anything goes to a provider. Providers know one client, the gateway, and don't ask again for one
 * that they know: without a page of our own whoever registers a client here and makes somebody follow a link would get
 * that person's tokens (confused deputy; MCP, security best practices).
 *
 * What was allowed is remembered for web sites alone: behind a loopback address or a scheme of its own there may be another
 * program each time (RFC 8252 section 8.6).
 */
export function consentedLogin(options: ConsentedLoginOptions): ConsentedLogin {
  const { login, requests, store, keyed, pageSealer, loginS, forgetTokens } = options
  const consents = createConsents(store, keyed)
  const questions = createQuestions(pageSealer, loginS)

  async function ask({ uid, ...authorization }: PendingAuthorization, browser: Browser): Promise<Ask> {
    await requests().drop(uid)
    return { kind: 'ask', authorization, token: questions.seal(authorization, browser) }
  }

  async function goOn(authorization: PendingAuthorization, browser: Browser, by?: string): Promise<Respond | Failed> {
    const step = await login.begin(authorization, browser)
    if (step.kind !== 'respond') return step
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
    // It was somebody else at this browser who allowed it, or what was allowed has been revoked meanwhile.
    if (by !== undefined && (by !== subject || (await consents.find(browser, asked)) !== subject)) {
      await forgetTokens(done.login)
      await consents.forget(browser, asked)
      return ask(authorization, browser)
    }
    if (done.isSynthetic !== true && isWebSite(asked.redirectUri)) await consents.keep(browser, asked, subject)
    return done
  }

  return {
    async begin(authorization, browser) {
      const { isAskedAnew = false } = authorization
      const isRemembered = !isAskedAnew && isWebSite(authorization.redirectUri)
      const by = isRemembered ? await consents.find(browser, askedBy(authorization)) : undefined
      return by === undefined ? ask(authorization, browser) : goOn(authorization, browser, by)
    },
    async decide(token, isAllowed, browser, onFound) {
      const authorization = browser && questions.open(token, browser)
      const uid = authorization && (await requests().open(authorization.request))
      if (browser === undefined || authorization === undefined || uid === undefined) return { kind: 'refused' }
      const { trace } = authorization
      onFound?.({ purpose: 'authorize', uid, ...(trace !== undefined && { trace }) })
      if (!isAllowed) return { kind: 'failed', purpose: 'authorize', uid, error: 'access_denied' }
      return goOn({ ...authorization, uid }, browser)
    },
    async callback(parameters, browser, ...rest) {
      const step = await login.callback(parameters, browser, ...rest)
      const isAuthorized = step.kind === 'done' && step.purpose === 'authorize'
      return isAuthorized && browser !== undefined ? finish(step, browser) : step
    },
    forget: (subject, clientId) => consents.forgetOf(subject, clientId),
    pass: (course, browser) => login.pass(course, browser),
    close: () => login.close(),
  }
}

const askedBy = ({ clientId, redirectUri, resource, scope }: PendingAuthorization): Asked => ({
  clientId,
  redirectUri,
  resource,
  scopes: scope.split(' '),
})

/** An authorization request that is asked about; it is not kept meanwhile. */
type AskedRequest = Omit<PendingAuthorization, 'uid'>

interface Question {
  readonly authorization: AskedRequest
  /** Milliseconds since 1970. */
  readonly until: number
}

/**
 * What consent pages hold of the requests that they ask about, sealed for the browser that they are shown in. Nothing of
 * them is kept here: whoever begins requests without end costs those nothing who look at such a page.
 */
interface Questions {
  /** The text that comes back with the answer. */
  seal(authorization: AskedRequest, browser: Browser): string
  /** What was asked; undefined where it was in another browser, or too long ago. */
  open(token: string, browser: Browser): AskedRequest | undefined
}

/** @param lifeS how long a user may take, in seconds */
export function createQuestions(sealer: Sealer, lifeS: number): Questions {
  const nameOf = ({ id }: Browser) => `consent page in ${id}`
  return {
    seal(authorization, browser) {
      const question: Question = { authorization, until: Date.now() + lifeS * 1000 }
      return sealer.seal(JSON.stringify(question), nameOf(browser))
    },
    open(token, browser) {
      const text = sealer.open(token, nameOf(browser))
      const question = text === undefined ? undefined : (JSON.parse(text) as Question)
      return question !== undefined && question.until > Date.now() ? question.authorization : undefined
    },
  }
}
