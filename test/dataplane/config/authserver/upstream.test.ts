/** Checks that mistakes in an authorization server's providers are reported at their place. */
import { Value } from 'typebox/value'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { authServer, type UpstreamProviderConfig } from '../../../../dataplane/config/auth-server.ts'
import { upstreamFindings } from '../../../../dataplane/config/check/authserver/upstream.ts'

const SERVER = { issuer: 'https://tools.example.com', upstreamProviders: [] as UpstreamProviderConfig[] }
const OAUTH2 = {
  authorizationEndpoint: 'https://code.example.com/authorize',
  tokenEndpoint: 'https://code.example.com/token',
  clientId: 'gateway',
}
const OIDC = { issuerUrl: 'https://login.example.com', clientId: 'gateway' }
const DCR = { registrationEndpoint: 'https://code.example.com/register' }
const USER_INFO = { endpointUrl: 'https://api.example.com/user' }

const oauth2 = (more: object): UpstreamProviderConfig => ({
  name: 'code',
  type: 'oauth2',
  oauth2Config: JSON.parse(JSON.stringify({ ...OAUTH2, ...more })),
})
const oidc = (more: object): UpstreamProviderConfig => ({
  name: 'code',
  type: 'oidc',
  oidcConfig: { ...OIDC, ...more },
})

const good: readonly UpstreamProviderConfig[] = [
  oauth2({}),
  oauth2({
    userInfo: { ...USER_INFO, httpMethod: 'POST', additionalHeaders: { Accept: 'application/x', 'X-V': '2' } },
  }),
  oauth2({ userInfo: { ...USER_INFO, httpMethod: 'get' } }),
  oauth2({ identityFromToken: { subjectPath: 'a.b' }, tokenResponseMapping: { accessTokenPath: 'a.c' } }),
  oauth2({ tokenResponseMapping: { refreshTokenPath: 'a.r' } }),
  oauth2({ authorizationEndpoint: 'http://localhost/authorize?tenant=7', tokenEndpoint: 'http://127.0.0.1/token' }),
  oauth2({ tokenEndpoint: 'http://code.example.com/token', insecureAllowHTTP: true }),
  oauth2({ tokenEndpoint: 'https://10.0.0.1/token', allowPrivateIPs: true }),
  oauth2({ clientId: undefined, dcrConfig: DCR }),
  oidc({ userInfoOverride: USER_INFO, subjectClaim: 'oid' }),
  oidc({ redirectUri: 'https://cb.example.com/x/oauth/callback' }),
  oidc({ redirectUri: 'http://localhost:7000/oauth/callback' }),
  oauth2({ redirectUri: 'https://tools.example.com/oauth/callback/code' }),
]

