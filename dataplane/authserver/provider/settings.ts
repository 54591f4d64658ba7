import { lifespanBounds } from '../../../crds/settings/auth/auth-server-bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { AuthServerConfig, UpstreamProviderConfig } from '../../config/auth-server.ts'
import { callbackNameOf, isOnDemand, loginUrlOf, primaryOf, redirectUriOf } from '../../config/authserver/provider.ts'

/** Scopes of OpenID Connect that every client may ask for. */
const OPENID_SCOPES = ['openid', 'profile', 'email', 'offline_access']

/** What the server is told of the gateway that it belongs to. */
export interface OwnResource {
  /** Public URL of the MCP endpoint, which clients ask tokens for. */
  readonly resource: string
  /** What the gateway requires in `aud`. */
  readonly audience: string
  /** Scopes that the gateway tells clients of. */
  readonly scopes: readonly string[]
}

/** The configuration as the server works with it; times in seconds. */
export interface Settings {
  readonly issuer: string
  /** Path of the issuer, without a slash at the end; empty for most. */
  readonly issuerPath: string
  readonly authorizationEndpoint: string
  /** Its path, which is served besides those below the issuer. */
  readonly authorizationPath: string
  /**
   * Where the authorization endpoint sends browsers on to, at the host of callbacks: a cookie that binds a browser to its
   * login is set by the host that sees it again. Undefined where it is that host itself.
   */
  readonly loginEndpoint: string | undefined
  /** The page of what is linked, at the host of callbacks; undefined where all is at that host. */
  readonly accountEndpoint: string | undefined
  /** Whether cookies are for https alone. */
  readonly isSecure: boolean
  readonly accessTokenS: number
  readonly refreshTokenS: number
  readonly codeS: number
  /** How long a grant lives without a refresh: as long as anything that was issued by it may be used. */
  readonly grantS: number
  /** How long it lives until it has a refresh token, which most never get whose code nobody fetches. */
  readonly freshGrantS: number
  readonly scopes: readonly string[]
  /** Those of `scopes` that are not of OpenID Connect. */
  readonly ownScopes: readonly string[]
  /** Scopes of a request that names none. */
  readonly defaultScope: string
  /** From resources to the audience of tokens for them. */
  readonly audiences: ReadonlyMap<string, string>
  /** The configured spelling of a resource that a client names, and any other text as it is. */
  readonly resourceNamed: (asked: string) => string
  /** What is meant by a request without `resource`; undefined where there is a choice. */
  readonly defaultResource: string | undefined
  readonly allowConfidential: boolean
  /** Clients may be known by a metadata document. */
  readonly acceptsDocuments: boolean
  readonly providers: readonly ShownProvider[]
  /** What names a provider at the end of its callback's path; undefined where nothing does. */
  readonly callbackNames: ReadonlyMap<string, string | undefined>
  /** The one that says who users are. */
  readonly primary: ShownProvider
  /** Hosts of the providers that every login passes, in order. */
  readonly providerHosts: readonly string[]
  /** Where users log in later at a provider that is asked for on demand, at the host of callbacks. */
  readonly linkEndpoint: string
}

/** A provider, as people are told of it. */
interface ShownProvider {
  readonly name: string
  readonly host: string
}

export function settingsOf(config: AuthServerConfig, own: OwnResource): Settings {
  const { issuer, authorizationEndpointBaseUrl: base = issuer, tokenLifespans = {}, allowedAudiences = [] } = config
  const seconds = (name: keyof typeof lifespanBounds) =>
    Math.floor(parseDuration(tokenLifespans[name] ?? lifespanBounds[name].usual) / 1000)
  const [accessTokenS, refreshTokenS, codeS] = [
    seconds('accessTokenLifespan'),
    seconds('refreshTokenLifespan'),
    seconds('authCodeLifespan'),
  ]
  const ownScopes = (config.scopes ?? own.scopes).flatMap((scope) => scope.split(' ')).filter((scope) => scope !== '')
  const scopes = [...new Set([...OPENID_SCOPES, ...ownScopes, ...(config.baselineClientScopes ?? [])])]
  const audiences = new Map([
    ...allowedAudiences.map((audience) => [audience, audience] as const),
    [own.audience, own.audience],
    [own.resource, own.audience],
  ])
  const authorizationEndpoint = `${base}/oauth/authorize`
  const callbacks = config.upstreamProviders.map((provider) => redirectUriOf(config, provider))
  // All have one host; the path below it is the first one's.
  const callback = (callbacks[0] ?? issuer).replace(/\/oauth\/callback\/[^/]+$/, '/oauth/callback')
  const loginEndpoint = callback.replace(/\/callback$/, '/login')
  const issuerPath = new URL(issuer).pathname.replace(/\/$/, '')
  const required = config.upstreamProviders.filter((provider) => !isOnDemand(provider))
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
    ownScopes: scopes.filter((scope) => !OPENID_SCOPES.includes(scope)),
    defaultScope: (ownScopes.length === 0 ? ['openid'] : ownScopes).join(' '),
    audiences,
    resourceNamed: resourceSpelling(audiences.keys()),
    defaultResource: isOnlyOwn ? own.resource : undefined,
    allowConfidential: config.allowConfidentialClientRegistration === true,
    providers: config.upstreamProviders.map(shownProvider),
    callbackNames: new Map(
      config.upstreamProviders.map(({ name }, index) => [name, callbackNameOf(callbacks[index] ?? '')]),
    ),
    primary: shownProvider(primaryOf(config) ?? (config.upstreamProviders[0] as UpstreamProviderConfig)),
    providerHosts: required.map((provider) => loginUrlOf(provider).host),
    linkEndpoint: callback.replace(/\/callback$/, '/link'),
    acceptsDocuments: config.cimd?.enabled === true,
  }
}

/** Whether the pages of a login, which have the callback's host, lie beside the authorization endpoint as well. */
const isBeside = (authorization: URL, callback: URL, issuerPath: string): boolean =>
  authorization.host === callback.host &&
  ['/oauth/authorize', `${issuerPath}/oauth/authorize`].includes(authorization.pathname)

const shownProvider = (provider: UpstreamProviderConfig): ShownProvider => ({
  name: provider.name,
  host: loginUrlOf(provider).host,
})

const URL_PARTS = /^([a-z][a-z\d+.-]*):\/\/([^/?#@]+)([^?#]*)(\?[^#]*)?$/i
const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: ':80', https: ':443' }

/**
 * A resource in the form that it is compared in: scheme and host without case, without the scheme's own port, and without
 * one slash at the end of the path (RFC 3986 sections 6.2.2.1 and 6.2.3; clients write the URL of a server in each of these
 * ways). Whatever else differs is another resource; so is a text that is no URL with a host, or has a fragment.
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

/** Makes a function that gives the configured spelling of a resource, and any other text as it is. */
export function resourceSpelling(configured: Iterable<string>): (asked: string) => string {
  const names = [...configured]
  const exact = new Set(names)
  // The first one counts where two are configured that differ in their spelling alone.
  const spellings = new Map(names.toReversed().map((name) => [comparable(name), name]))
  return (asked) => (exact.has(asked) ? asked : (spellings.get(comparable(asked)) ?? asked))
}
