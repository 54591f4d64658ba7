import { request } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

/** Tests server cards (SEP-2127): the public description of an endpoint. */

const card = {
  name: 'com.example/tools',
  description: 'Tools of Example.',
  title: 'Tools',
  version: '3.1.0',
  websiteUrl: 'https://example.com',
  icons: [{ src: 'https://example.com/i.png', mimeType: 'image/png', sizes: ['48x48'] }],
  repository: { url: 'https://example.com/r', source: 'github' },
}

let server: RawServer
let gateway: GatewayUnderTest
const config = (more: Partial<TestConfig> = {}): TestConfig => ({
  name: 'inner-name',
  namespace: 'inner-namespace',
  resourceUrl: 'https://tools.example.com/mcp',
  backends: [{ name: 'inner-backend', url: server.url }],
  serverCard: card,
  ...more,
})

test.before(async () => {
  server = await startRawServer({ era: 'legacy', tools: [tool('inner-tool')], call: () => undefined })
  gateway = await startGateway(config())
})

test.after(async () => {
  await gateway.close()
  await server.close()
})

const cardUrl = (base = gateway.base, path = '/mcp/server-card') => `${base}${path}`

/** Sends a request with headers that fetch does not allow. */
const getRaw = (url: string, headers: Record<string, string>): Promise<{ status: number; body: string }> =>
  new Promise((resolve, reject) => {
    request(url, { headers }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    })
      .on('error', reject)
      .end()
  })

test('without a configured card there is none, with and without a token', async () => {
  const without = await startGateway({ backends: [{ name: 'a', url: server.url }] })
  for (const headers of [{}, { authorization: 'Bearer x' }])
    for (const path of ['/mcp/server-card', '/.well-known/ai-catalog.json', '/.well-known/mcp.json'])
      assert.is((await fetch(cardUrl(without.base, path), { headers })).status, 404, path)
  await without.close()
})

test('anybody gets the card, whatever Accept says, with CORS headers', async () => {
  const answer = await fetch(cardUrl(), { headers: { accept: 'image/png', origin: 'https://elsewhere.example' } })
  assert.is(answer.status, 200)
  assert.is(answer.headers.get('content-type'), 'application/mcp-server-card+json')
  assert.is(answer.headers.get('access-control-allow-origin'), '*')
  assert.is(answer.headers.get('access-control-expose-headers'), 'ETag')
  assert.is(answer.headers.get('access-control-allow-headers'), 'Content-Type, If-None-Match')
  assert.is(answer.headers.get('cache-control'), 'public, max-age=3600')
  assert.equal(await answer.json(), {
    $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
    ...card,
    remotes: [
      {
        type: 'streamable-http',
        url: 'https://tools.example.com/mcp',
        supportedProtocolVersions: ['2026-07-28'],
      },
    ],
  })
})

test('name, version and revisions are those of initialize and discovery', async () => {
  const { result } = (await postModern(gateway.url, 'server/discover')).json
  const info = { name: card.name, version: card.version }
  assert.equal((result['_meta'] as Record<string, unknown>)['io.modelcontextprotocol/serverInfo'], info)
  const read = (await (await fetch(cardUrl())).json()) as { remotes: { supportedProtocolVersions: string[] }[] }
  assert.equal(read.remotes[0]?.supportedProtocolVersions, result['supportedVersions'])
  await openSession(gateway.url)
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} }
  assert.equal((await post(gateway.url, rpc('initialize', params))).json.result['serverInfo'], info)
  const plain = await startGateway(config({ serverCard: { name: card.name, description: 'd' } }))
  const { version } = (await (await fetch(cardUrl(plain.base))).json()) as { version: string }
  const discovered = (await postModern(plain.url, 'server/discover')).json.result
  assert.equal((discovered['_meta'] as Record<string, unknown>)['io.modelcontextprotocol/serverInfo'], {
    name: card.name,
    version,
  })
  await plain.close()
})

test('a known card is not sent again, and every replica has the same ETag', async () => {
  const other = await startGateway(config())
  const tags = await Promise.all(
    [gateway, other].map(async ({ base }) => (await fetch(cardUrl(base))).headers.get('etag')),
  )
  assert.is(tags[0], tags[1])
  for (const tag of [`${tags[0]}`, `W/${tags[0]}`, `"x", ${tags[0]}`, '*']) {
    const answer = await fetch(cardUrl(), { headers: { 'if-none-match': tag } })
    assert.is(answer.status, 304, tag)
    assert.is(await answer.text(), '')
    assert.is(answer.headers.get('etag'), tags[0])
  }
  assert.is((await fetch(cardUrl(), { headers: { 'if-none-match': '"x"' } })).status, 200)
  await other.close()
})

