import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { publicUrls } from '../../../../dataplane/gateway/request/public-url.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

let idp: IdentityProvider
let backend: McpTestServer
test.before(async () => {
  idp = await startIdentityProvider()
  backend = await startMcpServer({ name: 'b', mode: 'sessions' })
})
test.after(async () => {
  await Promise.all([backend.close(), idp.close()])
})

async function serve(config: Partial<TestConfig>, use: (gateway: GatewayUnderTest) => Promise<void>) {
  const gateway = await startGateway({
    backends: [{ name: 'b', url: backend.url }],
    resourceUrl: 'http://mcp-b.tools.svc.cluster.local:8080/mcp',
    allowedHosts: ['tools.example.com'],
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: 'a', allowPrivateIP: true } },
    ...config,
  })
  try {
    await use(gateway)
  } finally {
    await gateway.close()
  }
}

const readChallenge = async (url: string, headers: Record<string, string> = {}) => {
  const { headers: answered, status } = await postModern(url, 'server/discover', {}, headers)
  assert.is(status, 401)
  return /resource_metadata="([^"]*)"/.exec(answered.get('www-authenticate') ?? '')?.[1]
}

const readResource = async (url: string, headers: Record<string, string> = {}) => {
  const answer = await fetch(url, { headers })
  return answer.status === 200 ? ((await answer.json()) as { resource: string }).resource : answer.status
}

test('below a prefix: the endpoint answers with and without it, and URLs have it', async () => {
  const resourceUrl = 'https://tools.example.com/team/b/mcp'
  await serve({ endpointPrefix: '/team/b', resourceUrl }, async ({ base }) => {
    const expected = `https://tools.example.com/team/b${WELL_KNOWN}/mcp`
    for (const path of ['/mcp', '/team/b/mcp', '/team/b/mcp?x=1'])
      assert.is(await readChallenge(`${base}${path}`), expected, path)
    // The challenge's URL, through a proxy that strips the prefix and one that doesn't, and the URL of RFC 9728.
    for (const path of [`${WELL_KNOWN}/mcp`, `/team/b${WELL_KNOWN}/mcp`, `${WELL_KNOWN}/team/b/mcp`, WELL_KNOWN])
      assert.is(await readResource(`${base}${path}`), resourceUrl, path)
    for (const path of ['/team/mcp', '/team/bb/mcp', '/team/b/team/b/mcp', `${WELL_KNOWN}/b/mcp`])
      assert.is((await fetch(`${base}${path}`)).status, 404, path)
    const token = await idp.mint({ aud: 'a' })
    const answer = await postModern(`${base}/team/b/mcp`, 'tools/list', {}, { authorization: `Bearer ${token}` })
    assert.is(answer.status, 200)
  })
})

test('without resourceUrl the URL of an endpoint on loopback has the host of the audience', () => {
  const readPublicUrl = (audience: string) => {
    const incomingAuth = { type: 'oidc' as const, oidc: { issuer: 'http://localhost:4483', audience } }
    return publicUrls({ incomingAuth }, 'http://127.0.0.1:4483', new Set())({}).resource
  }
  assert.is(readPublicUrl('http://localhost:4483/mcp'), 'http://localhost:4483/mcp')
  assert.is(readPublicUrl('http://[::1]:4483/mcp'), 'http://[::1]:4483/mcp')
  const others = ['tools', 'http://localhost:4484/mcp', 'http://localhost:4483/', 'https://tools.example.com/mcp']
  for (const other of others) assert.is(readPublicUrl(other), 'http://127.0.0.1:4483/mcp', other)
})

const forwarded = {
  'x-forwarded-host': 'tools.example.com',
  'x-forwarded-proto': 'https',
  'x-forwarded-port': '443',
  'x-forwarded-prefix': '/b',
}

test('without trustProxyHeaders X-Forwarded-* is ignored', async () => {
  await serve({}, async ({ base, url }) => {
    assert.is(await readChallenge(url, forwarded), `http://mcp-b.tools.svc.cluster.local:8080${WELL_KNOWN}/mcp`)
    const resource = 'http://mcp-b.tools.svc.cluster.local:8080/mcp'
    assert.is(await readResource(`${base}${WELL_KNOWN}`, forwarded), resource)
  })
})

test('with trustProxyHeaders URLs follow the proxy’s headers, for allowed hosts', async () => {
  await serve({ trustProxyHeaders: true }, async ({ base, url }) => {
    const expected = `https://tools.example.com/b${WELL_KNOWN}/mcp`
    assert.is(await readChallenge(url, forwarded), expected)
    assert.is(await readChallenge(url, { ...forwarded, authorization: 'Bearer rubbish' }), expected)
    assert.is(
      await readChallenge(url, { ...forwarded, authorization: `Bearer ${await idp.mint({ aud: 'x' })}` }),
      expected,
    )
    for (const path of [WELL_KNOWN, `${WELL_KNOWN}/mcp`, `${WELL_KNOWN}/b/mcp`])
      assert.is(await readResource(`${base}${path}`, forwarded), 'https://tools.example.com/b/mcp', path)
    const configured = 'http://mcp-b.tools.svc.cluster.local:8080/mcp'
    assert.is(await readResource(`${base}${WELL_KNOWN}`), configured)
    assert.is(
      await readResource(`${base}${WELL_KNOWN}`, { ...forwarded, 'x-forwarded-host': 'evil.example' }),
      configured,
    )
    // The headers affect neither the check of the token's audience nor the metadata's issuers.
    const document = (await (await fetch(`${base}${WELL_KNOWN}`, { headers: forwarded })).json()) as object
    assert.equal((document as { authorization_servers: string[] }).authorization_servers, [idp.issuer])
    // A refused host stays refused, whatever a proxy claims was requested.
    assert.is((await fetch(`${base}/mcp`, { headers: { ...forwarded, origin: 'https://evil.example' } })).status, 403)
  })
})

