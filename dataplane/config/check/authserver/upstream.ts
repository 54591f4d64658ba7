import { ownParameters } from '../../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../../crds/settings/duration.ts'
import { keyDefaults } from '../../../../crds/settings/gateway/defaults.ts'
import { gatewayHeaders, HEADER_NAME } from '../../../../crds/settings/header-rules.ts'
import { escapeStep } from '../../../../crds/settings/json.ts'
import type {
  AuthServerConfig,
  KeyConfig,
  OAuth2UpstreamConfig,
  OidcUpstreamConfig,
  UpstreamProviderConfig,
  UserInfoConfig,
} from '../../auth-server.ts'
import { buildRedirectUri, isKey, isOnDemand } from '../../authserver/provider.ts'
import type { Finding, Findings } from '../../load.ts'
import { tokenClientFindings } from '../credential.ts'
import { issuerFindings } from '../issuer.ts'
import { compileKeyPattern } from '../key-pattern.ts'
import { unusable } from '../lists.ts'
import { isLoopback, plainHttpFindings, urlFindings } from '../url.ts'

const isName = new RegExp(HEADER_NAME)
/** Headers that the gateway itself sets on a request, or that belong to its connection. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...['authorization', 'connection', 'content-length', 'cookie', 'host', 'keep-alive', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
])

export const upstreamFindings = (...checked: Parameters<typeof providerFindings>): readonly Finding[] => [
  ...providerFindings(...checked),
]

function* providerFindings(provider: UpstreamProviderConfig, at: string, server: AuthServerConfig): Findings {
  const { type, oidcConfig, oauth2Config, keyConfig } = provider
  const blocks = { oidc: oidcConfig, oauth2: oauth2Config, key: keyConfig }
  for (const [name, block] of Object.entries(blocks))
    if ((name === type) !== (block !== undefined))
      yield { pointer: `${at}/${name}Config`, message: `must be set when type is ${name}, and only then` }
  if (oidcConfig !== undefined) yield* oidcFindings(oidcConfig, `${at}/oidcConfig`)
  if (oauth2Config !== undefined) yield* oauth2Findings(oauth2Config, `${at}/oauth2Config`)
  if (keyConfig !== undefined) yield* keyFindings(provider, `${at}/keyConfig`, keyConfig)
  yield* tokensPerFindings(provider, `${at}/tokensPer`)
  if (type !== 'key') yield* commonFindings(oidcConfig ?? oauth2Config ?? {}, `${at}/${type}Config`, provider, server)
}

/** Checks whose the tokens of a provider are: those of a provider that each login visits belong to the login. */
function* tokensPerFindings(provider: UpstreamProviderConfig, pointer: string): Findings {
  const { tokensPer } = provider
  if (isKey(provider)) {
    if (tokensPer === 'login') yield { pointer, message: 'must be user: a key is of its user' }
  } else if (tokensPer === 'user' && !isOnDemand(provider))
    yield { pointer, message: 'user needs loginPolicy onDemand: what a login visits is kept with that login' }
}

/** Checks a provider of type `key`: the URL that verifies keys, and the header that carries them. */
function* keyFindings(
  { loginPolicy }: UpstreamProviderConfig,
  at: string,
  { headerName = keyDefaults.headerName, pattern, verify, maxLifetime }: KeyConfig,
): Findings {
  const name = headerName.toLowerCase()
  if (loginPolicy === 'required')
    yield {
      pointer: at.replace(/keyConfig$/, 'loginPolicy'),
      message: 'must be onDemand: a provider of type key is not visited at login',
    }
  if (name !== 'authorization' && (OWN_HEADERS.has(name) || gatewayHeaders.some((own) => own === name)))
    yield { pointer: `${at}/headerName`, message: 'is a header that the gateway sets itself' }
  if (pattern !== undefined) yield* patternFindings(pattern, `${at}/pattern`)
  if (verify !== undefined) {
    const url = URL.parse(verify.url)
    yield* urlFindings(verify.url, `${at}/verify/url`)
    if (url?.protocol === 'http:' && !isLoopback(url))
      yield { pointer: `${at}/verify/url`, message: 'must be https: a key would travel in the clear' }
  }
  yield* rangeFindings(verify?.timeout, `${at}/verify/timeout`, '30s')
  yield* rangeFindings(maxLifetime, `${at}/maxLifetime`, '8760h')
}

