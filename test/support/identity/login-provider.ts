import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, SignJWT } from 'jose'
// @ts-expect-error: the package has no types, and @types would add thirty packages.
import Provider, { errors } from 'oidc-provider'
import { secret } from '../../secrets/watch.ts'
import { nextRsaPair } from './rsa-pairs.ts'

/** The npm package `oidc-provider` on loopback, which logs a browser in without asking. */
export interface LoginProvider {
  readonly issuer: string
  readonly client: { readonly id: string; readonly secret: string }
  /** The initial access token for clients that register themselves. */
  readonly initialAccessToken: string
  /** The user of the next logins, or of one request; undefined if the person refuses. */
  user: string | undefined | ((request: IncomingMessage) => string)
  /** The `auth_time` that it reports, in seconds since 1970; undefined for the real one. */
  loggedInAt: number | undefined
  /** The `email_verified` of its users; undefined leaves it out. */
  isEmailVerified: boolean | string | undefined
  /** The `groups` of its users; undefined leaves them out. */
  groups: unknown
  /** True if clients may register themselves without the initial access token. */
  isOpen: boolean
  /** More claims of access tokens for a resource (RFC 8707); undefined if there are no resources. */
  resourceClaims: Readonly<Record<string, unknown>> | undefined
  /** Lifetime of its access tokens, in seconds. */
  accessTokenS: number
  /** The requests so far, as `METHOD path`. */
  readonly requests: string[]
  /** The authorization requests so far. */
  readonly authorizations: URLSearchParams[]
  /** Signs claims as it signs ID tokens. `iss`, `iat`, `exp` and `jti` are its own unless given. */
  mint(claims: Readonly<Record<string, unknown>>, typ?: string): Promise<string>
  /** Changes the answer to a request; returns true if it has answered itself. */
  before: ((request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>) | undefined
  close(): Promise<void>
}

export async function startLoginProvider(redirectUris: readonly string[], host = '127.0.0.1'): Promise<LoginProvider> {
  const { privateKey } = await nextRsaPair()
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const issuer = `http://${host}:${(server.address() as AddressInfo).port}`
  const client = { id: 'gateway', secret: secret<string>(randomBytes(24).toString('base64url')) }
  const initialAccessToken = secret<string>(randomBytes(24).toString('base64url'))
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: [...redirectUris],
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'first' }] },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true, initialAccessToken },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo(_context: unknown, resource: string) {
          if (found.resourceClaims === undefined) throw new errors.InvalidTarget()
          const jwt = { sign: { alg: 'RS256' } }
          return { scope: '', audience: resource, accessTokenTTL: found.accessTokenS, accessTokenFormat: 'jwt', jwt }
        },
      },
    },
    extraTokenClaims: () => found.resourceClaims,
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    claims: { openid: ['sub'], profile: ['name', 'groups'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    ttl: { AccessToken: () => found.accessTokenS, RefreshToken: 3600 },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({
        ...{ sub: id, name: `Person ${id}`, email: `${id}@example.com` },
        ...(found.groups !== undefined && { groups: found.groups }),
        ...(found.isEmailVerified !== undefined && { email_verified: found.isEmailVerified }),
      }),
    }),
  })
  const handle = provider.callback()
  const found: LoginProvider = {
    issuer,
    async mint(claims, typ = 'oauth-id-jag+jwt') {
      const iat = Math.floor(Date.now() / 1000)
      const own = { iss: issuer, iat, exp: iat + 300, jti: randomBytes(16).toString('hex') }
      return new SignJWT({ ...own, ...claims }).setProtectedHeader({ alg: 'RS256', kid: 'first', typ }).sign(privateKey)
    },
    client,
    initialAccessToken,
    user: 'alice',
    loggedInAt: undefined,
    isEmailVerified: true,
    groups: undefined,
    isOpen: false,
    resourceClaims: undefined,
    accessTokenS: 3600,
    requests: [],
    authorizations: [],
    before: undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', issuer)
    found.requests.push(`${request.method} ${url.pathname}`)
    if (url.pathname === '/auth') found.authorizations.push(url.searchParams)
    if (await found.before?.(request, response)) return
    if (found.isOpen && url.pathname === '/reg') request.headers.authorization = `Bearer ${initialAccessToken}`
    if (!url.pathname.startsWith('/interaction/')) return handle(request, response)
    const { params } = await provider.interactionDetails(request, response)
    const user = typeof found.user === 'function' ? found.user(request) : found.user
    if (user === undefined)
      return provider.interactionFinished(request, response, { error: 'access_denied', error_description: 'no' })
    const grant = new provider.Grant({ accountId: user, clientId: String(params.client_id) })
    if (params.scope !== undefined) grant.addOIDCScope(params.scope)
    const result = {
      login: { accountId: user, remember: false, ts: found.loggedInAt },
      consent: { grantId: await grant.save() },
    }
    return provider.interactionFinished(request, response, result)
  }
  return found
}
