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
import type { Finding } from '../../load.ts'
import { tokenClientFindings } from '../credential.ts'
import { issuerFindings } from '../issuer.ts'
import { compileKeyPattern } from '../key-pattern.ts'
import { isLoopback, urlFindings } from '../url.ts'

const isName = new RegExp(HEADER_NAME)
/** Headers that the gateway itself sets on a request, or that belong to its connection. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...['authorization', 'connection', 'content-length', 'cookie', 'host', 'keep-alive', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
])

export function upstreamFindings(
  provider: UpstreamProviderConfig,
  at: string,
  server: AuthServerConfig,
): readonly Finding[] {
  const { type, oidcConfig, oauth2Config, keyConfig } = provider
  const blocks = { oidc: oidcConfig, oauth2: oauth2Config, key: keyConfig }
  return [
    ...Object.entries(blocks)
      .filter(([name, block]) => (name === type) !== (block !== undefined))
      .map(([name]) => ({
        pointer: `${at}/${name}Config`,
        message: `must be set when type is ${name}, and only then`,
      })),
    ...(oidcConfig === undefined ? [] : oidcFindings(oidcConfig, `${at}/oidcConfig`)),
    ...(oauth2Config === undefined ? [] : oauth2Findings(oauth2Config, `${at}/oauth2Config`)),
    ...(keyConfig === undefined ? [] : keyFindings(provider, `${at}/keyConfig`, keyConfig)),
    ...tokensPerFindings(provider, `${at}/tokensPer`),
    ...(type === 'key'
      ? []
      : commonFindings(oidcConfig ?? oauth2Config ?? {}, `${at}/${type}Config`, provider, server)),
  ]
}

/** Checks whose the tokens of a provider are: those of a provider that each login visits belong to the login. */
function tokensPerFindings(provider: UpstreamProviderConfig, pointer: string): readonly Finding[] {
  const { tokensPer } = provider
  if (tokensPer === undefined) return []
  if (isKey(provider)) return tokensPer === 'user' ? [] : [{ pointer, message: 'must be user: a key is of its user' }]
  if (tokensPer === 'login' || isOnDemand(provider)) return []
  return [{ pointer, message: 'user needs loginPolicy onDemand: what a login visits is kept with that login' }]
}

/** Checks a provider of type `key`: the URL that verifies keys, and the header that carries them. */
function keyFindings(
  { loginPolicy }: UpstreamProviderConfig,
  at: string,
  {
    headerName = keyDefaults.headerName,
    pattern,
    verify,
    maxLifetime,
    remindBefore = keyDefaults.remindBefore,
  }: KeyConfig,
): readonly Finding[] {
  const name = headerName.toLowerCase()
  const url = verify && URL.parse(verify.url)
  const isOwn = name !== 'authorization' && (OWN_HEADERS.has(name) || gatewayHeaders.some((own) => own === name))
  const policy = at.replace(/keyConfig$/, 'loginPolicy')
  return [
    ...(loginPolicy === 'required'
      ? [{ pointer: policy, message: 'must be onDemand: a provider of type key is not visited at login' }]
      : []),
    ...(isOwn ? [{ pointer: `${at}/headerName`, message: 'is a header that the gateway sets itself' }] : []),
    ...(pattern === undefined ? [] : patternFindings(pattern, `${at}/pattern`)),
    ...(verify === undefined ? [] : urlFindings(verify.url, `${at}/verify/url`)),
    ...(url?.protocol === 'http:' && !isLoopback(url)
      ? [{ pointer: `${at}/verify/url`, message: 'must be https: a key would travel in the clear' }]
      : []),
    ...rangeFindings(verify?.timeout, `${at}/verify/timeout`, '30s'),
    ...rangeFindings(maxLifetime, `${at}/maxLifetime`, '8760h'),
    ...(Number.isFinite(parseDuration(remindBefore))
      ? []
      : [{ pointer: `${at}/remindBefore`, message: 'must be a duration' }]),
  ]
}