function* rangeFindings(text: string | undefined, pointer: string, most: string): Findings {
  if (text !== undefined && (parseDuration(text) <= 0 || parseDuration(text) > parseDuration(most)))
    yield { pointer, message: `must be more than 0s, and at most ${most}` }
}

/** The constructs that JavaScript's regular expressions have and RE2 has not: lookaround and backreferences. */
const BEYOND_RE2 = /\(\?(?:<?[=!])|\\[1-9]|\\k</

/** Checks that RE2 accepts a pattern. */
const patternFindings = (pattern: string, pointer: string): Iterable<Finding> =>
  BEYOND_RE2.test(pattern)
    ? [{ pointer, message: 'must not use lookaround or backreferences, which RE2 does not have' }]
    : unusable(() => compileKeyPattern(pattern), pointer)

function* oidcFindings(config: OidcUpstreamConfig, at: string): Findings {
  const { issuerUrl: issuer, allowPrivateIPs: allowPrivateIP, userInfoOverride } = config
  yield* issuerFindings({ ...config, issuer, allowPrivateIP, allowedBy: 'allowPrivateIPs' }, at, 'issuerUrl')
  if (userInfoOverride !== undefined) yield* userInfoFindings(userInfoOverride, `${at}/userInfoOverride`, config)
}

function* oauth2Findings(config: OAuth2UpstreamConfig, at: string): Findings {
  const { authorizationEndpoint, tokenEndpoint, userInfo, identityFromToken } = config
  yield* loginPageFindings(authorizationEndpoint, `${at}/authorizationEndpoint`, config)
  yield* endpointFindings(tokenEndpoint, `${at}/tokenEndpoint`, config)
  if (userInfo !== undefined) yield* userInfoFindings(userInfo, `${at}/userInfo`, config)
  yield* clientFindings(config, at)
  if (userInfo !== undefined && identityFromToken !== undefined)
    yield { pointer: `${at}/userInfo`, message: 'must be left out with identityFromToken, which says who the user is' }
}

/** Checks that the gateway's client at the provider is either configured or registered dynamically. */
function* clientFindings(config: OAuth2UpstreamConfig, at: string): Findings {
  const { clientId, clientSecretFile, dcrConfig } = config
  const pointer = `${at}/dcrConfig`
  if ((clientId === undefined) === (dcrConfig === undefined))
    yield { pointer: `${at}/clientId`, message: 'must be set without dcrConfig, and only then' }
  if (dcrConfig === undefined) return
  const { discoveryUrl, registrationEndpoint } = dcrConfig
  if (clientSecretFile !== undefined) yield { pointer: `${at}/clientSecretFile`, message: 'is not used with dcrConfig' }
  if ((discoveryUrl === undefined) === (registrationEndpoint === undefined))
    yield { pointer, message: 'must have exactly one of discoveryUrl and registrationEndpoint' }
  for (const [field, url] of Object.entries({ discoveryUrl, registrationEndpoint }))
    if (url !== undefined) yield* endpointFindings(url, `${pointer}/${field}`, config)
}

type Called = Pick<OAuth2UpstreamConfig, 'allowPrivateIPs' | 'insecureAllowHTTP'>

/** Checks an address to which the gateway sends a code, a secret or a token. */
function endpointFindings(text: string, pointer: string, { allowPrivateIPs, insecureAllowHTTP }: Called) {
  const field = pointer.slice(pointer.lastIndexOf('/') + 1)
  return tokenClientFindings(
    { tokenUrl: text, allowPrivateIP: allowPrivateIPs, insecureAllowHTTP },
    pointer.slice(0, -field.length - 1),
    { url: field, client: 'clientId', insecure: 'insecureAllowHTTP', private: 'allowPrivateIPs' },
  )
}

/** Checks the page to which browsers are sent. The gateway itself does not call it. Its query is kept. */
function* loginPageFindings(text: string, pointer: string, { insecureAllowHTTP }: Called): Findings {
  const url = URL.parse(text)
  yield* urlFindings(text, pointer)
  yield* plainHttpFindings(url, pointer, insecureAllowHTTP)
  for (const name of url?.searchParams.keys() ?? [])
    if (ownParameters.includes(name))
      yield { pointer, message: `its query must not hold ${name}, which is set by the server itself` }
}

function* userInfoFindings(
  { endpointUrl, additionalHeaders = {} }: UserInfoConfig,
  at: string,
  called: Called,
): Findings {
  const headers = Object.entries(additionalHeaders)
  const names = headers.map(([name]) => name.toLowerCase())
  yield* endpointFindings(endpointUrl, `${at}/endpointUrl`, called)
  for (const [index, [name, value]] of headers.entries()) {
    const pointer = `${at}/additionalHeaders/${escapeStep(name)}`
    const lower = name.toLowerCase()
    if (!isName.test(name)) yield { pointer, message: 'is not a header name' }
    else if (OWN_HEADERS.has(lower)) yield { pointer, message: 'this header is set by the server itself' }
    else if (names.indexOf(lower) < index) yield { pointer, message: 'this header is named twice' }
    else if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) yield { pointer, message: 'is not a valid header value' }
  }
}

