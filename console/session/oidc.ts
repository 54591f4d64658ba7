import { readFileSync } from 'node:fs'
import * as client from 'openid-client'
import { createGuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import type { OidcLogin } from '../config/console.ts'

/** Creates the fetch that openid-client uses for a provider. It limits size and time, and refuses redirects. */
export function oauthFetch(options: Parameters<typeof createGuardedFetch>[0]): client.CustomFetch {
  const ask = createGuardedFetch(options)
  return async (url, { method, headers, body }) => {
    const answer = await ask(url, headers, method === 'POST' ? String(body ?? '') : undefined)
    const contentType = String(answer.headers['content-type'] ?? '')
    return new Response(answer.text === '' ? null : answer.text, {
      status: answer.status,
      headers: { 'content-type': contentType },
    })
  }
}

/** Returns the expiry of a JWT, in milliseconds; undefined for any other token. */
export function readExpiry(token: string): number | undefined {
  try {
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { exp?: unknown }
    return typeof exp === 'number' ? exp * 1000 : undefined
  } catch {
    return undefined
  }
}

/** The tokens of a login: the one for the API server, its expiry (milliseconds), and the refresh token. */
export interface Tokens {
  readonly token: string
  readonly refresh?: string | undefined
  readonly endsAt?: number | undefined
}

/** A login at an OpenID Connect provider: authorization code with PKCE, `state` and `nonce`. */
export class OidcClient {
  readonly #login: OidcLogin
  readonly #redirect: string
  #found: Promise<client.Configuration> | undefined

  constructor(login: OidcLogin, publicUrl: string) {
    this.#login = login
    this.#redirect = new URL('/login/callback', publicUrl).href
  }

  /** Returns the URL of the provider, and the state of the login while the user is there. */
  async start() {
    const found = await this.#provider()
    const [state, nonce, verifier] = [client.randomState(), client.randomNonce(), client.randomPKCECodeVerifier()]
    const url = client.buildAuthorizationUrl(found, {
      redirect_uri: this.#redirect,
      scope: this.#login.scopes.join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
    })
    return { url: url.href, state, nonce, verifier }
  }

  /** Exchanges the code for tokens. `search` is the query with which the browser returned. Throws a PublicError. */
  async finish(search: string, begun: Readonly<Record<string, unknown>>): Promise<Tokens> {
    const found = await this.#provider()
    try {
      const answer = await client.authorizationCodeGrant(found, new URL(`${this.#redirect}${search}`), {
        expectedState: String(begun['state']),
        expectedNonce: String(begun['nonce']),
        pkceCodeVerifier: String(begun['verifier']),
        idTokenExpected: true,
      })
      return this.#tokens(answer)
    } catch (error) {
      const { error: code, error_description: details } = error as Readonly<Record<string, unknown>>
      const said = [code, details].filter((part) => typeof part === 'string' && part !== '').join(': ')
      const reason = said === '' ? 'The provider’s answer is invalid' : `The provider says: ${said.slice(0, 500)}`
      throw new PublicError('forbidden', { message: `The login failed. ${reason.replace(/\.$/, '')}.`, cause: error })
    }
  }

  async refresh(refreshToken: string): Promise<Tokens> {
    return this.#tokens(await client.refreshTokenGrant(await this.#provider(), refreshToken))
  }

  /** Revokes a refresh token (RFC 7009), if the provider has a safe endpoint for that. */
  async revoke(refreshToken: string): Promise<void> {
    const found = await this.#provider()
    const { revocation_endpoint: endpoint } = found.serverMetadata()
    if (endpoint === undefined || !this.#isSafe(endpoint)) return
    await client.tokenRevocation(found, refreshToken, { token_type_hint: 'refresh_token' })
  }

  /** Tells whether an endpoint is https, or plain http as the issuer is. */
  #isSafe(endpoint: string | undefined): boolean {
    const isPlain = this.#login.issuerUrl.startsWith('http:')
    return endpoint?.startsWith('https:') === true || (isPlain && endpoint?.startsWith('http:') === true)
  }

  #tokens({ id_token, access_token, refresh_token, expires_in }: client.TokenEndpointResponse): Tokens {
    const token = this.#login.use === 'idToken' ? id_token : access_token
    if (token === undefined) throw new PublicError('forbidden', { message: 'The provider gives no ID token.' })
    const endsAt = readExpiry(token) ?? (expires_in === undefined ? undefined : Date.now() + expires_in * 1000)
    return { token, refresh: refresh_token, endsAt }
  }

  /** Discovers the provider's endpoints once. After a failed discovery the next login tries again. */
  #provider(): Promise<client.Configuration> {
    this.#found ??= this.#discover().catch((error: unknown) => {
      this.#found = undefined
      throw new PublicError('unavailable', { message: 'The login provider can’t be reached.', cause: error })
    })
    return this.#found
  }

  async #discover(): Promise<client.Configuration> {
    const { issuerUrl, clientId, clientSecretFile, caBundleFile } = this.#login
    const secret = clientSecretFile === undefined ? undefined : readFileSync(clientSecretFile, 'utf8').trim()
    const isPlain = issuerUrl.startsWith('http:')
    // The console's operator chose the provider, so its address is not restricted. Redirects are refused.
    const customFetch = oauthFetch({ caBundleFile, allowPrivateIP: true, allowLoopback: true })
    const found = await client.discovery(
      new URL(issuerUrl),
      clientId,
      undefined,
      secret === undefined ? client.None() : client.ClientSecretPost(secret),
      {
        [client.customFetch]: customFetch,
        execute: isPlain ? [client.allowInsecureRequests] : [],
      },
    )
    const { authorization_endpoint, token_endpoint } = found.serverMetadata()
    for (const endpoint of [authorization_endpoint, token_endpoint])
      if (!this.#isSafe(endpoint)) throw new Error('an endpoint in the metadata is missing, or not https')
    return found
  }
}
