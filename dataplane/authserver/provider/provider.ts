import type { Logger } from 'pino'
import { PublicError } from '../../server/errors.ts'
import { LOGIN_CLAIM } from '../../upstream-tokens/index.ts'
import type { Clients } from '../clients/clients.ts'
import { isRedirectAllowed } from '../clients/redirect-uris.ts'
import type { SigningKeys } from '../keys/key-files.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import type { RecordStore } from '../store/record-store.ts'
import { adapters } from './adapter.ts'
import type { Grants } from './grants.ts'
import {
  bridgeTo,
  createLibrary,
  InvalidRequest,
  InvalidTarget,
  type Library,
  type LibraryClient,
  type LibraryContext,
  type LibraryInteraction,
  type LibraryToken,
} from './library.ts'
import { type RefreshTokens, refreshTokens } from './refresh-tokens.ts'
import type { Settings } from './settings.ts'

/** The time that a user has for a login, in seconds. */
export const LOGIN_TIME_S = 600

/** The names of the library's cookies, which never leave this process. */
const COOKIES = { session: '_session', interaction: '_interaction', resume: '_resume' }

export interface ProviderOptions {
  readonly settings: Settings
  readonly keys: SigningKeys
  readonly keyed: KeyedHash
  readonly store: RecordStore
  readonly clients: Clients
  readonly grants: Grants
  /** True if proofs of possession are read, so that a code can be bound to a key. */
  readonly bindsCodes: boolean
  /** Returns the thumbprint of the key that the client of the current request has proven to have. */
  proofKey(): string | undefined
  log(): Logger
}

/**
 * The npm package `oidc-provider`, configured for codes, refresh tokens and JWTs, without pages, sessions and cookies.
 */
export type Provider = ReturnType<typeof createProvider>

interface GrantedLogin {
  readonly login: string
  readonly subject: string
  readonly clientId: string
  readonly resource: string
  readonly scope: string
}

/** Returns the uid of the authorization request that waits for a login, from the library's redirect. */
export const readLoginUid = (location: string | undefined): string | undefined =>
  location?.startsWith(LOGIN_PATH) ? location.slice(LOGIN_PATH.length) : undefined

const LOGIN_PATH = '/login/'

export function createProvider(options: ProviderOptions) {
  const { settings, keys, keyed, store, clients, grants, proofKey, log } = options
  const refresh = refreshTokens(store, keyed)
  const adapter = adapters({ store, keyed, clients, grants, refresh, proofKey })
  const library = new createLibrary(settings.issuer, configuration(options, adapter))
  library.proxy = true
  library.on('server_error', (_context, error) => {
    // The sender of the request reports this error.
    if (!(error instanceof PublicError)) log().error({ err: error }, 'the authorization server failed')
  })
  adapt(library, refresh)
  const send = bridgeTo(library, settings.issuer)
  return {
    refresh,
    keys,
    keyed,
    /**
     * Passes a request to the library. For an authorization request that needs a login, it answers with a redirect
     * (`readLoginUid`).
     */
    send,
    interaction: (uid: string) => library.Interaction.find(uid),
    /** Stores an authorization request with these parameters. Returns its uid; undefined if the request is invalid. */
    open: async (request: string) =>
      readLoginUid((await send({ method: 'GET', path: `/oauth/authorize?${request}` })).location),
    drop: async (uid: string) => (await library.Interaction.find(uid))?.destroy(),
    /** Stores the grant of a user to a client at a login. */
    async grant({ login, subject, clientId, resource, scope }: GrantedLogin): Promise<void> {
      const grant = new library.Grant({ jti: login, accountId: subject, clientId })
      // The library treats configured scopes as OpenID Connect scopes, so each scope is granted as both kinds.
      grant.addOIDCScope(scope)
      grant.addResourceScope(resource, scope)
      await grant.save()
    },
    /** Continues an authorization request whose result was saved, with the redirect to the client. */
    resume: (uid: string) =>
      send({ method: 'GET', path: `/oauth/authorize/${uid}`, cookie: `${COOKIES.resume}=${uid}` }),
  }
}

