import { lifespanBounds } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { AuthServerConfig, UpstreamProviderConfig } from '../../config/auth-server.ts'
import {
  buildRedirectUri,
  callbackUrlOf,
  findLoginUrl,
  findPrimaries,
  isChosen,
  isOnDemand,
  keyUrlOf,
  readCallbackName,
} from '../../config/authserver/provider.ts'

/** OpenID Connect scopes that every client may ask for. */
const OPENID_SCOPES = ['openid', 'profile', 'email', 'offline_access']

/** The gateway's part of the server's settings. */
export interface OwnResource {
  /** The public URL of the MCP endpoint, which clients request tokens for. */
  readonly resource: string
  /** The audience that the gateway requires in `aud`. */
  readonly audience: string
  /** The scopes that the gateway advertises. */
  readonly scopes: readonly string[]
  /** Further scopes that single tools need. Clients get them only on request, for example after a 403. */
  readonly toolScopes: readonly string[]
  /** Name of the provider on whose claims policies decide; absent: they decide on the token's claims. */
  readonly judgedBy?: string
}

/** The server's settings, derived from its configuration. Times are in seconds. */
export interface Settings extends Pick<OwnResource, 'toolScopes' | 'judgedBy'> {
  readonly issuer: string
  /** The path of the issuer, without a trailing slash; usually empty. */
  readonly issuerPath: string
  readonly authorizationEndpoint: string
  /** The configured path of the authorization endpoint. It is served in addition to the paths below the issuer. */
  readonly authorizationPath: string
  /**
   * The URL to which the authorization endpoint redirects browsers, at the host of callbacks: the cookie that binds a
   * browser to its login must come from the host that reads it later. Undefined if that is the same host.
   */
  readonly loginEndpoint: string | undefined
  /** The account page at the host of callbacks; undefined if everything is at that host. */
  readonly accountEndpoint: string | undefined
  /** True if cookies are sent over https only. */
  readonly isSecure: boolean
  readonly accessTokenS: number
  readonly refreshTokenS: number
  readonly codeS: number
  /** The lifetime of a grant without a refresh: as long as any of its tokens is valid. */
  readonly grantS: number
  /**
   * The lifetime of a grant before its first refresh token. Most grants without one are of logins whose code was never
   * exchanged.
   */
  readonly freshGrantS: number
  readonly scopes: readonly string[]
  /** The scopes that are not OpenID Connect scopes. */
  readonly ownScopes: readonly string[]
  /** The scopes of a request that names none. */
  readonly defaultScope: string
  /** The audience of tokens by resource. */
  readonly audiences: ReadonlyMap<string, string>
  /** Returns the configured spelling of a requested resource, and any other text unchanged. */
  readonly resourceNamed: (asked: string) => string
  /** The resource of a request without `resource`; undefined if there are several. */
  readonly defaultResource: string | undefined
  readonly allowConfidential: boolean
  /** True if clients may register with a key. */
  readonly allowKeys: boolean
  /** True if clients may have a metadata document. */
  readonly acceptsDocuments: boolean
  readonly providers: readonly ShownProvider[]
  /** The last segment of each provider's callback path; undefined for the shared callback. */
  readonly callbackNames: ReadonlyMap<string, string | undefined>
  /** The providers that identify users. A login visits one of them. The list is empty if nobody logs in here. */
  readonly primaries: readonly PrimaryProvider[]
  /**
   * The hosts of the providers that a login visits, in order. Hosts of which the user chooses one are a single text.
   */
  readonly providerHosts: readonly string[]
  /** The page where users log in later at an on-demand provider, at the host of callbacks. */
  readonly linkEndpoint: string
  /** URL of the page on which users enter keys. */
  readonly keyEndpoint: string
}

interface ShownProvider {
  readonly name: string
  readonly host: string
}

export interface PrimaryProvider extends ShownProvider {
  /** The domains of its users' e-mail addresses, in lower case. */
  readonly domains: readonly string[]
}

