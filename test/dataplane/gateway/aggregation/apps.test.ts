import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { post, postModern, rpc } from '../../../support/gateway/post.ts'
import { APPS, type AppServer, HTML, SHOWS_APPS, startAppServer } from '../../../support/servers/app-server.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { startTaskServer } from '../../../support/servers/task-server.ts'

/**
 * Tests MCP Apps (SEP-1865) through the gateway: tools whose results are shown by a page that is a resource of their
 * server.
 */

let older: AppServer
let newer: AppServer
let gateway: GatewayUnderTest

test.before(async () => {
  older = await startAppServer({ era: 'legacy', page: 'ui://older/page' })
  newer = await startAppServer({ era: 'modern', page: 'ui://newer/page', extension: { more: 1 } })
  gateway = await startGateway({
    backends: [
      { name: 'old', url: older.url },
      { name: 'new', url: newer.url },
    ],
  })
})

test.after(async () => {
  await gateway.close()
  await Promise.all([older.close(), newer.close()])
})

test.before.each(() => {
  for (const { declared, seen } of [older, newer]) {
    declared.clear()
    seen.length = 0
  }
})

async function open(capabilities: object, url = gateway.url) {
  const params = { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 'raw', version: '1' } }
  const { headers, json } = await post(url, rpc('initialize', params, 0))
  const session = {
    'mcp-session-id': headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  return { session, offered: json.result.capabilities }
}

const buildMeta = (capabilities: object) => ({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': capabilities,
})

/** Returns a function that sends requests in one era, as a client with these capabilities. */
async function asker(era: 'legacy' | 'modern', capabilities: object, url = gateway.url) {
  if (era === 'modern')
    return async (method: string, params: object = {}) =>
      (await postModern(url, method, { ...params, _meta: buildMeta(capabilities) })).json
  const { session } = await open(capabilities, url)
  return async (method: string, params: object = {}) => (await post(url, rpc(method, params), session)).json
}

test('a backend’s declaration of apps is passed on, merged with those of others', async () => {
  const expected = { [APPS]: { more: 1 } }
  assert.equal((await open({})).offered['extensions'], expected)
  assert.equal((await postModern(gateway.url, 'server/discover')).json.result.capabilities['extensions'], expected)
  const [old, hidden] = [
    { name: 'old', url: older.url },
    { name: 'new', url: newer.url },
  ]
  for (const config of [
    { backends: [old] },
    { backends: [old, hidden], aggregation: { tools: [{ workload: 'new', excludeAll: true }] } },
  ]) {
    const without = await startGateway(config)
    assert.is((await open({}, without.url)).offered['extensions'], undefined)
    assert.is((await postModern(without.url, 'server/discover')).json.result.capabilities['extensions'], undefined)
    await without.close()
  }
  const tasks = await startTaskServer()
  const more = await startGateway({
    backends: [
      { name: 'new', url: newer.url },
      { name: 'tasks', url: tasks.url },
    ],
  })
  const { capabilities } = (await postModern(more.url, 'server/discover')).json.result
  assert.equal(capabilities.extensions, { ...expected, 'portico.dev/session-tasks': {} })
  await more.close()
  await tasks.close()
})

