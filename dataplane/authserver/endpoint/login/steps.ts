import type { Done, Failed, LoginStep, Purpose } from '../../login/login.ts'
import { act, notSignedIn, signedIn } from '../account.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { privately, problemPage } from '../show.ts'
import { authorize, login } from './authorize.ts'
import { callback, faultPage, grant, refuseClient } from './callback.ts'
import { askChoice, choose } from './choose.ts'
import { askConsent, consent } from './consent.ts'
import { link, linked, notLinked } from './link.ts'

/**
 * The requests of a login. Each begins or continues one. A request that belongs to no login answers by itself; for all
 * others the next step answers (`ANSWERS`). Between two requests the server stores only what the step lists: records,
 * which expire, and tokens of providers.
 */
export const LOGIN_REQUESTS = {
  GET: {
    /** A client sends its user. On the host of the callbacks the login begins at once. */
    '/oauth/authorize': stepped(authorize),
    /** The same request on the host of the callbacks, if the issuer has a different host. */
    '/oauth/login': stepped(login),
    /** A provider sends the browser back. */
    '/oauth/callback': stepped(callback),
  },
  POST: {
    /** The user allows or denies a client. */
    '/oauth/consent': stepped(consent),
    /** The user has chosen where to log in. */
    '/oauth/choose': stepped(choose),
    /** The user follows a link, to log in at one more provider. */
    '/oauth/link': stepped(link),
    /** The user signs in to see their links, or ends one of them. */
    '/oauth/sessions': stepped(act),
  },
} as const

type Answer<Step> = (parts: EndpointParts, c: EndpointContext, step: Step) => Response | Promise<Response>

/** The steps of a login: each says which requests lead to it, what is kept, and which request continues it. */
const ANSWERS: { readonly [K in LoginStep['kind']]: Answer<Extract<LoginStep, { kind: K }>> } = {
  /**
   * The page asks for consent. Follows `GET /oauth/login` if this browser has no consent for the client or consent must
   * be asked each time, and `GET /oauth/callback` if a different user gave it. Nothing is stored: the page holds the
   * request, sealed for its browser. `POST /oauth/consent` continues the login.
   */
  ask: askConsent,
  /**
   * The page asks where the user logs in. Follows every request that begins a login, if several providers identify
   * users. For a client `interaction` and `allowed` are stored; the page holds the login, sealed for its browser. `POST
   * /oauth/choose` continues the login.
   */
  choose: askChoice,
  /**
   * The browser goes to a provider. Follows `GET /oauth/login` of an allowed client, `POST /oauth/consent` that allows
   * one, `POST /oauth/choose`, `POST /oauth/link`, `POST /oauth/sessions`, and `GET /oauth/callback` from any provider
   * but the last. Stored: `login` under the `state`; under the `uid` `interaction` and `allowed` for a client, or
   * `linking` for a link; and the tokens of earlier providers, which have no owner yet. `GET /oauth/callback` continues
   * the login.
   */
  respond: (_front, c, { response }) => withCookies(c, privately(response)),
  /**
   * The user is known. Follows `GET /oauth/callback` from the last provider. Stored: for a client its grant, the
   * providers' tokens, and the consent if the client is a web site; for the account page an `account`; for a link the
   * provider's tokens, in the login that the link is for.
   */
  done: (parts, c, step) => ENDS[step.purpose].done(parts, c, step),
  /** The user, a provider, or this server has refused. Follows every request. Nothing is stored; tokens are removed. */
  failed: (parts, c, step) =>
    step.fault === undefined ? ENDS[step.purpose].failed(parts, c, step) : faultPage(parts, c, step, step.fault),
  /**
   * No login waits for this request. Follows `POST /oauth/consent` and `GET /oauth/callback`; `POST /oauth/link` has
   * its own message. Nothing is stored.
   */
  refused: (parts, c) => problemPage(parts, c, 'login'),
}

/** The endings of a login, by its purpose. */
const ENDS: Readonly<Record<Purpose, { readonly done: Answer<Done>; readonly failed: Answer<Failed> }>> = {
  authorize: { done: grant, failed: refuseClient },
  account: { done: signedIn, failed: notSignedIn },
  link: { done: linked, failed: notLinked },
}

/** Wraps a request of a login as an endpoint. The request answers by itself or through the next step. */
function stepped(request: (parts: EndpointParts, c: EndpointContext) => Promise<Response | LoginStep>) {
  return async function answerStep(parts: EndpointParts, c: EndpointContext): Promise<Response> {
    const step = await request(parts, c)
    if (step instanceof Response) return step
    await c.var.record?.step(step)
    if (step.kind === 'failed') c.set('error', step.error)
    return (ANSWERS[step.kind] as Answer<LoginStep>)(parts, c, step)
  }
}

/** Adds the cookies of this request to a response. */
function withCookies(c: EndpointContext, response: Response): Response {
  for (const cookie of c.res.headers.getSetCookie()) response.headers.append('set-cookie', cookie)
  return response
}