const names = new Set(['tools.example.com', '203.0.113.7', '[2001:db8::7]'])
const inner = 'http://mcp-b:8080/mcp'
const readPublicUrl = (
  headers: Record<string, string | string[]>,
  settings = {},
  hosts: ReadonlySet<string> | '*' = names,
) =>
  publicUrls({ resourceUrl: inner, trustProxyHeaders: true, ...settings }, 'http://127.0.0.1:1', hosts)(headers)
    .resource

const host = (name: string | string[]) => ({ 'x-forwarded-host': name, 'x-forwarded-proto': 'https' })

for (const [title, headers, expected] of [
  ['a host', host('tools.example.com'), 'https://tools.example.com/mcp'],
  ['in another case, with a dot at its end', host('Tools.Example.COM.'), 'https://tools.example.com/mcp'],
  ['with a port', host('tools.example.com:8443'), 'https://tools.example.com:8443/mcp'],
  [
    'with the usual port',
    { ...host('tools.example.com:443'), 'x-forwarded-port': '9' },
    'https://tools.example.com/mcp',
  ],
  [
    'a port beside it',
    { ...host('tools.example.com'), 'x-forwarded-port': '8443' },
    'https://tools.example.com:8443/mcp',
  ],
  ['an address', host('203.0.113.7'), 'https://203.0.113.7/mcp'],
  ['an IPv6 address', host('[2001:db8::7]:8443'), 'https://[2001:db8::7]:8443/mcp'],
  ['the nearest proxy’s word', host('evil.example, tools.example.com'), 'https://tools.example.com/mcp'],
  ['no scheme', { 'x-forwarded-host': 'tools.example.com' }, 'http://tools.example.com/mcp'],
  [
    'a scheme in another case',
    { ...host('tools.example.com'), 'x-forwarded-proto': 'HTTPS' },
    'https://tools.example.com/mcp',
  ],
  [
    'a foreign scheme',
    { ...host('tools.example.com'), 'x-forwarded-proto': 'javascript' },
    'http://tools.example.com/mcp',
  ],
  ['a prefix', { ...host('tools.example.com'), 'x-forwarded-prefix': '/a/b/' }, 'https://tools.example.com/a/b/mcp'],
  // Headers that a stranger can send directly.
  ['a host that is not named', host('evil.example'), inner],
  ['one behind a named one', host('tools.example.com, evil.example'), inner],
  ['one with a named one as user', host('tools.example.com@evil.example'), inner],
  ['one with a path', host('tools.example.com/x'), inner],
  ['line breaks', host('tools.example.com\r\nx: y'), inner],
  ['quotes', host('tools.example.com"'), inner],
  ['nothing', {}, inner],
  ['an empty host', host(''), inner],
  [
    'a port that is none',
    { ...host('tools.example.com'), 'x-forwarded-port': '70000' },
    'https://tools.example.com/mcp',
  ],
  [
    'a port with a host',
    { ...host('tools.example.com'), 'x-forwarded-port': '@evil.example' },
    'https://tools.example.com/mcp',
  ],
  [
    'a prefix that leads away',
    { ...host('tools.example.com'), 'x-forwarded-prefix': '//evil.example' },
    'https://tools.example.com/mcp',
  ],
  [
    'a prefix with dots',
    { ...host('tools.example.com'), 'x-forwarded-prefix': '/../x' },
    'https://tools.example.com/mcp',
  ],
  [
    'a prefix with a quote',
    { ...host('tools.example.com'), 'x-forwarded-prefix': '/"a' },
    'https://tools.example.com/mcp',
  ],
  [
    'a huge prefix',
    { ...host('tools.example.com'), 'x-forwarded-prefix': '/a'.repeat(20_000) },
    'https://tools.example.com/mcp',
  ],
] as const)
  test(`X-Forwarded-*: ${title}`, () => assert.is(readPublicUrl(headers as Record<string, string>), expected))

test('`*` accepts every Host and uses none in URLs', () => {
  assert.is(readPublicUrl(host('tools.example.com'), {}, '*'), inner)
})

test('without a resourceUrl the URL is the listener’s own address with the prefix', () => {
  assert.equal(publicUrls({ endpointPrefix: '/team/b' }, 'http://127.0.0.1:1', names)({}), {
    resource: 'http://127.0.0.1:1/team/b/mcp',
    metadataUrl: `http://127.0.0.1:1/team/b${WELL_KNOWN}/mcp`,
  })
})

test('a configured prefix goes before one of a header', () => {
  const headers = { ...host('tools.example.com'), 'x-forwarded-prefix': '/other' }
  assert.is(readPublicUrl(headers, { endpointPrefix: '/own' }), 'https://tools.example.com/own/mcp')
})

test.run()
