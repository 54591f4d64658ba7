import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { OAuth2UpstreamConfig, UpstreamProviderConfig } from '../../../dataplane/config/auth-server.ts'
import { secret } from '../../secrets/watch.ts'
import { endFileOnError } from '../or-fail.ts'

/** A request to the token endpoint. */
export interface TokenRequest {
  readonly form: Readonly<Record<string, string>>
  readonly headers: IncomingMessage['headers']
  /** The client's authentication method. */
  readonly way: 'basic' | 'post' | 'none'
}

export interface GivenTokens {
  readonly user: string
  readonly accessToken: string
  readonly refreshToken: string
}

interface Reply {
  readonly status?: number
  readonly type?: string
  readonly body: unknown
}

/** The provider's differences from the standard. */
export interface Flavour {
  /** The accepted methods of client authentication; default both. */
  readonly ways?: readonly TokenRequest['way'][]
  /** The token endpoint's answer with tokens; default as in RFC 6749 section 5.1. */
  tokens?(issued: GivenTokens, request: TokenRequest): Reply
  /** The token endpoint's answer for an error. */
  error?(code: string, request: TokenRequest): Reply
  /** The answer at /user. */
  user?(name: string, request: IncomingMessage): Reply
  /** The redirect's parameters besides code and state. */
  readonly callback?: Readonly<Record<string, string>>
}

/** A plain OAuth 2 provider on loopback, which logs a browser in without asking. It requires PKCE (S256). */
export interface OAuth2Provider {
  readonly url: string
  readonly client: { readonly id: string; readonly secret: string }
  /** The user of the next logins; undefined if the person refuses. */
  user: string | undefined
  flavour: Flavour
  readonly authorizations: URLSearchParams[]
  readonly requests: TokenRequest[]
  /** The requests at /user. */
  readonly userRequests: { readonly method: string; readonly headers: IncomingMessage['headers'] }[]
  /** Issued access tokens, the newest last. */
  readonly issued: string[]
  close(): Promise<void>
}

interface Login {
  readonly user: string
  readonly challenge: string
  readonly redirectUri: string
}

/** File with a gateway's client secret for a provider. */
const SECRET_FILE = 'oauth2-secret'

/** A gateway's configuration for the provider. */
export const oauth2Upstream = (
  name: string,
  { url, client }: OAuth2Provider,
  more: Partial<OAuth2UpstreamConfig> = {},
): UpstreamProviderConfig => ({
  name,
  type: 'oauth2',
  oauth2Config: {
    authorizationEndpoint: `${url}/authorize`,
    tokenEndpoint: `${url}/token`,
    clientId: client.id,
    clientSecretFile: SECRET_FILE,
    ...more,
  },
})

/** Writes the secret to the file that `oauth2Upstream` names. */
export const writeSecret = (directory: string, { client }: OAuth2Provider): Promise<void> =>
  writeFile(join(directory, SECRET_FILE), client.secret)

