import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import * as client from 'openid-client'
import type { OAuth2UpstreamConfig } from '../../../config/auth-server.ts'
import { secretFile } from '../../../config/secret-file.ts'
import { createUserInfo, type Identity, identityIn, jwtPayload } from './identity.ts'
import { exchangeFault, ProviderFault, refreshed } from './provider-fault.ts'
import { ProviderResponse, providerFetch, webFetch } from './provider-fetch.ts'
import {
  createRegistration,
  type RegisteredClient,
  type Registration,
  type RegistrationStore,
} from './registered-client.ts'
import { errorIn, parseAnswer, standardAnswer, tokensIn } from './token-answer.ts'
import type { Upstream, UpstreamChecks, UpstreamLogin } from './upstream.ts'

interface OAuth2UpstreamOptions {
  readonly name: string
  readonly config: OAuth2UpstreamConfig
  readonly directory: string
  readonly redirectUri: string
  /** Origins of the other providers. */
  readonly others: readonly string[]
  /** The store of registered clients. */
  readonly registrations: RegistrationStore
}

/**
 * Creates a provider that supports only OAuth 2. The answer of the token endpoint or a separate request identifies the
 * user. If neither is configured, each login counts as a new user.
 */
export function oauth2Upstream(options: OAuth2UpstreamOptions): Upstream {
  const { name, config, directory, redirectUri, others } = options
  const { tokenEndpoint, scopes = [], additionalAuthorizationParams = {} } = config
  const own = createOAuth2Client({ config, directory, registration: openRegistration(options) })
  const userInfo = config.userInfo && createUserInfo(config.userInfo, config, directory)

  async function authorizationUrl({ state, verifier }: UpstreamChecks): Promise<string> {
    const url = client.buildAuthorizationUrl(await own.described(), {
      ...additionalAuthorizationParams,
      redirect_uri: redirectUri,
      ...(scopes.length > 0 && { scope: scopes.join(' ') }),
      state,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    })
    return url.href
  }

  async function exchange(callback: URLSearchParams, { state, verifier }: UpstreamChecks): Promise<UpstreamLogin> {
    const url = new URL(redirectUri)
    const checks = { pkceCodeVerifier: verifier, expectedState: state }
    const answered: Answered = {}
    try {
      url.search = withoutIssuer(callback, others).toString()
      const answer = await own.ask((provider) => client.authorizationCodeGrant(provider, url, checks), answered)
      const tokens = tokensIn(answer)
      const identity = await findIdentity(answered.document, tokens.accessToken)
      const { subject, ...shown } = identity ?? { subject: `login-${randomBytes(16).toString('base64url')}` }
      const isSynthetic = identity === undefined && { isSynthetic: true }
      return { issuer: tokenEndpoint, ...shown, ...isSynthetic, tokens: { ...tokens, subject } }
    } catch (error) {
      throw exchangeFault(error)
    }
  }

  /** Returns the identity of the user, or undefined if the configuration has no source for it. */
  async function findIdentity(document: unknown, accessToken: string): Promise<Identity | undefined> {
    const { subjectPath, namePath, emailPath } = config.identityFromToken ?? {}
    if (subjectPath === undefined) return userInfo?.ask(accessToken)
    const list = (path: string | undefined) => (path === undefined ? [] : [path])
    return identityIn(document, { subject: [subjectPath], name: list(namePath), email: list(emailPath) }, jwtPayload)
  }

  return {
    name,
    authorizationUrl,
    exchange,
    refresh(refreshToken) {
      const answered: Answered = {}
      return refreshed(
        async () => tokensIn(await own.ask((provider) => client.refreshTokenGrant(provider, refreshToken), answered)),
        () => answered.refreshToken,
      )
    },
    async close() {
      await Promise.all([own.close(), userInfo?.close()])
    },
  }
}

function openRegistration({ config, registrations, ...rest }: OAuth2UpstreamOptions): Registration | undefined {
  const { dcrConfig } = config
  return dcrConfig && createRegistration({ ...rest, ...registrations, config: { ...config, dcrConfig } })
}

/**
 * Returns the parameters without `iss` (RFC 9207): without metadata its expected value is unknown. Throws if it belongs
 * to another provider, whose code would be sent to this one (mix-up, RFC 9700 section 4.4).
 */
function withoutIssuer(callback: URLSearchParams, others: readonly string[]): URLSearchParams {
  const issuer = URL.parse(callback.get('iss') ?? '')
  if (issuer !== null && others.includes(issuer.origin))
    throw new ProviderFault('authorization', 'wrong_iss', 'the answer is that of another provider', { claim: 'iss' })
  const rest = new URLSearchParams(callback)
  rest.delete('iss')
  return rest
}

