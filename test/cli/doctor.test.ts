/** Tests `portico doctor idp` with a real provider and with faulty ones. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type OidcProvider, startOidcProvider } from '../support/identity/oidc-provider.ts'

const CALLBACK = 'https://gateway.example/oauth/callback'

let provider: OidcProvider

test.before(async () => {
  provider = await startOidcProvider({ formatOf: () => 'jwt', scopes: ['tools:call'], redirectUris: [CALLBACK] })
})
test.after(() => provider.close())

interface Line {
  readonly severity: string
  readonly check: string
  readonly message: string
  readonly fix?: string
}

async function doctor(...args: string[]) {
  let out = ''
  let err = ''
  const code = await dispatch(['doctor', ...args], {
    out: (text) => void (out += text),
    err: (line) => void (err += line),
    env: {},
    stop: new AbortController().signal,
  })
  return { code, out, err }
}

async function diagnose(...args: string[]) {
  const { code, out } = await doctor('idp', ...args, '--output', 'json')
  const { providers } = JSON.parse(out) as { providers: { findings: Line[]; register: Record<string, unknown> }[] }
  return { code, providers, findings: providers.flatMap(({ findings }) => findings) }
}

const manifests = (issuer: string) => `
apiVersion: portico.dev/v1beta1
kind: MCPOIDCConfig
metadata: {name: corp}
spec:
  type: inline
  inline:
    issuer: ${issuer}
    clientId: portico
    clientSecretRef: {name: corp, key: secret}
---
apiVersion: v1
kind: Secret
metadata: {name: corp}
stringData: {secret: this-is-told-to-nobody}
---
apiVersion: portico.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: tools}
spec:
  groupRef: {name: tools}
  incomingAuth:
    type: oidc
    audience: https://gateway.example/mcp
    oidcConfigRef: {name: corp, scopes: [tools:call]}
  authServerConfig:
    issuer: https://gateway.example
    upstreamProviders:
      - name: corp
        type: oidc
        oidcConfig:
          issuerUrl: ${issuer}
          clientId: portico
          clientSecretRef: {name: corp, key: secret}
          scopes: [openid, offline_access]
`

test('a correct provider needs no change, and doctor prints what to register', async () => {
  using folder = temporaryFolder({ 'all.yaml': manifests(provider.issuer) })
  const { code, out, err } = await doctor('idp', folder.path)
  assert.equal([code, err], [0, ''], out)
  for (const text of [
    `MCPOIDCConfig default/corp: ${provider.issuer}`,
    'VirtualMCPServer default/tools, provider corp',
    `redirect URI  ${CALLBACK}`,
    'scopes        tools:call',
    'audience      https://gateway.example/mcp',
    'the provider’s clock agrees',
    `are introspected at ${provider.issuer}/token/introspection`,
    'signs with',
  ])
    assert.ok(out.includes(text), `${text} in:\n${out}`)
  assert.not.match(out, 'error')
  assert.not.match(out, 'told-to-nobody')
})

test('doctor checks --issuer for callers and for users', async () => {
  const callers = await diagnose('--issuer', provider.issuer, '--audience', 'x', '--scope', 'tools:call')
  assert.is(callers.code, 0, JSON.stringify(callers.findings))
  assert.equal(callers.providers[0]?.register, { scopes: ['tools:call'], audiences: ['x'] })
  const users = await diagnose('--issuer', provider.issuer, '--redirect-uri', CALLBACK, '--scope', 'unheard-of')
  assert.is(users.code, 0)
  assert.is(users.providers[0]?.register['redirectUri'], CALLBACK)
  assert.ok(users.findings.some(({ severity, check }) => severity === 'warning' && check === 'scopes'))
})

test('wrong usage', async () => {
  for (const args of [[], ['idp'], ['teeth', 'x'], ['idp', 'x', '--issuer', 'https://a.example']])
    assert.is((await doctor(...args)).code, 2, args.join(' '))
})

/** Starts a provider by hand: changes to its metadata, its keys, its headers. */
async function broken(changes: object, keys: unknown = undefined, headers: () => Record<string, string> = () => ({})) {
  const metadata = async () =>
    (await (await fetch(`${provider.issuer}/.well-known/openid-configuration`)).json()) as object
  const own: { jwks: string; text: string } = { jwks: '', text: '' }
  const server = createServer((request, response) => {
    const text = request.url === '/jwks' ? own.jwks : own.text
    response.writeHead(200, { 'content-type': 'application/json', ...headers() }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const published = keys ?? (await (await fetch(`${provider.issuer}/jwks`)).json())
  own.jwks = typeof published === 'string' ? published : JSON.stringify(published)
  own.text = JSON.stringify({ ...(await metadata()), issuer, jwks_uri: `${issuer}/jwks`, ...changes })
  return { issuer, [Symbol.dispose]: () => void server.close() }
}

const shiftClock = (seconds: number) => () => ({ date: new Date(Date.now() + seconds * 1000).toUTCString() })
const wrong: readonly (readonly [string, Parameters<typeof broken>, check: string, message: RegExp])[] = [
  ['another issuer', [{ issuer: 'https://other.example' }], 'issuer', /other\.example/],
  ['metadata whose issuer is no text', [{ issuer: { a: 1 } }], 'issuer', /\{"a":1\}/],
  ['no jwks_uri', [{ jwks_uri: undefined }], 'keys', /jwks_uri is nothing/],
  ['keys over plain http', [{ jwks_uri: 'http://192.0.2.1/jwks' }], 'keys', /not https/],
  ['keys at an address that is never called', [{ jwks_uri: 'https://169.254.169.254/' }], 'keys', /link-local/],
  ['keys at a private address', [{ jwks_uri: 'https://10.0.0.1/' }], 'keys', /private address/],
  ['no keys', [{}, { keys: [] }], 'keys', /has no keys/],
  ['keys that are no JSON', [{}, '<html>'], 'keys', /not a set of keys/],
  ['symmetric keys alone', [{}, { keys: [{ kty: 'oct', k: 'c2VjcmV0' }] }], 'keys', /can be used/],
  ['a clock that is behind', [{}, undefined, shiftClock(-900)], 'clock', /[89]\d\d s behind/],
  ['a clock that is ahead', [{}, undefined, shiftClock(900)], 'clock', /[89]\d\d s ahead/],
  ['symmetric signatures', [{ id_token_signing_alg_values_supported: ['HS256'] }], 'algorithms', /HS256/],
  ['no code flow', [{ response_types_supported: ['id_token'] }], 'login', /id_token/],
]
for (const [what, arguments_, check, message] of wrong)
  test(`doctor detects a provider with ${what}, and says what to do`, async () => {
    using idp = await broken(...arguments_)
    const { code, findings } = await diagnose('--issuer', idp.issuer, '--audience', 'x')
    const found = findings.find((one) => one.severity === 'error' && one.check === check)
    assert.is(code, 1, JSON.stringify(findings))
    assert.match(found?.message ?? JSON.stringify(findings), message)
    assert.ok(found?.fix)
  })

test('doctor detects a published private key and does not print it', async () => {
  const key = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', d: 'nWGxne_9WmC6hEr0' }
  using idp = await broken({}, { keys: [key] })
  const { code, out } = await doctor('idp', '--issuer', idp.issuer)
  assert.is(code, 1)
  assert.match(out, 'a private key is published')
  assert.not.match(out, key.d)
})

test('doctor reports an unreachable provider, a forbidden address and a missing issuer', async () => {
  for (const [issuer, message] of [
    ['http://127.0.0.1:1', /nothing listens there/],
    ['https://10.0.0.1', /private address/],
    ['http://idp.example', /must be https/],
    ['https://idp.example/?a=b', /must have no query/],
    ['https://name.invalid', /name is not found|can’t be read/],
    ['nonsense', /is not a URL/],
  ] as const) {
    const { code, findings } = await diagnose('--issuer', issuer)
    assert.is(code, 1, issuer)
    assert.match(findings[0]?.message ?? '', message)
    assert.ok(findings[0]?.fix)
  }
})

test('texts of a provider are escaped before they reach a terminal', async () => {
  using idp = await broken({ issuer: `\u001b[2J\n${'x'.repeat(10_000)}` })
  const { out } = await doctor('idp', '--issuer', idp.issuer)
  assert.not.match(out, '\u001b')
  assert.ok(out.length < 5_000)
})

/** Returns a JWKS as clients publish it. */
async function readKeys(...keys: readonly object[]) {
  const server = createServer((request, response) =>
    request.url === '/keys' ? response.end(JSON.stringify({ keys })) : response.writeHead(404).end(),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { at, url: `${at}/keys`, [Symbol.dispose]: () => void server.close() }
}

const accepting = (authServerConfig: object) =>
  JSON.stringify({
    apiVersion: 'portico.dev/v1beta1',
    kind: 'VirtualMCPServer',
    metadata: { name: 'tools' },
    spec: { groupRef: { name: 'tools' }, authServerConfig: { issuer: 'http://127.0.0.1:4483', ...authServerConfig } },
  })

test('doctor checks trusted issuers in both forms, and the keys of clients and trust domains', async () => {
  using idp = await broken({})
  const key = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', kid: 'k' }
  using keys = await readKeys(key, { ...key, kid: 'svid', use: 'jwt-svid' })
  const policy = { maxAssertionAge: '5m', acceptedAudiences: ['https://other.example'] }
  const config = {
    trustedIssuers: [
      { name: 'corp', issuerUrl: idp.issuer },
      { issuerUrl: 'http://127.0.0.1:1', jwksUrl: `${idp.issuer}/jwks`, jwtBearerGrant: policy },
      { name: 'pods', issuerUrl: 'https://kubernetes.default.svc', keySource: 'cluster' },
    ],
    inboundGrants: {
      jwtBearer: { issuerPolicies: [{ issuerRef: 'corp', ...policy }] },
      clientCredentials: { clients: [{ clientId: 'robot', jwksUrl: keys.url }] },
    },
    spiffeTrustDomains: [{ name: 'prod', trustDomain: 'prod.example', bundleSource: { endpoint: { url: keys.url } } }],
  }
  using folder = temporaryFolder({ 'all.json': accepting(config) })
  const { code, out, err } = await doctor('idp', folder.path)
  assert.equal([code, err], [0, ''], out)
  for (const text of [
    `VirtualMCPServer default/tools, trusted issuer corp: ${idp.issuer} (its tokens are exchanged here)`,
    `VirtualMCPServer default/tools, trusted issuer: http://127.0.0.1:1 (its tokens are exchanged here)`,
    'assertions must be for http://127.0.0.1:4483 or https://other.example',
    'are those of the cluster’s API server',
    `VirtualMCPServer default/tools, client robot: ${keys.url} (keys of clients)`,
    'VirtualMCPServer default/tools, trust domain prod.example',
    `${keys.url} has 1 for signatures: "svid"`,
  ])
    assert.ok(out.includes(text), `${text} in:\n${out}`)
  assert.not.match(out, /error|PKCE/)
})

test('doctor reports client keys that are missing, private, for another use, or at a forbidden address', async () => {
  using keys = await readKeys({ kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', d: 'x' })
  const client = (jwksUrl: string) => ({
    inboundGrants: { clientCredentials: { clients: [{ clientId: 'r', jwksUrl }] } },
  })
  const domain = (url: string) => ({ spiffeTrustDomains: [{ trustDomain: 'a', bundleSource: { endpoint: { url } } }] })
  for (const [config, message] of [
    [client(`${keys.at}/none`), /answers 404/],
    [client(keys.url), /no set of 1 to 20 public keys/],
    [domain(keys.url), /no keys with the use jwt-svid/],
    [client('http://keys.example/'), /is not https/],
    [client('https://10.0.0.1/keys'), /private address/],
    [{ trustedIssuers: [{ issuerUrl: 'http://127.0.0.1:1' }] }, /nothing listens there/],
    [{ trustedIssuers: [{ issuerUrl: 'https://10.0.0.1', allowPrivateIPs: false }] }, /private address/],
  ] as const) {
    using folder = temporaryFolder({ 'all.json': accepting(config) })
    const { code, findings } = await diagnose(folder.path)
    assert.is(code, 1, JSON.stringify(findings))
    assert.match(findings[0]?.message ?? '', message)
    assert.ok(findings[0]?.fix)
    if ('inboundGrants' in config && JSON.stringify(config).includes(keys.url))
      assert.match(findings[1]?.message ?? '', 'a private key is published')
  }
})

const oauth2Manifest = (config: object) =>
  JSON.stringify({
    apiVersion: 'portico.dev/v1beta1',
    kind: 'VirtualMCPServer',
    metadata: { name: 'tools' },
    spec: {
      groupRef: { name: 'tools' },
      authServerConfig: {
        issuer: 'https://gateway.example',
        upstreamProviders: [{ name: 'code', type: 'oauth2', oauth2Config: { clientId: 'a', ...config } }],
      },
    },
  })

test('doctor checks the endpoints of a provider without OpenID Connect, and prints what to register', async () => {
  const { issuer } = provider
  const [authorizationEndpoint, tokenEndpoint] = [`${issuer}/auth`, `${issuer}/token`]
  const userInfo = { endpointUrl: `${issuer}/me` }
  using folder = temporaryFolder({
    'all.json': oauth2Manifest({ authorizationEndpoint, tokenEndpoint, userInfo, scopes: ['read:user'] }),
  })
  const { code, providers, findings } = await diagnose(folder.path)
  assert.equal(
    findings.map(({ severity, message }) => [severity, message]),
    [
      ['ok', `${authorizationEndpoint} answers`],
      ['ok', `${tokenEndpoint} speaks OAuth 2`],
      ['ok', `${userInfo.endpointUrl} wants a token`],
    ],
  )
  assert.is(code, 0)
  assert.equal(providers[0]?.register, { redirectUri: CALLBACK, scopes: ['read:user'], audiences: [] })
})

test('doctor reports OAuth 2 endpoints that are missing, not https, or answer anybody', async () => {
  const server = createServer((request, response) => {
    if (request.url === '/open') response.end('{"id":1}')
    else if (request.url === '/moved') response.writeHead(302, { location: '/open' }).end()
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const listFindings = async (config: object) => {
    using folder = temporaryFolder({ 'all.json': oauth2Manifest(config) })
    const { code, findings } = await diagnose(folder.path)
    return [code, ...findings.map(({ severity, check }) => `${severity} ${check}`)]
  }
  try {
    const open = { endpointUrl: `${at}/open` }
    assert.equal(await listFindings({ authorizationEndpoint: `${at}/x`, tokenEndpoint: `${at}/x`, userInfo: open }), [
      ...[1, 'warning login page', 'error token', 'warning user info'],
    ])
    assert.equal(await listFindings({ authorizationEndpoint: `${at}/open`, tokenEndpoint: `${at}/moved` }), [
      ...[1, 'ok login page', 'error token', 'warning user'],
    ])
    const plain = { authorizationEndpoint: 'http://idp.example/a', tokenEndpoint: 'not a URL' }
    assert.equal(await listFindings({ ...plain, identityFromToken: { subjectPath: 'id' } }), [
      ...[1, 'error login page', 'error token'],
    ])
    // `doctor` sends no request to private addresses only because a manifest names them.
    const inside = { authorizationEndpoint: 'https://10.0.0.1/a', tokenEndpoint: 'https://169.254.169.254/t' }
    assert.equal(await listFindings({ ...inside, identityFromToken: { subjectPath: 'id' } }), [
      ...[1, 'error login page', 'error token'],
    ])
  } finally {
    server.close()
    server.closeAllConnections()
  }
})

test.run()