const wrong: readonly [UpstreamProviderConfig, string, string][] = [
  [{ name: 'x', type: 'oauth2', oidcConfig: OIDC }, '/oidcConfig', 'when type is oidc'],
  [{ name: 'x', type: 'oauth2' }, '/oauth2Config', 'when type is oauth2'],
  [oauth2({ authorizationEndpoint: 'http://code.example.com/a' }), '/oauth2Config/authorizationEndpoint', 'https'],
  [oauth2({ authorizationEndpoint: 'https://x/a?state=1' }), '/oauth2Config/authorizationEndpoint', 'hold state'],
  [oauth2({ authorizationEndpoint: 'https://u:p@x/a' }), '/oauth2Config/authorizationEndpoint', 'credentials'],
  [oauth2({ tokenEndpoint: 'http://code.example.com/t' }), '/oauth2Config/tokenEndpoint', 'insecureAllowHTTP'],
  [oauth2({ tokenEndpoint: 'https://10.0.0.1/t' }), '/oauth2Config/tokenEndpoint', 'allowPrivateIPs'],
  [oauth2({ tokenEndpoint: 'https://169.254.169.254/t' }), '/oauth2Config/tokenEndpoint', 'never called'],
  [oauth2({ userInfo: { endpointUrl: 'http://x.example/u' } }), '/oauth2Config/userInfo/endpointUrl', 'https'],
  [
    oauth2({ userInfo: USER_INFO, identityFromToken: { subjectPath: 'a' } }),
    '/oauth2Config/userInfo',
    'identityFromToken',
  ],
  ...(
    [
      [{ Authorization: 'x' }, 'Authorization', 'by the server itself'],
      [{ HOST: 'x' }, 'HOST', 'by the server itself'],
      [{ 'a b': 'x' }, 'a b', 'not a header name'],
      [{ 'a/b~': 'x' }, 'a~1b~0', 'not a header name'],
      [{ a: 'x', A: 'y' }, 'A', 'twice'],
      [{ a: 'x\r\ny: z' }, 'a', 'not a valid header value'],
    ] as const
  ).map(([additionalHeaders, name, text]): [UpstreamProviderConfig, string, string] => [
    oauth2({ userInfo: { ...USER_INFO, additionalHeaders } }),
    `/oauth2Config/userInfo/additionalHeaders/${name}`,
    text,
  ]),
  [
    oidc({ userInfoOverride: { endpointUrl: 'https://192.168.0.1/u' } }),
    '/oidcConfig/userInfoOverride/endpointUrl',
    'allowPrivateIPs',
  ],
  [oauth2({ redirectUri: 'https://tools.example.com/elsewhere' }), '/oauth2Config/redirectUri', 'must end with'],
  [oauth2({ redirectUri: 'https://tools.example.com/oauth/callback/x' }), '/oauth2Config/redirectUri', 'must end with'],
  [oauth2({ clientId: undefined }), '/oauth2Config/clientId', 'without dcrConfig'],
  [oauth2({ dcrConfig: DCR }), '/oauth2Config/clientId', 'without dcrConfig'],
  [
    oauth2({ clientId: undefined, clientSecretFile: 'x', dcrConfig: DCR }),
    '/oauth2Config/clientSecretFile',
    'not used',
  ],
  [oauth2({ clientId: undefined, dcrConfig: {} }), '/oauth2Config/dcrConfig', 'exactly one'],
  [
    oauth2({ clientId: undefined, dcrConfig: { ...DCR, discoveryUrl: 'https://x.example/' } }),
    '/oauth2Config/dcrConfig',
    'exactly one',
  ],
  [
    oauth2({ clientId: undefined, dcrConfig: { registrationEndpoint: 'http://x.example/r' } }),
    '/oauth2Config/dcrConfig/registrationEndpoint',
    'https',
  ],
  [
    oauth2({ clientId: undefined, dcrConfig: { discoveryUrl: 'https://10.0.0.1/r' } }),
    '/oauth2Config/dcrConfig/discoveryUrl',
    'allowPrivateIPs',
  ],
  [oauth2({ redirectUri: 'http://cb.example.com/oauth/callback' }), '/oauth2Config/redirectUri', 'must be https'],
  [oauth2({ redirectUri: 'https://tools.example.com/oauth/callback?x=y' }), '/oauth2Config/redirectUri', 'no query'],
  [
    oauth2({ redirectUri: 'https://cb.example.com/oauth/callback' }),
    '/oauth2Config/redirectUri',
    'all other providers',
  ],
  [
    oauth2({ additionalAuthorizationParams: { code_challenge: 'x' } }),
    '/oauth2Config/additionalAuthorizationParams/code_challenge',
    'by the server itself',
  ],
]

test('a valid provider has no finding', () => {
  for (const provider of good) {
    assert.ok(Value.Check(authServer.properties.upstreamProviders.items, provider), JSON.stringify(provider))
    assert.equal(upstreamFindings(provider, '', SERVER), [], JSON.stringify(provider))
  }
})

test('each mistake has a finding at its field', () => {
  for (const [provider, pointer, text] of wrong) {
    const findings = upstreamFindings(provider, '', { ...SERVER, upstreamProviders: [provider, oidc({})] })
    const found = findings.find((one) => one.pointer === pointer)
    assert.match(found?.message ?? JSON.stringify(findings), text)
  }
})

test('two oauth2 providers do not share a callback', () => {
  const shared = { redirectUri: 'https://tools.example.com/oauth/callback' }
  const listFindings = (...providers: readonly UpstreamProviderConfig[]) => {
    const server = { ...SERVER, upstreamProviders: [...providers] }
    return providers.flatMap((one) => upstreamFindings(one, one.name, server)).map(({ pointer }) => pointer)
  }
  const withName = (name: string, more: object) => ({ ...oauth2(more), name })
  assert.equal(listFindings(withName('a', shared), withName('b', shared)), [
    'a/oauth2Config/redirectUri',
    'b/oauth2Config/redirectUri',
  ])
  assert.equal(listFindings(withName('a', shared), withName('b', {})), [])
  assert.equal(listFindings(withName('a', shared), oidc(shared)), [])
})

test.run()
