import { resolve } from 'node:path'
import * as client from 'openid-client'
import { isObject } from '../../../../crds/settings/json.ts'
import type { OidcUpstreamConfig } from '../../../config/auth-server.ts'
import { isLoopback } from '../../../config/check/url.ts'
import { secretFile } from '../../../config/secret-file.ts'
import { isEmailVerified } from '../../../identity/index.ts'
import type { GuardedFetch } from '../../../net/guarded-fetch.ts'
import { createUserInfo, shownClaim, subjectFrom } from './identity.ts'
import { exchangeFault, ProviderFault, refreshed, toFault } from './provider-fault.ts'
import { ProviderResponse, providerFetch, UnusableAnswer, webFetch } from './provider-fetch.ts'
import { errorIn, parseAnswer, standardAnswer, tokensIn } from './token-answer.ts'
import type { RefreshAnswer, RefreshedTokens, Upstream, UpstreamChecks, UpstreamLogin } from './upstream.ts'

interface OidcUpstreamOptions {
  readonly name: string
  readonly config: OidcUpstreamConfig
  readonly directory: string
  readonly redirectUri: string
}

type TokenAnswer = Awaited<ReturnType<typeof client.authorizationCodeGrant>>

const USUAL_SCOPES = ['openid', 'offline_access']
/** The time after which metadata and keys are fetched again. */
const DISCOVERED_MS = 60 * 60_000

/** Creates an OpenID Connect provider, based on the npm package openid-client. Its requests pass the address check. */
export function oidcUpstream({ name, config, directory, redirectUri }: OidcUpstreamOptions): Upstream {
  const { issuerUrl, scopes = USUAL_SCOPES, additionalAuthorizationParams = {}, subjectClaim = 'sub' } = config
  const fetch = providerFetch(issuerUrl, config, directory)
  const userInfo = config.userInfoOverride && createUserInfo(config.userInfoOverride, config, directory)
  let discovered: { readonly at: number; readonly config: Promise<client.Configuration> } | undefined

  /** Returns one discovery for all logins that wait. If it fails, the next login starts another. */
  function configuration(): Promise<client.Configuration> {
    const now = performance.now()
    if (discovered !== undefined && now - discovered.at < DISCOVERED_MS) return discovered.config
    const found = discover(config, directory, fetch)
    discovered = { at: now, config: found }
    found.catch(() => {
      discovered = undefined
    })
    return found
  }

  async function authorizationUrl({ state, nonce, verifier }: UpstreamChecks, maxAge?: number): Promise<string> {
    const found = await configuration()
    const url = client.buildAuthorizationUrl(found, {
      ...additionalAuthorizationParams,
      ...freshness(maxAge, additionalAuthorizationParams, found.serverMetadata()),
      redirect_uri: redirectUri,
      scope: [...new Set(['openid', ...scopes])].join(' '),
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    })
    return url.href
  }

  async function exchange(callback: URLSearchParams, checks: UpstreamChecks): Promise<UpstreamLogin> {
    const url = new URL(redirectUri)
    url.search = callback.toString()
    try {
      const answer = await client.authorizationCodeGrant(await configuration(), url, {
        pkceCodeVerifier: checks.verifier,
        expectedState: checks.state,
        expectedNonce: checks.nonce,
        idTokenExpected: true,
      })
      const login = readLogin(answer, issuerUrl, subjectClaim)
      // The signed ID token identifies the user. User info adds only what is shown.
      const names = [login.tokens.subject, answer.claims()?.sub]
      return { ...login, ...(await userInfo?.confirm(login.tokens.accessToken, names)) }
    } catch (error) {
      throw exchangeFault(error)
    }
  }

  async function refresh(refreshToken: string): Promise<RefreshAnswer> {
    const { config: own, rotated } = notingRefreshTokens(await configuration(), config, directory, fetch)
    return refreshed(async () => readTokens(await client.refreshTokenGrant(own, refreshToken), subjectClaim), rotated)
  }

  return {
    name,
    authorizationUrl,
    exchange,
    refresh,
    async close() {
      await Promise.all([fetch.close(), userInfo?.close()])
    },
  }
}

/**
 * Finds the provider's endpoints. Throws for an endpoint without https, unless the issuer is also on plain http and the
 * endpoint is on loopback or `insecureAllowHTTP` is set.
 */