test('HEAD has the headers alone, OPTIONS is for browsers, other methods are refused', async () => {
  const head = await fetch(cardUrl(), { method: 'HEAD' })
  assert.is(head.status, 200)
  assert.is(await head.text(), '')
  assert.ok(head.headers.get('etag'))
  const preflight = await fetch(cardUrl(), {
    method: 'OPTIONS',
    headers: { origin: 'https://elsewhere.example', 'access-control-request-method': 'GET' },
  })
  assert.is(preflight.status, 204)
  assert.is(preflight.headers.get('access-control-allow-methods'), 'GET')
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const refused = await fetch(cardUrl(), { method })
    assert.is(refused.status, 405, method)
    assert.is(refused.headers.get('allow'), 'GET, HEAD, OPTIONS')
  }
})

test('the card contains nothing of the request: foreign hosts are refused, forwarded ones have no effect', async () => {
  const trusting = await startGateway(config({ trustProxyHeaders: true, allowedHosts: ['other.example'] }))
  const { body: plain } = await getRaw(cardUrl(trusting.base), { host: 'tools.example.com' })
  for (const headers of [
    { host: 'tools.example.com', 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' },
    { host: 'tools.example.com', 'x-forwarded-host': 'other.example', 'x-forwarded-prefix': '/evil' },
    { host: 'other.example' },
  ] as Record<string, string>[])
    assert.equal(await getRaw(cardUrl(trusting.base), headers), { status: 200, body: plain })
  const refused = await getRaw(cardUrl(trusting.base), { host: 'evil.example' })
  assert.is(refused.status, 403)
  assert.not.match(refused.body, 'evil')
  await trusting.close()
})

test('the card tells nothing of backends, tools, the namespace or the internal name', async () => {
  assert.not.match(await (await fetch(cardUrl())).text(), 'inner-')
})

test('if callers need a token, the public card says so, and discovery still needs one', async () => {
  const closed = await startGateway(
    config({
      incomingAuth: { type: 'oidc', oidc: { issuer: 'https://idp.example.com', audience: 'a' } },
    }),
  )
  const answer = await fetch(cardUrl(closed.base))
  assert.is(answer.status, 200)
  const { remotes } = (await answer.json()) as { remotes: { headers: object[] }[] }
  assert.equal(remotes[0]?.headers, [
    {
      name: 'Authorization',
      description: 'A bearer token of an authorization server that the endpoint names.',
      isRequired: true,
      isSecret: true,
    },
  ])
  assert.is((await postModern(closed.url, 'server/discover')).status, 401)
  await closed.close()
})

test('the catalog of the host names the card', async () => {
  const listing = await startGateway(config({ serverCard: { ...card, catalog: true } }))
  const answer = await fetch(cardUrl(listing.base, '/.well-known/ai-catalog.json'))
  assert.is(answer.headers.get('content-type'), 'application/ai-catalog+json')
  assert.is(answer.headers.get('access-control-allow-origin'), '*')
  assert.equal(await answer.json(), {
    specVersion: '1.0',
    entries: [
      {
        identifier: 'urn:air:example.com:mcp:tools',
        type: 'application/mcp-server-card+json',
        url: 'https://tools.example.com/mcp/server-card',
      },
    ],
  })
  await listing.close()
})

test('a card without a public URL, or a catalog below a prefix, is refused', async () => {
  for (const more of [
    { resourceUrl: undefined },
    { resourceUrl: 'http://tools.ns.svc.cluster.local/mcp' },
    { endpointPrefix: '/x', serverCard: { ...card, catalog: true } },
  ] as Partial<TestConfig>[]) {
    const { url, lines, configure, close } = await startGateway(config())
    await configure(config(more))
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setInterval(() => lines.some((line) => JSON.stringify(line).includes('/serverCard')) && resolve(), 20)
    await promise
    clearInterval(timer)
    assert.is((await postModern(url, 'server/discover')).status, 200, 'the earlier configuration stays in force')
    await close()
  }
  const own = await startGateway(
    config({ resourceUrl: undefined, serverCard: { ...card, url: 'https://x.example/mcp/' } }),
  )
  assert.match(await (await fetch(cardUrl(own.base))).text(), '"url":"https://x.example/mcp"')
  await own.close()
})

test.run()