/** Checks a callback. All callbacks need the same host: it has the cookie that binds a login to its browser. */
function* callbackFindings(callback: URL, pointer: string, server: AuthServerConfig): Findings {
  const others = server.upstreamProviders.map((provider) => URL.parse(buildRedirectUri(server, provider))?.host)
  yield* plainHttpFindings(callback, pointer, server.insecureAllowHTTP)
  if (callback.search !== '') yield { pointer, message: 'must have no query' }
  if (others.some((host) => host !== callback.host))
    yield { pointer, message: 'must be at the host of the callbacks of all other providers' }
}

/** Checks for OAuth 2 providers that share a callback and could be mixed up. */
function* sharedFindings(
  redirectUri: string,
  pointer: string,
  { name, oauth2Config }: UpstreamProviderConfig,
  server: AuthServerConfig,
): Findings {
  if (oauth2Config === undefined) return
  const other = server.upstreamProviders.find(
    (one) => one.oauth2Config !== undefined && one.name !== name && buildRedirectUri(server, one) === redirectUri,
  )
  if (other !== undefined)
    yield { pointer, message: `must not be that of the oauth2 provider ${other.name}, whose codes could be sent here` }
}

function* commonFindings(
  {
    redirectUri,
    additionalAuthorizationParams = {},
  }: Pick<OAuth2UpstreamConfig, 'redirectUri' | 'additionalAuthorizationParams'>,
  at: string,
  provider: UpstreamProviderConfig,
  server: AuthServerConfig,
): Findings {
  if (redirectUri !== undefined) {
    const pointer = `${at}/redirectUri`
    const callback = URL.parse(redirectUri)
    const ends = ['/oauth/callback', `/oauth/callback/${provider.name}`]
    yield* urlFindings(redirectUri, pointer)
    if (callback !== null && !ends.some((end) => callback.pathname.endsWith(end)))
      yield {
        pointer,
        message: `its path must end with /oauth/callback or ${ends[1]}, where callbacks are served`,
      }
    if (callback !== null) yield* callbackFindings(callback, pointer, server)
    yield* sharedFindings(redirectUri, pointer, provider, server)
  }
  for (const name of Object.keys(additionalAuthorizationParams))
    if (ownParameters.includes(name))
      yield { pointer: `${at}/additionalAuthorizationParams/${name}`, message: 'is set by the server itself' }
}