async function discover(
  config: OidcUpstreamConfig,
  directory: string,
  guarded: GuardedFetch,
): Promise<client.Configuration> {
  const { issuerUrl, clientId, insecureAllowHTTP } = config
  const isPlain = issuerUrl.startsWith('http:')
  const found = await client
    .discovery(new URL(issuerUrl), clientId, undefined, clientAuth(config, directory), {
      [client.customFetch]: fetchFor(guarded),
      execute: isPlain ? [client.allowInsecureRequests] : [],
    })
    .catch((error: unknown) => {
      throw toFault(error, 'metadata')
    })
  const metadata = found.serverMetadata()
  for (const endpoint of [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri]) {
    const url = URL.parse(endpoint ?? '')
    const mayBePlain = isPlain && url !== null && (insecureAllowHTTP === true || isLoopback(url))
    if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && mayBePlain))
      throw toFault(
        new UnusableAnswer(`an endpoint in the metadata of ${issuerUrl} is missing, or not https`),
        'metadata',
      )
  }
  // Signatures of ID tokens are checked although they come directly from the token endpoint, because it costs little.
  client.enableNonRepudiationChecks(found)
  return found
}

type Request = Parameters<client.CustomFetch>

/**
 * Makes a fetch whose answers have the form that the library insists on. It turns an error with status 200 into an error
 * response.
 */
function fetchFor(guarded: GuardedFetch) {
  const fetch = webFetch(guarded)
  return async (...[url, options]: Request): Promise<ProviderResponse> => {
    const response = await fetch(url, options)
    if (options.method !== 'POST') return response.ok ? standardDocument(response) : response
    if (readError(response) !== 'invalid_client') return standardTokens(response)
    const inForm = withCredentialsInForm(options)
    return standardTokens(inForm === undefined ? response : await fetch(url, inForm))
  }
}

const readError = ({ document }: ProviderResponse): unknown => isObject(document) && document['error']

/** Moves the client's credentials from HTTP Basic into the form, because some providers accept them only there. */
function withCredentialsInForm(options: Request[1]): Request[1] | undefined {
  const { authorization = '', ...headers } = options.headers
  const basic = /^Basic (.+)$/.exec(authorization)?.[1]
  if (basic === undefined) return undefined
  const [id = '', secret = ''] = Buffer.from(basic, 'base64').toString('utf8').split(':', 2)
  return { ...options, headers, body: new URLSearchParams(`${options.body}&client_id=${id}&client_secret=${secret}`) }
}

const JSON_TYPE = { 'content-type': 'application/json' }

/** Converts a metadata member to its standard type if a provider writes a text instead of a list or a boolean. */
function standardMember(name: string, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (name.endsWith('_parameter_supported') && /^(?:true|false)$/i.test(value)) return value.toLowerCase() === 'true'
  return name.endsWith('_supported') && !name.endsWith('_parameter_supported') ? value.split(/[ ,]+/) : value
}

/**
 * Converts metadata or keys to the form of the specifications, whatever their media type. Members that are null and
 * entries that are no keys are dropped.
 */
function standardDocument(response: ProviderResponse): ProviderResponse {
  const { status, document, secrets } = response
  if (!isObject(document)) return response
  const { keys } = document
  const known = Array.isArray(keys)
    ? { ...document, keys: keys.filter(isObject) }
    : Object.fromEntries(Object.entries(document).map(([name, value]) => [name, standardMember(name, value)]))
  const text = JSON.stringify(known, (_, value: unknown) => value ?? undefined)
  return new ProviderResponse(text, 200, JSON_TYPE, { status, document, secrets })
}

/** Converts an answer of the token endpoint to the form of RFC 6749 section 5, whatever its media type and status. */
function standardTokens(response: ProviderResponse): ProviderResponse {
  if (!response.ok) return response
  const { status, secrets } = response
  const document = response.documentAs(parseAnswer)
  if (!isObject(document)) return response
  const code = errorIn(document)
  const from = { status, document, secrets }
  if (code !== undefined) return new ProviderResponse(JSON.stringify({ error: code }), 400, JSON_TYPE, from)
  const idToken = document['id_token'] ?? undefined
  const answer = { ...standardAnswer(document, undefined), id_token: idToken }
  return new ProviderResponse(JSON.stringify(answer), 200, JSON_TYPE, from)
}

