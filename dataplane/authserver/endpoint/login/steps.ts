import type { Done, Failed, LoginStep, Purpose } from '../../login/login.ts'
import { act, notSignedIn, signedIn } from '../account.ts'
import type { Front, FrontContext } from '../front.ts'
import { privately, problemPage } from '../show.ts'
import { authorize, login } from './authorize.ts'
import { callback, faultPage, grant, refuseClient } from './callback.ts'
import { askConsent, consent } from './consent.ts'
import { link, linked, notLinked } from './link.ts'

/**
 * The requests of a login. Each begins one or goes on with one; it is answered by itself, where it belongs to no login, or
 * by the step that comes next (`ANSWERS`). Between two requests nothing is kept but what stands at the steps: records of
 * the store, which end by themselves, and tokens of providers.
 */
export const LOGIN_REQUESTS = {
  GET: {
    /** A client sends its user. On the host of the callbacks the login begins at once. */
    '/oauth/authorize': stepped(authorize),
    /** The same on that host, where another one is the issuer's. */
    '/oauth/login': stepped(login),
    /** A provider sends the browser back. */
    '/oauth/callback': stepped(callback),
  },
  POST: {
    /** The user allows a client, or does not. */
    '/oauth/consent': stepped(consent),
    /** The user follows a link, to log in at one more provider. */
    '/oauth/link': stepped(link),
    /** The user signs in to see what is linked, or ends something of that. */
    '/oauth/sessions': stepped(act),
  },
} as const

type Answer<Step> = (front: Front, c: FrontContext, step: Step) => Response | Promise<Response>

/** The steps of a login: what each follows on, what is kept until the next request, and which one that is. */
const ANSWERS: { readonly [K in LoginStep['kind']]: Answer<Extract<LoginStep, { kind: K }>> } = {
  /**
   * The page asks for consent. Follows on `GET /oauth/login` of a client that nobody has allowed in this browser, or that
   * has to ask each time, and on `GET /oauth/callback` where somebody else had allowed it. Nothing is kept: the page holds
   * the request, sealed for its browser. Goes on with `POST /oauth/consent`.
   */
  ask: askConsent,
  /**
   * The browser goes to a provider. Follows on `GET /oauth/login` of a client that is allowed, on `POST /oauth/consent` that
   * allows one, on `POST /oauth/link` and `POST /oauth/sessions`, and on `GET /oauth/callback` from a provider that is not
   * the last one. Kept: `login` under the `state`; under the `uid` `interaction` and `allowed` for a client, or `linking` for
   * a link; and what earlier providers gave, which is nobody's yet. Goes on with `GET /oauth/callback`.
   */
  respond: (_front, c, { response }) => withCookies(c, privately(response)),
  /**
   * The user is known. Follows on `GET /oauth/callback` from the last provider. Kept: for a client its grant, what the
   * providers gave, and the consent if the client is a web site; for the page of what is linked an `account`; for a link what
   * the provider gave, in the login that it is for.
   */
  done: (front, c, step) => ENDS[step.purpose].done(front, c, step),
  /**
   * Somebody says no: the user, a provider, or this server. Follows on every request. Nothing is kept, and what providers
   * gave is forgotten.
   */
  failed: (front, c, step) =>
    step.fault === undefined ? ENDS[step.purpose].failed(front, c, step) : faultPage(front, c, step, step.fault),
  /**
   * No login waits for this request. Follows on `POST /oauth/consent` and `GET /oauth/callback`; `POST /oauth/link` says it
   * in words of its own. Nothing is kept.
   */
  refused: (front, c) => problemPage(front, c, 'login'),
}

/** How a login ends, by what it was for. */
const ENDS: Readonly<Record<Purpose, { readonly done: Answer<Done>; readonly failed: Answer<Failed> }>> = {
  authorize: { done: grant, failed: refuseClient },
  account: { done: signedIn, failed: notSignedIn },
  link: { done: linked, failed: notLinked },
}

/** Makes the endpoint of a request that is answered by itself, or by the step that comes next. */
function stepped(request: (front: Front, c: FrontContext) => Promise<Response | LoginStep>) {
  return async function answerStep(front: Front, c: FrontContext): Promise<Response> {
    const step = await request(front, c)
    if (step instanceof Response) return step
    await c.var.record?.step(step)
    if (step.kind === 'failed') c.set('error', step.error)
    return (ANSWERS[step.kind] as Answer<LoginStep>)(front, c, step)
  }
}

/** The response with the cookies that were set for this request. */
function withCookies(c: FrontContext, response: Response): Response {
  for (const cookie of c.res.headers.getSetCookie()) response.headers.append('set-cookie', cookie)
  return response
}