for (const era of ['legacy', 'modern'] as const) {
  test(`${era}: backends of both eras learn whether the client shows apps`, async () => {
    const shows = await asker(era, { ...SHOWS_APPS, experimental: { x: {} } })
    const plain = await asker(era, {})
    for (const [name, server] of [
      ['old_show', older],
      ['new_show', newer],
    ] as const) {
      await shows('tools/call', { name })
      assert.equal(server.declared.get('show')?.extensions, SHOWS_APPS.extensions, name)
      await plain('tools/call', { name })
      assert.is(server.declared.get('show')?.extensions, undefined, name)
      await shows('tools/call', { name })
      assert.equal(server.declared.get('show')?.extensions, SHOWS_APPS.extensions, name)
    }
  })

  test(`${era}: tools keep their pages; those for apps alone are shown to clients that show apps`, async () => {
    const { tools } = (await (await asker(era, SHOWS_APPS))('tools/list')).result
    assert.equal(
      tools.map(({ name }) => name),
      ['new_old', 'new_refresh', 'new_show', 'old_old', 'old_refresh', 'old_show'],
    )
    const metas = Object.fromEntries(tools.map(({ name, _meta }) => [name, _meta]))
    assert.equal(metas['old_show'], { k: 1, ui: { resourceUri: 'ui://older/page' } })
    assert.equal(metas['new_refresh'], { k: 1, ui: { resourceUri: 'ui://newer/page', visibility: ['app'] } })
    assert.equal(metas['new_old'], { 'ui/resourceUri': 'ui://newer/page' })
    const plain = (await (await asker(era, {}))('tools/list')).result.tools
    assert.equal(
      plain.map(({ name }) => name),
      ['new_old', 'new_show', 'old_old', 'old_show'],
    )
  })

  test(`${era}: an unlisted page is read from the backend whose tool names it`, async () => {
    const ask = await asker(era, SHOWS_APPS)
    for (const [uri, server] of [
      ['ui://older/page', older],
      ['ui://newer/page', newer],
    ] as const) {
      const { result } = await ask('resources/read', { uri })
      assert.equal(result.contents, JSON.parse(server.contents))
    }
    assert.ok((await ask('resources/read', { uri: 'ui://nobody/page' })).error)
    assert.equal((await ask('resources/list')).result.resources, [])
  })

  test(`${era}: the SDK's client finds a tool's page, reads it and calls the tool`, async () => {
    const mode = era === 'modern' ? { pin: '2026-07-28' } : era
    const client = new Client({ name: 'host', version: '1' }, {
      capabilities: SHOWS_APPS,
      versionNegotiation: { mode },
    } as ConstructorParameters<typeof Client>[1])
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    const { tools } = await client.listTools()
    for (const name of ['old_show', 'new_show']) {
      const { resourceUri } = (tools.find((tool) => tool.name === name)?._meta?.['ui'] ?? {}) as { resourceUri: string }
      const [page] = (await client.readResource({ uri: resourceUri })).contents
      assert.is(page?.mimeType, HTML)
      assert.is((page as { text: string }).text, `<!DOCTYPE html>${resourceUri}`)
      assert.is(readText(await client.callTool({ name, arguments: {} })), 'shown')
    }
    await client.close()
  })
}

test('a page calls its own server’s tools by their own names if these are unambiguous', async () => {
  const page = await startAppServer({ era: 'legacy', page: 'ui://one/page' })
  const plain = await startRawServer({
    era: 'legacy',
    tools: [tool('only'), tool('old')],
    call: (request) => answer(request, OK_RESULT),
  })
  const own = await startGateway({
    backends: [
      { name: 'a', url: page.url },
      { name: 'b', url: plain.url },
    ],
    aggregation: { tools: [{ workload: 'a', filter: ['refresh', 'old'] }] },
  })
  const twice = await startGateway({
    backends: [
      { name: 'a', url: page.url },
      { name: 'b', url: older.url },
    ],
  })
  for (const era of ['legacy', 'modern'] as const) {
    page.declared.clear()
    const callTool = async (name: string, capabilities: object = SHOWS_APPS, url = own.url) =>
      (await (await asker(era, capabilities, url))('tools/call', { name })).error?.code ?? 'called'
    assert.is(await callTool('refresh'), 'called')
    assert.is(await callTool('old'), 'called')
    assert.equal([...page.declared.keys()], ['refresh', 'old'])
    for (const name of ['show', 'only']) assert.is(await callTool(name), -32602, name)
    assert.is(await callTool('refresh', {}), -32602)
    assert.is(await callTool('refresh', SHOWS_APPS, twice.url), -32602)
  }
  await Promise.all([own.close(), twice.close()])
  await Promise.all([page.close(), plain.close()])
})

test('a tool called by its server’s own name counts under the listed name', async () => {
  const page = await startAppServer({ era: 'legacy', page: 'ui://one/page' })
  const limited = await startGateway({
    backends: [{ name: 'a', url: page.url }],
    rateLimiting: { tools: [{ name: 'a_refresh', shared: { maxTokens: 1, refillPeriod: '1h' } }] },
  })
  const results = []
  for (const era of ['modern', 'legacy'] as const)
    for (const name of ['refresh', 'a_refresh'])
      results.push((await (await asker(era, SHOWS_APPS, limited.url))('tools/call', { name })).result.isError === true)
  assert.equal(results, [false, true, true, true])
  const { rateLimits } = await limited.status()
  assert.is(rateLimits?.limits[0]?.refused, 3)
  await limited.close()
  await page.close()
})