/** Returns the provider for one request. It notes the new refresh token even if the library refuses the answer. */
function notingRefreshTokens(
  found: client.Configuration,
  own: OidcUpstreamConfig,
  directory: string,
  guarded: GuardedFetch,
) {
  const config = new client.Configuration(found.serverMetadata(), own.clientId, undefined, clientAuth(own, directory))
  if (own.issuerUrl.startsWith('http:')) client.allowInsecureRequests(config)
  let answered: unknown
  const fetch = fetchFor(guarded)
  config[client.customFetch] = async (...request) => {
    const response = await fetch(...request)
    answered = await response
      .clone()
      .json()
      .catch(() => undefined)
    return response
  }
  return {
    config,
    rotated(): string | undefined {
      const token = isObject(answered) ? answered['refresh_token'] : undefined
      return typeof token === 'string' && token !== '' ? token : undefined
    },
  }
}

/**
 * Returns the parameters that force a new login if the last one is older than `maxAge` seconds or than the
 * configuration allows. `max_age=0` has the same meaning as `prompt=login` (OpenID Connect Core 1.0 section 3.1.2.1),
 * which more providers support.
 */
function freshness(
  maxAge: number | undefined,
  { max_age: configured, prompt = '' }: Readonly<Record<string, string>>,
  { prompt_values_supported: prompts }: Readonly<Record<string, unknown>>,
): Record<string, string> {
  if (maxAge === undefined) return {}
  const knowsLogin = !Array.isArray(prompts) || prompts.includes('login')
  const others = prompt.split(' ').filter((one) => one !== '' && one !== 'none' && one !== 'login')
  return {
    max_age: String(/^\d+$/.test(configured ?? '') ? Math.min(maxAge, Number(configured)) : maxAge),
    ...(maxAge === 0 && knowsLogin && { prompt: ['login', ...others].join(' ') }),
  }
}

/** Authenticates the gateway by a method that the provider supports. It reads the secret file for each request. */
function clientAuth({ clientSecretFile }: OidcUpstreamConfig, directory: string): client.ClientAuth {
  if (clientSecretFile === undefined) return client.None()
  const read = secretFile(resolve(directory, clientSecretFile))
  return (server, metadata, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const auth = methods.includes('client_secret_basic') ? client.ClientSecretBasic : client.ClientSecretPost
    return auth(read())(server, metadata, body, headers)
  }
}

function readLogin(answer: TokenAnswer, issuer: string, subjectClaim: string): UpstreamLogin {
  const claims: Readonly<Record<string, unknown>> = answer.claims() ?? {}
  const { subject, ...tokens } = readTokens(answer, subjectClaim)
  if (subject === undefined) throw new ProviderFault('token', 'no_id_token', 'there is no ID token')
  const name = shownClaim(claims['name'])
  const email = isEmailVerified(claims) ? shownClaim(claims['email']) : undefined
  const { auth_time: authTime } = claims
  return {
    issuer,
    ...(typeof authTime === 'number' && authTime > 0 && { authTime: Math.floor(authTime) }),
    ...(name !== undefined && { name }),
    ...(email !== undefined && { email }),
    tokens: { ...tokens, subject },
  }
}

/** Returns the tokens of an answer. Throws an UnusableAnswer if they are unusable, or if the ID token names no user. */
function readTokens(answer: TokenAnswer, subjectClaim: string): RefreshedTokens & { readonly refreshToken?: string } {
  const tokens = tokensIn(answer)
  const { id_token: idToken } = answer
  const claims: Readonly<Record<string, unknown>> | undefined = answer.claims()
  return {
    ...tokens,
    ...(claims !== undefined && { subject: subjectIn(claims, subjectClaim) }),
    ...(idToken !== undefined && { idToken }),
  }
}

function subjectIn(claims: Readonly<Record<string, unknown>>, claim: string): string {
  try {
    return subjectFrom(ownClaim(claims, claim))
  } catch {
    const message = `the ID token has no usable claim ${JSON.stringify(claim)} that says who the user is`
    throw new ProviderFault('token', 'no_subject', message, { claim })
  }
}

const ownClaim = (claims: Readonly<Record<string, unknown>>, name: string): unknown =>
  Object.hasOwn(claims, name) ? claims[name] : undefined
