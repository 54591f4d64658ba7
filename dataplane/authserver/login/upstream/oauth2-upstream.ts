import { randomBytes } from 'node:crypto'
import * as client from 'openid-client'
import type { OAuth2UpstreamConfig } from '../../../config/authserver/upstream.ts'
import { type Identity, identityIn, jwtPayload } from './identity.ts'
import { type Answered, createOAuth2Client } from './oauth2-client.ts'
import { faultOf, isDenial, ProviderFault, refreshed } from './provider-fault.ts'
import { createRegistration, type Registration, type RegistrationStore } from './registered-client.ts'
import { checkTokens } from './token-answer.ts'
import { type Upstream, type UpstreamChecks, UpstreamDenied, type UpstreamLogin } from './upstream.ts'
import { createUserInfo } from './user-info.ts'

interface OAuth2UpstreamOptions {
  readonly name: string
  readonly config: OAuth2UpstreamConfig
  readonly directory: string
  /** Where this provider sends browsers back to. */
  readonly redirectUri: string
  /** Origins of the other providers. */
  readonly others: readonly string[]
  /** Where registered clients are kept. */
  readonly registrations: RegistrationStore
}

/**
 * A provider that speaks OAuth 2 alone. Who the user is is said by the answer of its token endpoint, by a request of its
 * own, or by nobody: then each login is a user of its own.
 */
export function oauth2Upstream(options: OAuth2UpstreamOptions): Upstream {
  const { name, config, directory, redirectUri, others } = options
  const { tokenEndpoint, scopes = [], additionalAuthorizationParams = {} } = config
  const own = createOAuth2Client({ config, directory, registration: registrationOf(options) })
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
      const tokens = tokensOf(answer)
      const identity = await identityOf(answered.document, tokens.accessToken)
      const { subject, ...shown } = identity ?? { subject: `login-${randomBytes(16).toString('base64url')}` }
      const isSynthetic = identity === undefined && { isSynthetic: true }
      return { issuer: tokenEndpoint, ...shown, ...isSynthetic, tokens: { ...tokens, subject } }
    } catch (error) {
      const fault = faultOf(error, 'token')
      throw isDenial(error) ? new UpstreamDenied('the provider has refused', { cause: fault }) : fault
    }
  }

  /** Who the user is; undefined where nothing is configured that says it. */
  async function identityOf(document: unknown, accessToken: string): Promise<Identity | undefined> {
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
        async () => tokensOf(await own.ask((provider) => client.refreshTokenGrant(provider, refreshToken), answered)),
        () => answered.refreshToken,
      )
    },
    async close() {
      await Promise.all([own.close(), userInfo?.close()])
    },
  }
}

function registrationOf({ config, registrations, ...rest }: OAuth2UpstreamOptions): Registration | undefined {
  const { dcrConfig } = config
  return dcrConfig && createRegistration({ ...rest, ...registrations, config: { ...config, dcrConfig } })
}

/**
 * The parameters without `iss` (RFC 9207): there is no metadata that would say what it has to be. It must not be another
 * provider's, whose code would be sent here (mix-up, RFC 9700 section 4.4).
 */
function withoutIssuer(callback: URLSearchParams, others: readonly string[]): URLSearchParams {
  const issuer = URL.parse(callback.get('iss') ?? '')
  if (issuer !== null && others.includes(issuer.origin))
    throw new ProviderFault('authorization', 'wrong_iss', 'the answer is that of another provider', { claim: 'iss' })
  const rest = new URLSearchParams(callback)
  rest.delete('iss')
  return rest
}

/** What an answer gives. Throws an UnusableAnswer where its tokens are of no use. */
function tokensOf(answer: Awaited<ReturnType<typeof client.authorizationCodeGrant>>) {
  const { access_token: accessToken, refresh_token: refreshToken, scope, expires_in: expiresIn } = answer
  checkTokens(accessToken, refreshToken)
  const now = Date.now()
  return {
    accessToken,
    obtainedAt: now,
    ...(refreshToken !== undefined && { refreshToken }),
    ...(scope !== undefined && { scopes: scope.split(' ') }),
    ...(expiresIn !== undefined && { expiresAt: now + expiresIn * 1000 }),
  }
}