export function deriveSettings(config: AuthServerConfig, own: OwnResource): Settings {
  const { issuer, authorizationEndpointBaseUrl: base = issuer, tokenLifespans = {}, allowedAudiences = [] } = config
  const seconds = (name: keyof typeof lifespanBounds) =>
    Math.floor(parseDuration(tokenLifespans[name] ?? lifespanBounds[name].usual) / 1000)
  const [accessTokenS, refreshTokenS, codeS] = [
    seconds('accessTokenLifespan'),
    seconds('refreshTokenLifespan'),
    seconds('authCodeLifespan'),
  ]
  const ownScopes = (config.scopes ?? own.scopes).flatMap((scope) => scope.split(' ')).filter((scope) => scope !== '')
  const toolScopes = config.scopes === undefined ? own.toolScopes : []
  const scopes = [...new Set([...OPENID_SCOPES, ...ownScopes, ...toolScopes, ...(config.baselineClientScopes ?? [])])]
  const audiences = new Map([
    ...allowedAudiences.map((audience) => [audience, audience] as const),
    [own.audience, own.audience],
    [own.resource, own.audience],
  ])
  const authorizationEndpoint = `${base}/oauth/authorize`
  const callbacks = config.upstreamProviders.map((provider) => buildRedirectUri(config, provider))
  // All callbacks have one host. The path of the first one counts.
  const callback = callbackUrlOf(config)
  const loginEndpoint = callback.replace(/\/callback$/, '/login')
  const issuerPath = new URL(issuer).pathname.replace(/\/$/, '')
  const primaries = findPrimaries(config).map(primaryProvider)
  const isOnlyOwn = new Set(audiences.values()).size === 1
  return {
    issuer,
    issuerPath,
    authorizationEndpoint,
    authorizationPath: new URL(authorizationEndpoint).pathname,
    loginEndpoint: isBeside(new URL(authorizationEndpoint), new URL(callback), issuerPath) ? undefined : loginEndpoint,
    accountEndpoint: [issuer, base].every((url) => new URL(url).host === new URL(callback).host)
      ? undefined
      : callback.replace(/\/callback$/, '/account'),
    isSecure: callback.startsWith('https:'),
    accessTokenS,
    refreshTokenS,
    codeS,
    grantS: codeS + Math.max(accessTokenS, refreshTokenS),
    freshGrantS: codeS + accessTokenS,
    scopes,
    toolScopes,
    judgedBy: own.judgedBy,
    ownScopes: scopes.filter((scope) => !OPENID_SCOPES.includes(scope)),
    defaultScope: (ownScopes.length === 0 ? ['openid'] : ownScopes).join(' '),
    audiences,
    resourceNamed: resourceSpelling(audiences.keys()),
    defaultResource: isOnlyOwn ? own.resource : undefined,
    allowConfidential: config.allowConfidentialClientRegistration === true,
    allowKeys: config.allowPrivateKeyJWTRegistration === true,
    providers: config.upstreamProviders.map(shownProvider),
    callbackNames: new Map(
      config.upstreamProviders.map(({ name }, index) => [name, readCallbackName(callbacks[index] ?? '')]),
    ),
    primaries,
    providerHosts: listHosts(config, primaries),
    linkEndpoint: callback.replace(/\/callback$/, '/link'),
    keyEndpoint: keyUrlOf(config),
    acceptsDocuments: config.cimd?.enabled === true,
  }
}

/** Tells whether the login pages are next to the authorization endpoint. They are always at the callback's host. */
const isBeside = (authorization: URL, callback: URL, issuerPath: string): boolean =>
  authorization.host === callback.host &&
  ['/oauth/authorize', `${issuerPath}/oauth/authorize`].includes(authorization.pathname)

/** Returns the hosts of providers of which a user chooses one, as one text. */
export const alternatives = (providers: readonly ShownProvider[]): string =>
  providers.map(({ host }) => host).join(' or ')

/** Returns the hosts of the providers that a login visits, in order. */
const listHosts = (config: AuthServerConfig, primaries: readonly PrimaryProvider[]): readonly string[] => [
  ...(primaries.length > 1 ? [alternatives(primaries)] : []),
  ...config.upstreamProviders
    .filter((provider) => !isOnDemand(provider) && !isChosen(config, provider.name))
    .map((provider) => findLoginUrl(provider).host),
]

const primaryProvider = (provider: UpstreamProviderConfig): PrimaryProvider => ({
  ...shownProvider(provider),
  domains: (provider.emailDomains ?? []).map((domain) => domain.toLowerCase()),
})

const shownProvider = (provider: UpstreamProviderConfig): ShownProvider => ({
  name: provider.name,
  host: findLoginUrl(provider).host,
})

const URL_PARTS = /^([a-z][a-z\d+.-]*):\/\/([^/?#@]+)([^?#]*)(\?[^#]*)?$/i
const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: ':80', https: ':443' }

/**
 * Normalizes a resource for comparison: scheme and host in lower case, without the default port and without one
 * trailing slash of the path (RFC 3986 sections 6.2.2.1 and 6.2.3). Clients write a server's URL in each of these ways.
 * Any other difference makes a different resource. A text that is not a URL with a host, or has a fragment, stays as it
 * is.
 */
function comparable(resource: string): string {
  const [, scheme, authority, path = '', query = ''] = URL_PARTS.exec(resource) ?? []
  if (scheme === undefined || authority === undefined) return resource
  const protocol = scheme.toLowerCase()
  const host = authority.toLowerCase()
  const port = DEFAULT_PORTS[protocol]
  const bare = port !== undefined && host.endsWith(port) ? host.slice(0, -port.length) : host
  return `${protocol}://${bare}${path.replace(/\/$/, '')}${query}`
}

/**
 * Selects the audience of a token: the allowed resource that all of these names mean or, without a name, the only
 * allowed one. Returns undefined if a name means another resource, or if there are several audiences.
 */
export function selectAudience(
  names: readonly (string | undefined)[],
  allowed: readonly string[],
  { audiences, resourceNamed }: Pick<Settings, 'audiences' | 'resourceNamed'>,
): string | undefined {
  const own = resourceSpelling(allowed)
  const named = names
    .filter((name) => name !== undefined)
    .map((name) => (allowed.includes(name) ? name : own(resourceNamed(name))))
  if (!named.every((name) => allowed.includes(name))) return undefined
  const found = new Set((named.length === 0 ? allowed : named).map((name) => audiences.get(name) ?? name))
  return found.size === 1 ? [...found][0] : undefined
}

/** Returns the function that gives the configured spelling of a resource, and any other text unchanged. */
function resourceSpelling(configured: Iterable<string>): (asked: string) => string {
  const names = [...configured]
  const exact = new Set(names)
  // If two configured resources differ in spelling alone, the first one counts.
  const spellings = new Map(names.toReversed().map((name) => [comparable(name), name]))
  return (asked) => (exact.has(asked) ? asked : (spellings.get(comparable(asked)) ?? asked))
}