/** Overrides two behaviors of the library through its prototypes, as its documentation does for redirect URIs. */
function adapt(library: Library, refresh: RefreshTokens): void {
  library.Client.prototype.redirectUriAllowed = function redirectUriAllowed(this: LibraryClient, uri: string) {
    return isRedirectAllowed(this.redirectUris, uri, this.clientAuthMethod === 'none')
  }
  library.RefreshToken.prototype.generateTokenId = function generateTokenId(this: LibraryToken) {
    return refresh.make(this.grantId as string, this.rotations ?? 0)
  }
}

function configuration({ settings, keys, grants, bindsCodes, proofKey }: ProviderOptions, adapter: unknown): object {
  const { scopes, accessTokenS, refreshTokenS, codeS, grantS } = settings
  const off = { enabled: false }
  return {
    adapter,
    jwks: { keys: keys.privateKeys },
    scopes,
    claims: { openid: ['sub'] },
    responseTypes: ['code'],
    clientDefaults: {
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      id_token_signed_response_alg: keys.alg,
    },
    enabledJWA: { idTokenSigningAlgValues: [...new Set(keys.publicKeys.map(({ alg }) => alg))] },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    pkce: { required: () => true },
    ...(bindsCodes && { extraParams: { dpop_jkt: checkThumbprint } }),
    allowOmittingSingleRegisteredRedirectUri: false,
    clientBasedCORS: () => true,
    cookies: { names: COOKIES, long: { signed: false }, short: { signed: false } },
    routes: { authorization: '/oauth/authorize', token: '/oauth/token', jwks: '/.well-known/jwks.json' },
    interactions: { url: (_context: unknown, { uid }: LibraryInteraction) => `${LOGIN_PATH}${uid}` },
    findAccount: (_context: unknown, subject: string) => ({
      accountId: subject,
      claims: () => ({ sub: subject }),
    }),
    renderError(context: LibraryContext, out: object) {
      context.type = 'json'
      context.body = out
    },
    extraTokenClaims: async (_context: unknown, { kind, grantId }: LibraryToken) =>
      kind === 'AccessToken' && grantId !== undefined
        ? { ...(await grants.tokenClaims(grantId)), [LOGIN_CLAIM]: grantId, ...bindingTo(proofKey()) }
        : undefined,
    expiresWithSession: () => false,
    issueRefreshToken: (_context: unknown, client: LibraryClient) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    revokeGrantPolicy: () => true,
    ttl: {
      AccessToken: accessTokenS,
      AuthorizationCode: codeS,
      RefreshToken: refreshTokenS,
      IdToken: accessTokenS,
      Grant: grantS,
      Interaction: LOGIN_TIME_S,
      Session: LOGIN_TIME_S,
    },
    features: {
      devInteractions: off,
      dPoP: off,
      pushedAuthorizationRequests: off,
      rpInitiatedLogout: off,
      userinfo: off,
      resourceIndicators: resourceIndicators(settings, keys),
    },
  }
}

/** Returns the claim that binds a token to a key (RFC 9449 section 6.1). */
const bindingTo = (jkt: string | undefined) => (jkt === undefined ? {} : { cnf: { jkt } })

/** Checks the thumbprint that an authorization request binds its code to (RFC 9449 section 10). */
function checkThumbprint(_context: unknown, value: unknown): void {
  if (value !== undefined && !(typeof value === 'string' && /^[\w-]{43}$/.test(value)))
    throw new InvalidRequest('dpop_jkt must be a thumbprint')
}

function resourceIndicators({ audiences, defaultResource, scopes, accessTokenS }: Settings, keys: SigningKeys) {
  return {
    enabled: true,
    defaultResource(_context: unknown, _client: unknown, oneOf?: readonly string[]) {
      const resource = oneOf === undefined ? defaultResource : undefined
      if (resource === undefined)
        throw new InvalidTarget('resource must name one of the servers that tokens are issued for')
      return resource
    },
    getResourceServerInfo({ oidc }: LibraryContext, resource: string) {
      const audience = audiences.get(resource)
      if (audience === undefined || Array.isArray(oidc.params['resource']))
        throw new InvalidTarget('resource must name exactly one of the servers that tokens are issued for')
      return {
        scope: scopes.join(' '),
        audience,
        accessTokenFormat: 'jwt',
        accessTokenTTL: accessTokenS,
        jwt: { sign: { alg: keys.alg, kid: keys.kid } },
      }
    },
    useGrantedResource: () => true,
  }
}