function rangeFindings(text: string | undefined, pointer: string, most: string): readonly Finding[] {
  if (text === undefined || (parseDuration(text) > 0 && parseDuration(text) <= parseDuration(most))) return []
  return [{ pointer, message: `must be more than 0s, and at most ${most}` }]
}

/** The constructs that JavaScript's regular expressions have and RE2 has not: lookaround and backreferences. */
const BEYOND_RE2 = /\(\?(?:<?[=!])|\\[1-9]|\\k</

/** Checks that RE2 accepts a pattern. */
function patternFindings(pattern: string, pointer: string): readonly Finding[] {
  if (BEYOND_RE2.test(pattern))
    return [{ pointer, message: 'must not use lookaround or backreferences, which RE2 does not have' }]
  try {
    compileKeyPattern(pattern)
    return []
  } catch (error) {
    return [{ pointer, message: (error as TypeError).message }]
  }
}

const oidcFindings = (config: OidcUpstreamConfig, at: string): readonly Finding[] => [
  ...issuerFindings(
    { ...config, issuer: config.issuerUrl, allowPrivateIP: config.allowPrivateIPs, allowedBy: 'allowPrivateIPs' },
    at,
    'issuerUrl',
  ),
  ...(config.userInfoOverride === undefined
    ? []
    : userInfoFindings(config.userInfoOverride, `${at}/userInfoOverride`, config)),
]

function oauth2Findings(config: OAuth2UpstreamConfig, at: string): readonly Finding[] {
  const { authorizationEndpoint, tokenEndpoint, userInfo, identityFromToken } = config
  return [
    ...loginPageFindings(authorizationEndpoint, `${at}/authorizationEndpoint`, config),
    ...endpointFindings(tokenEndpoint, `${at}/tokenEndpoint`, config),
    ...(userInfo === undefined ? [] : userInfoFindings(userInfo, `${at}/userInfo`, config)),
    ...clientFindings(config, at),
    ...(userInfo !== undefined && identityFromToken !== undefined
      ? [{ pointer: `${at}/userInfo`, message: 'must be left out with identityFromToken, which says who the user is' }]
      : []),
  ]
}

/** Checks that the gateway's client at the provider is either configured or registered dynamically. */
function clientFindings(config: OAuth2UpstreamConfig, at: string): readonly Finding[] {
  const { clientId, clientSecretFile, dcrConfig } = config
  const { discoveryUrl, registrationEndpoint } = dcrConfig ?? {}
  const pointer = `${at}/dcrConfig`
  return [
    ...((clientId === undefined) === (dcrConfig === undefined)
      ? [{ pointer: `${at}/clientId`, message: 'must be set without dcrConfig, and only then' }]
      : []),
    ...(clientSecretFile !== undefined && dcrConfig !== undefined
      ? [{ pointer: `${at}/clientSecretFile`, message: 'is not used with dcrConfig' }]
      : []),
    ...(dcrConfig !== undefined && (discoveryUrl === undefined) === (registrationEndpoint === undefined)
      ? [{ pointer, message: 'must have exactly one of discoveryUrl and registrationEndpoint' }]
      : []),
    ...(discoveryUrl === undefined ? [] : endpointFindings(discoveryUrl, `${pointer}/discoveryUrl`, config)),
    ...(registrationEndpoint === undefined
      ? []
      : endpointFindings(registrationEndpoint, `${pointer}/registrationEndpoint`, config)),
  ]
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
function loginPageFindings(text: string, pointer: string, { insecureAllowHTTP }: Called): readonly Finding[] {
  const url = URL.parse(text)
  if (url === null) return urlFindings(text, pointer)
  const isSecure = url.protocol === 'https:' || isLoopback(url) || insecureAllowHTTP === true
  return [
    ...urlFindings(text, pointer),
    ...(isSecure
      ? []
      : [{ pointer, message: 'must be https; plain http is for loopback, or needs insecureAllowHTTP: true' }]),
    ...[...url.searchParams.keys()]
      .filter((name) => ownParameters.includes(name))
      .map((name) => ({ pointer, message: `its query must not hold ${name}, which is set by the server itself` })),
  ]
}

function userInfoFindings(
  { endpointUrl, additionalHeaders = {} }: UserInfoConfig,
  at: string,
  called: Called,
): readonly Finding[] {
  const headers = Object.entries(additionalHeaders)
  const names = headers.map(([name]) => name.toLowerCase())
  return [
    ...endpointFindings(endpointUrl, `${at}/endpointUrl`, called),
    ...headers.flatMap(([name, value], index) => {
      const pointer = `${at}/additionalHeaders/${escapeStep(name)}`
      const lower = name.toLowerCase()
      if (!isName.test(name)) return [{ pointer, message: 'is not a header name' }]
      if (OWN_HEADERS.has(lower)) return [{ pointer, message: 'this header is set by the server itself' }]
      if (names.indexOf(lower) < index) return [{ pointer, message: 'this header is named twice' }]
      return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? [] : [{ pointer, message: 'is not a valid header value' }]
    }),
  ]
}

/** Checks a callback. All callbacks need the same host: it has the cookie that binds a login to its browser. */
function callbackFindings(callback: URL, pointer: string, server: AuthServerConfig): readonly Finding[] {
  const others = server.upstreamProviders.map((provider) => URL.parse(buildRedirectUri(server, provider))?.host)
  const isSecure = callback.protocol === 'https:' || isLoopback(callback) || server.insecureAllowHTTP === true
  return [
    ...(isSecure
      ? []
      : [{ pointer, message: 'must be https; plain http is for loopback, or needs insecureAllowHTTP: true' }]),
    ...(callback.search === '' ? [] : [{ pointer, message: 'must have no query' }]),
    ...(others.every((host) => host === callback.host)
      ? []
      : [{ pointer, message: 'must be at the host of the callbacks of all other providers' }]),
  ]
}

/** Checks for OAuth 2 providers that share a callback and could be mixed up. */
function sharedFindings(
  redirectUri: string,
  pointer: string,
  { name, oauth2Config }: UpstreamProviderConfig,
  server: AuthServerConfig,
): readonly Finding[] {
  if (oauth2Config === undefined) return []
  const other = server.upstreamProviders.find(
    (one) => one.oauth2Config !== undefined && one.name !== name && buildRedirectUri(server, one) === redirectUri,
  )
  return other === undefined
    ? []
    : [{ pointer, message: `must not be that of the oauth2 provider ${other.name}, whose codes could be sent here` }]
}

function commonFindings(
  {
    redirectUri,
    additionalAuthorizationParams = {},
  }: Pick<OAuth2UpstreamConfig, 'redirectUri' | 'additionalAuthorizationParams'>,
  at: string,
  provider: UpstreamProviderConfig,
  server: AuthServerConfig,
): readonly Finding[] {
  const callback = redirectUri === undefined ? null : URL.parse(redirectUri)
  const ends = ['/oauth/callback', `/oauth/callback/${provider.name}`]
  return [
    ...(redirectUri === undefined ? [] : urlFindings(redirectUri, `${at}/redirectUri`)),
    ...(callback !== null && !ends.some((end) => callback.pathname.endsWith(end))
      ? [
          {
            pointer: `${at}/redirectUri`,
            message: `its path must end with /oauth/callback or ${ends[1]}, where callbacks are served`,
          },
        ]
      : []),
    ...(callback === null ? [] : callbackFindings(callback, `${at}/redirectUri`, server)),
    ...(redirectUri === undefined ? [] : sharedFindings(redirectUri, `${at}/redirectUri`, provider, server)),
    ...Object.keys(additionalAuthorizationParams)
      .filter((name) => ownParameters.includes(name))
      .map((name) => ({
        pointer: `${at}/additionalAuthorizationParams/${name}`,
        message: 'is set by the server itself',
      })),
  ]
}