test('two backends with one page each keep their own', async () => {
  const twin = await startAppServer({ era: 'legacy', page: 'ui://older/page' })
  const both = await startGateway({
    backends: [
      { name: 'z', url: older.url },
      { name: 'a', url: twin.url },
    ],
  })
  const { tools } = (await (await asker('legacy', SHOWS_APPS, both.url))('tools/list')).result
  const metas = Object.fromEntries(tools.map(({ name, _meta }) => [name, _meta]))
  assert.is((metas['z_show'] as { ui: { resourceUri: string } }).ui.resourceUri, 'ui://older/page')
  assert.equal(metas['a_show'], { k: 1, ui: { resourceUri: 'ui://a/older/page' } })
  assert.equal(metas['a_old'], { 'ui/resourceUri': 'ui://a/older/page' })
  assert.equal(metas['a_refresh'], { k: 1, ui: { resourceUri: 'ui://a/older/page', visibility: ['app'] } })
  for (const era of ['legacy', 'modern'] as const) {
    const ask = await asker(era, SHOWS_APPS, both.url)
    for (const [uri, server] of [
      ['ui://older/page', older],
      ['ui://a/older/page', twin],
    ] as const) {
      server.seen.length = 0
      const { contents } = (await ask('resources/read', { uri })).result
      assert.equal(contents, [{ ...JSON.parse(server.contents)[0], uri }])
      assert.is(server.calls('resources/read')[0]?.message.params?.['uri'], 'ui://older/page')
    }
  }
  await both.close()
  await twin.close()
})

test('a page in a result has the URI that the client knows', async () => {
  const startLinking = (text: string) =>
    startRawServer({
      era: 'legacy',
      tools: [tool('show', '"_meta":{"ui":{"resourceUri":"ui://main"}}')],
      call: (request) =>
        answer(
          request,
          JSON.stringify({
            _meta: { ui: { resourceUri: 'ui://main' }, uri: 'ui://main' },
            structuredContent: { uri: 'ui://main' },
            content: [
              { type: 'text', text: `ui://main ${text}` },
              { type: 'resource_link', uri: 'ui://main', name: 'page' },
              { type: 'resource', resource: { uri: 'ui://main', text: `"uri":"ui://main" ${'x'.repeat(100_000)}` } },
              { type: 'resource_link', uri: 'ui://other', name: 'other' },
            ],
          }),
        ),
    })
  const one = await startLinking('one')
  const two = await startLinking('two')
  const both = await startGateway({
    backends: [
      { name: 'one', url: one.url },
      { name: 'two', url: two.url },
    ],
  })
  for (const era of ['legacy', 'modern'] as const) {
    const ask = await asker(era, SHOWS_APPS, both.url)
    for (const [name, page] of [
      ['one_show', 'ui://main'],
      ['two_show', 'ui://two/main'],
    ] as const) {
      const { result } = await ask('tools/call', { name })
      const content = result['content'] as unknown as {
        uri?: string
        text?: string
        resource?: { uri: string; text: string }
      }[]
      assert.equal(result['_meta'], { ui: { resourceUri: page }, uri: 'ui://main' })
      assert.equal(result['structuredContent'], { uri: 'ui://main' })
      assert.match(content[0]?.text as string, 'ui://main ')
      assert.equal([content[1]?.uri, content[2]?.resource?.uri, content[3]?.uri], [page, page, 'ui://other'])
      assert.is(content[2]?.resource?.text.slice(0, 17), '"uri":"ui://main"')
    }
  }
  await Promise.all([both, one, two].map((server) => server.close()))
})

test('a caller who may not read a page sees the tool without it', async () => {
  const policed = await startGateway({
    backends: [
      { name: 'old', url: older.url },
      { name: 'new', url: newer.url },
    ],
    authz: {
      policies: [
        'permit(principal, action, resource);',
        'forbid(principal, action == Action::"read_resource", resource == Resource::"ui://older/page");',
      ],
      entitiesJson: '[]',
    },
  })
  for (const era of ['legacy', 'modern'] as const) {
    const ask = await asker(era, SHOWS_APPS, policed.url)
    const { tools } = (await ask('tools/list')).result
    const metas = Object.fromEntries(tools.map(({ name, _meta }) => [name, _meta]))
    assert.is(tools.length, 6)
    assert.equal(metas['old_show'], { k: 1, ui: {} })
    assert.equal(metas['new_show'], { k: 1, ui: { resourceUri: 'ui://newer/page' } })
    assert.is((await ask('resources/read', { uri: 'ui://older/page' })).error?.code, 403)
  }
  await policed.close()
})

test('apps work the same through a proxy before the server', async () => {
  const proxy = await startGateway({ role: 'proxy', backends: [{ name: 'own', url: older.url }] })
  const outer = await startGateway({
    backends: [
      { name: 'old', url: proxy.url },
      { name: 'new', url: newer.url },
    ],
  })
  const ask = await asker('legacy', SHOWS_APPS, outer.url)
  const { tools } = (await ask('tools/list')).result
  assert.is(tools.length, 6)
  const { result } = await ask('resources/read', { uri: 'ui://older/page' })
  assert.equal(result.contents, JSON.parse(older.contents))
  await ask('tools/call', { name: 'old_refresh' })
  assert.equal(older.declared.get('refresh')?.extensions, SHOWS_APPS.extensions)
  await outer.close()
  await proxy.close()
})

test.run()
