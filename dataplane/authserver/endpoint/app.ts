import { Hono, type Next } from 'hono'
import { Reservation } from '../../server/budget.ts'
import { PublicError, publicError } from '../../server/errors.ts'
import { REQUEST_ID, requestIdOf } from '../../server/request-id.ts'
import { introspect, revoke } from './about-tokens.ts'
import { account, sessions } from './account.ts'
import { keySet, metadata, metadataPaths } from './discovery.ts'
import { belowIssuer, type FOR_CLIENTS } from './for-clients.ts'
import { keepKey, keyForm } from './key.ts'
import { LOGIN_REQUESTS, linkPage } from './login/steps.ts'
import { oauthErrorAnswer } from './oauth-error.ts'
import type { EndpointContext, EndpointEnv, EndpointParts } from './parts.ts'
import { register } from './register.ts'
import { problemPage } from './show.ts'
import { describeOperation, observed } from './telemetry.ts'
import { token } from './token.ts'

type Endpoint = (parts: EndpointParts, c: EndpointContext) => Response | Promise<Response>

/** Documents that clients in pages of every origin may read. */
const DOCUMENTS: Readonly<Record<string, Endpoint>> = { '/.well-known/jwks.json': keySet }

/** Endpoints that pages of every origin may call. */
const CALLED: Readonly<Record<(typeof FOR_CLIENTS)[number], Endpoint>> = {
  '/oauth/token': token,
  '/oauth/register': register,
  '/oauth/revoke': revoke,
  '/oauth/introspect': introspect,
}

/** Wraps an endpoint: before a successful answer it waits until its records survive the loss of the storage server. */
const lasting =
  (endpoint: Endpoint): Endpoint =>
  async (parts, c) => {
    const answer = await endpoint(parts, c)
    if (answer.ok) await parts.store.settled()
    return answer
  }

const CALLBACK = '/oauth/callback'
const AUTHORIZE = '/oauth/authorize'

/** Returns the paths that providers redirect to: the shared one, and one for each provider that has its own. */
const callbackPaths = ({ callbackNames }: EndpointParts['settings']): readonly string[] => [
  CALLBACK,
  ...[...callbackNames.values()].flatMap((name) => (name === undefined ? [] : [`${CALLBACK}/${name}`])),
]

/** Endpoints that people visit in a browser, and that the forms of these pages are posted to. */
const PAGES: readonly (readonly ['GET' | 'POST', Readonly<Record<string, Endpoint>>])[] = [
  [
    'GET',
    {
      ...LOGIN_REQUESTS.GET,
      '/oauth/sessions': sessions,
      '/oauth/account': account,
      '/oauth/link': linkPage,
      '/oauth/key': keyForm,
    },
  ],
  ['POST', { ...LOGIN_REQUESTS.POST, '/oauth/key': keepKey }],
]

/** Returns an endpoint's paths: below the issuer's path, bare and, for the authorization endpoint, as configured. */
const listPaths = (settings: EndpointParts['settings'], path: string): readonly string[] => {
  const paths = path === CALLBACK ? callbackPaths(settings) : [path]
  const told = path === AUTHORIZE ? [settings.authorizationPath] : []
  return [...new Set([...paths.flatMap((one) => [one, settings.issuerPath + one]), ...told])]
}

/**
 * Builds the application. It serves each path below the issuer's path and also bare, for a proxy that removes the
 * issuer's path.
 */
export function authServerApp(parts: EndpointParts): Hono<EndpointEnv> {
  const app = new Hono<EndpointEnv>()
  const below = (path: string) => listPaths(parts.settings, path)

  app.use(async (c, next) => {
    const held = new Reservation(c.env.share)
    c.set('held', held)
    const id = requestIdOf(c.env.incoming.headers[REQUEST_ID])
    try {
      await parts.underWay.answer(id, (request) => {
        c.set('request', request)
        return parts.audit.log === undefined ? next() : recorded(parts, c, next)
      })
      c.res.headers.set(REQUEST_ID, id)
    } finally {
      held.release()
    }
  })
  const documents = [
    ...metadataPaths(parts.settings).map((path) => [path, metadata] as const),
    ...Object.entries(DOCUMENTS).flatMap(([path, endpoint]) => below(path).map((place) => [place, endpoint] as const)),
  ]
  for (const [place, endpoint] of documents) app.get(place, (c) => answered(parts, c, endpoint))
  for (const [path, endpoint] of Object.entries(CALLED)) {
    const operation = describeOperation('POST', path)
    for (const place of below(path)) {
      app.post(place, (c) => observed(parts, c, operation, () => answered(parts, c, lasting(endpoint))))
      app.all(place, (c) =>
        answered(parts, c, () => {
          throw new PublicError('method_not_allowed', { headers: { allow: 'POST' } })
        }),
      )
    }
  }
  for (const [method, endpoints] of PAGES)
    for (const [path, endpoint] of Object.entries(endpoints)) {
      const operation = describeOperation(method, path)
      for (const place of below(path))
        app.on(method, place, (c) => observed(parts, c, operation, () => shown(parts, c, endpoint)))
    }
  return app
}

/** Answers a request and records it in the audit log. */
async function recorded(parts: EndpointParts, c: EndpointContext, next: Next): Promise<void> {
  const { RequestRecord } = await import('../audit/request-record.ts')
  const { audit, settings, provider } = parts
  const method = c.req.method === 'HEAD' ? 'GET' : c.req.method
  const options = { audit, issuer: settings.issuer, requestId: c.var.request.id, provider }
  const record = new RequestRecord(options, c.env.incoming, `${method} ${findRoute(settings, c.req.path)}`)
  c.set('record', record)
  await next()
  // A failure of the audit log does not change the answer.
  await record
    .answered(c.res)
    .catch((error: unknown) => parts.log().error({ err: error }, 'a request can’t be audited'))
}

async function answered(parts: EndpointParts, c: EndpointContext, endpoint: Endpoint): Promise<Response> {
  try {
    return await endpoint(parts, c)
  } catch (error) {
    return oauthErrorAnswer(error, parts.log())
  }
}

async function shown(parts: EndpointParts, c: EndpointContext, endpoint: Endpoint): Promise<Response> {
  try {
    return await endpoint(parts, c)
  } catch (error) {
    publicError(error, parts.log())
    return problemPage(parts, c, 'unavailable')
  }
}

/** Tells whether a path belongs to the authorization server with this issuer path. */
export function isServed(settings: EndpointParts['settings'], path: string): boolean {
  const own = ownPath(settings, path)
  const isEndpoint = [DOCUMENTS, CALLED, ...PAGES.map(([, endpoints]) => endpoints)].some(
    (part) => Object.hasOwn(part, path) || Object.hasOwn(part, own),
  )
  return (
    isEndpoint ||
    path === settings.authorizationPath ||
    metadataPaths(settings).includes(path) ||
    callbackPaths(settings).some((one) => one === path || one === own)
  )
}

/** Returns the path below the issuer. */
function ownPath({ issuerPath, authorizationPath }: EndpointParts['settings'], path: string): string {
  return path === authorizationPath ? AUTHORIZE : belowIssuer(path, issuerPath)
}

/** Returns the path below the issuer that names an endpoint. The callbacks of all providers share one. */
function findRoute(settings: EndpointParts['settings'], path: string): string {
  const own = ownPath(settings, path)
  return callbackPaths(settings).includes(own) ? CALLBACK : own
}