export async function startOAuth2Provider(flavour: Flavour = {}): Promise<OAuth2Provider> {
  const logins = new Map<string, Login>()
  const users = new Map<string, string>()
  const refreshTokens = new Map<string, string>()
  const randomSecret = () => secret<string>(randomBytes(24).toString('base64url'))
  const server = createServer(endFileOnError(serve))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider: OAuth2Provider = {
    url,
    client: { id: 'gateway:at this&that', secret: randomSecret() },
    user: '1001',
    flavour,
    authorizations: [],
    requests: [],
    userRequests: [],
    issued: [],
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', url)
    if (pathname === '/authorize') return authorize(searchParams, response)
    if (pathname === '/token') return send(response, await tokens(request))
    if (pathname === '/user') return send(response, user(request))
    send(response, { status: 404, body: {} })
  }

  function authorize(query: URLSearchParams, response: ServerResponse): void {
    provider.authorizations.push(query)
    const back = new URL(query.get('redirect_uri') ?? '')
    back.searchParams.set('state', query.get('state') ?? '')
    const challenge = query.get('code_challenge')
    if (provider.user === undefined) back.searchParams.set('error', 'access_denied')
    else if (challenge === null || query.get('code_challenge_method') !== 'S256')
      back.searchParams.set('error', 'invalid_request')
    else {
      const code = randomSecret()
      logins.set(code, { user: provider.user, challenge, redirectUri: query.get('redirect_uri') as string })
      back.searchParams.set('code', code)
    }
    for (const [name, value] of Object.entries(provider.flavour.callback ?? {})) back.searchParams.set(name, value)
    response.writeHead(302, { location: back.href }).end()
  }

  async function tokens(request: IncomingMessage): Promise<Reply> {
    let body = ''
    for await (const chunk of request) body += chunk
    const form = Object.fromEntries(new URLSearchParams(body))
    const received: TokenRequest = { form, headers: request.headers, way: readMethod(request, form) }
    provider.requests.push(received)
    const fail = (code: string) =>
      provider.flavour.error?.(code, received) ?? {
        status: code === 'invalid_client' ? 401 : 400,
        body: { error: code },
      }
    if (!isClient(received)) return fail('invalid_client')
    const who = form['grant_type'] === 'refresh_token' ? redeemRefreshToken(form) : redeemCode(form)
    if (who === undefined) return fail('invalid_grant')
    const issued = { user: who, accessToken: randomSecret(), refreshToken: randomSecret() }
    provider.issued.push(issued.accessToken)
    users.set(issued.accessToken, who)
    refreshTokens.set(issued.refreshToken, who)
    return (
      provider.flavour.tokens?.(issued, received) ?? {
        body: { access_token: issued.accessToken, token_type: 'bearer', refresh_token: issued.refreshToken },
      }
    )
  }

  function isClient({ way, form, headers }: TokenRequest): boolean {
    if (!(provider.flavour.ways ?? ['basic', 'post']).includes(way)) return false
    if (way === 'none') return form['client_id'] === provider.client.id
    if (way === 'post')
      return form['client_id'] === provider.client.id && form['client_secret'] === provider.client.secret
    const [id = '', own = ''] = Buffer.from((headers.authorization ?? '').slice(6), 'base64')
      .toString()
      .split(':')
    const decode = (text: string) => decodeURIComponent(text.replaceAll('+', ' '))
    return decode(id) === provider.client.id && decode(own) === provider.client.secret
  }

  function redeemCode({ code = '', code_verifier: verifier = '', redirect_uri: redirectUri }: Record<string, string>) {
    const login = logins.get(code)
    logins.delete(code)
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    return login?.challenge === challenge && login.redirectUri === redirectUri ? login.user : undefined
  }

  /** Each refresh token works once. */
  function redeemRefreshToken({ refresh_token: token = '' }: Record<string, string>): string | undefined {
    const who = refreshTokens.get(token)
    refreshTokens.delete(token)
    return who
  }

  function user(request: IncomingMessage): Reply {
    provider.userRequests.push({ method: request.method ?? '', headers: request.headers })
    const who = users.get((request.headers.authorization ?? '').replace('Bearer ', ''))
    if (who === undefined) return { status: 401, body: { message: 'Bad credentials' } }
    return provider.flavour.user?.(who, request) ?? { body: { sub: who } }
  }
  return provider
}

function readMethod(request: IncomingMessage, form: Readonly<Record<string, string>>): TokenRequest['way'] {
  if (request.headers.authorization !== undefined) return 'basic'
  return form['client_secret'] === undefined ? 'none' : 'post'
}

function send(response: ServerResponse, { status = 200, type = 'application/json', body }: Reply): void {
  response.writeHead(status, { 'content-type': type }).end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** Behaves like GitHub: numeric ids, forms unless JSON is requested, errors with status 200. */
export const github: Flavour = {
  ways: ['post'],
  tokens: ({ accessToken, refreshToken }, { headers }) => {
    const body = {
      access_token: accessToken,
      token_type: 'bearer',
      scope: 'repo,user:email',
      expires_in: '28800',
      refresh_token: refreshToken,
    }
    if (headers.accept?.includes('json')) return { body }
    return { type: 'application/x-www-form-urlencoded; charset=utf-8', body: new URLSearchParams(body).toString() }
  },
  error: (code, { form }) => {
    const gone = form['grant_type'] === 'refresh_token' ? 'bad_refresh_token' : 'bad_verification_code'
    return { body: { error: code === 'invalid_grant' ? gone : code, error_description: 'secret details' } }
  },
  user: (name) => ({ body: { id: Number(name), login: `user-${name}`, name: null, email: `${name}@example.com` } }),
}

/** Behaves like Slack: the user's token is nested in the answer, beside another one for the app. */
export const slack: Flavour = {
  tokens: ({ user, accessToken, refreshToken }) => ({
    body: {
      ok: true,
      access_token: 'token-of-the-app',
      token_type: 'bot',
      team: { id: 'T1' },
      authed_user: {
        id: user,
        access_token: accessToken,
        token_type: 'user',
        scope: 'search:read,users:read',
        refresh_token: refreshToken,
        expires_in: 43_200,
      },
    },
  }),
  error: (code) => ({ body: { ok: false, error: code === 'invalid_grant' ? 'invalid_refresh_token' : code } }),
}