/** The answer to one request to the token endpoint. The request fills it in. */
interface Answered {
  /** The document in the provider's own form. */
  document?: unknown
  refreshToken?: string | undefined
}

interface OAuth2ClientOptions extends Pick<OAuth2UpstreamOptions, 'config' | 'directory'> {
  /** Absent for a configured client. */
  readonly registration: Registration | undefined
}

/** A client and the methods by which it may authenticate (RFC 6749 section 2.3.1). */
interface Own {
  readonly id: string
  readonly ways: readonly client.ClientAuth[]
}

/** Creates the gateway as a client of one OAuth 2 provider, based on the npm package openid-client. */
function createOAuth2Client({ config, directory, registration }: OAuth2ClientOptions) {
  const { authorizationEndpoint, tokenEndpoint } = config
  const fetch = providerFetch(tokenEndpoint, config, directory)
  const metadata = {
    // The provider has no metadata with an issuer, and no parameter with an issuer reaches the library.
    issuer: new URL(tokenEndpoint).origin,
    authorization_endpoint: authorizationEndpoint,
    token_endpoint: tokenEndpoint,
  }
  const given = givenClient(config, directory)
  const own = async (): Promise<Own> => (registration === undefined ? given : describeOwn(await registration.client()))
  /** The index of the authentication method that has worked for the client. */
  let way: number | undefined

  function describedFor(id: string, auth: client.ClientAuth, answered: Answered): client.Configuration {
    const provider = new client.Configuration(metadata, id, undefined, auth)
    if ([authorizationEndpoint, tokenEndpoint].some((url) => url.startsWith('http:')))
      client.allowInsecureRequests(provider)
    provider[client.customFetch] = async (...request) => {
      const response = await webFetch(fetch)(...request)
      const document = parseAnswer(await response.text(), response.headers.get('content-type') ?? '')
      const code = errorIn(document)
      if (!isAnswer(response) || code !== undefined) return errorResponse(response, code, document)
      const answer = standardAnswer(document, config.tokenResponseMapping)
      Object.assign(answered, { document, refreshToken: answer.refresh_token })
      return Response.json(answer)
    }
    return provider
  }

  return {
    /** Returns the library's configuration, which builds URLs without a request. */
    described: async () => describedFor((await own()).id, client.None(), {}),
    /** Lets the library call the token endpoint. It checks the answer after the conversion to the standard form. */
    async ask<T>(grant: (provider: client.Configuration) => Promise<T>, answered: Answered): Promise<T> {
      const { id, ways } = await own()
      const places = way === undefined ? ways.keys() : [way]
      let refusal: unknown
      for (const place of places) {
        try {
          const found = await grant(describedFor(id, ways[place] as client.ClientAuth, answered))
          way = place
          return found
        } catch (error) {
          // The provider may accept the other method, because it does not publish which one it accepts.
          const isRefused = error instanceof client.ResponseBodyError && error.error !== 'invalid_grant'
          if (!isRefused) throw error
          refusal = error
        }
      }
      throw refusal
    },
    async close() {
      await Promise.all([fetch.close(), registration?.close()])
    },
  }
}

/**
 * Returns the configured client, which reads its secret for each request. Providers accept one of the two methods or
 * both.
 */
function givenClient({ clientId = '', clientSecretFile }: OAuth2UpstreamConfig, directory: string): Own {
  if (clientSecretFile === undefined) return { id: clientId, ways: [client.None()] }
  const read = secretFile(resolve(directory, clientSecretFile))
  const by =
    (make: (secret: string) => client.ClientAuth): client.ClientAuth =>
    (...request) =>
      make(read())(...request)
  return { id: clientId, ways: [by(client.ClientSecretBasic), by(client.ClientSecretPost)] }
}

/** Returns a registered client, with the one method of its registration. */
function describeOwn({ id, secret, method }: RegisteredClient): Own {
  if (method === 'none') return { id, ways: [client.None()] }
  return {
    id,
    ways: [method === 'client_secret_basic' ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret)],
  }
}

/** Tells whether a response may hold tokens: providers answer with 200 or 201. */
const isAnswer = ({ ok, status }: ProviderResponse): boolean => ok && status !== 204

/** Builds an error response for the library, which reads its code only. */
function errorResponse(response: ProviderResponse, code: string | undefined, document: unknown): ProviderResponse {
  const { status, secrets } = response
  const isRefusal = status >= 400 && status < 500 && status !== 429
  const answered = { status, secrets, document }
  if (!isAnswer(response) && !isRefusal) return new ProviderResponse('', status, {}, answered)
  const text = JSON.stringify({ error: code ?? 'invalid_request' })
  return new ProviderResponse(text, isRefusal ? status : 400, { 'content-type': 'application/json' }, answered)
}
