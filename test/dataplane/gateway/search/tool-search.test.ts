/** Tests tool search over HTTP, in both eras, with backends of both: two tools replace all others. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { AUDIENCE } from '../../../support/gateway/guarded.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type AskingServer, nameIn, startAskingServer } from '../../../support/servers/asking-server.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

type Era = 'modern' | 'legacy'
type Headers = Record<string, string>

const eras: readonly Era[] = ['modern', 'legacy']
const tool = (name: string, description: string, properties: object = {}) =>
  JSON.stringify({ name, description, inputSchema: { type: 'object', properties } })
const TOOLS = [
  tool('getWeather', 'Current conditions at a place.', { city: { type: 'string' } }),
  tool('send_mail', 'Sends a message to somebody.', { recipient: { type: 'string' } }),
  tool('create-issue', 'Files a bug in a repository.', { repository: {}, labels: {} }),
  JSON.stringify({ name: 'x17', title: 'Translate a text', description: 'Übersetzt Texte.', inputSchema: {} }),
  tool('search', 'Searches things.'),
]

let idp: IdentityProvider
const backends: Partial<Record<Era, RawServer>> = {}
const backend = (era: Era) => backends[era] as RawServer
const cleanups: (() => unknown)[] = []

test.before(async () => {
  idp = await startIdentityProvider()
  for (const era of eras)
    backends[era] = await startRawServer({
      era,
      tools: TOOLS,
      call({ message }) {
        const { name, arguments: given } = message.params as Record<string, unknown>
        const resultType = era === 'modern' ? { resultType: 'complete' } : {}
        const content = [{ type: 'text', text: JSON.stringify({ name, given }) }]
        return JSON.stringify({ jsonrpc: '2.0', id: message.id, result: { ...resultType, content } })
      },
    })
})
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
test.after(async () => {
  for (const era of eras) await backend(era).close()
  await idp.close()
})

async function start(more: Partial<TestConfig> = {}, behind: Era = 'modern'): Promise<GatewayUnderTest> {
  const config = { backends: [{ name: 'b', url: backend(behind).url }], optimizer: {}, ...more }
  const gateway = await startGateway(config)
  cleanups.push(() => gateway.close())
  await gateway.listed()
  return gateway
}

async function ask(era: Era, url: string, method: string, params: object, headers: Headers = {}): Promise<RpcAnswer> {
  if (era === 'modern') return postModern(url, method, { ...params }, headers)
  return post(url, rpc(method, params), await openSession(url, headers))
}
const call = (era: Era, url: string, name: string, args: unknown, headers: Headers = {}) =>
  ask(era, url, 'tools/call', { name, arguments: args }, headers)
const find = async (url: string, query: string, more: object = {}, headers: Headers = {}, era: Era = 'modern') => {
  const { json } = await call(era, url, 'find_tool', { query, ...more }, headers)
  assert.not.ok(json.result.isError, JSON.stringify(json))
  assert.equal(JSON.parse(json.result.content[0].text), json.result.structuredContent)
  return json.result.structuredContent.tools.map(({ name }: { name: string }) => name) as string[]
}
const NOT_THERE = 'There is no tool of this name for you; find_tool finds those that there are.'

for (const client of eras)
  for (const behind of eras)
    test(`a ${client} client lists two tools, finds the others and calls them at a ${behind} backend`, async () => {
      const { url } = await start({}, behind)
      const { json: listed } = await ask(client, url, 'tools/list', {})
      assert.equal(
        listed.result.tools.map(({ name }) => name),
        ['find_tool', 'call_tool'],
      )
      assert.is(listed.result.resultType, client === 'modern' ? 'complete' : undefined)
      const { json: found } = await call(client, url, 'find_tool', { query: 'weather in a city' })
      const [first] = found.result.structuredContent.tools
      assert.is(first.name, 'b_getWeather')
      assert.equal(first.inputSchema.properties, { city: { type: 'string' } }, 'its whole definition')
      assert.is(found.result.resultType, client === 'modern' ? 'complete' : undefined)
      const args = { city: 'Bern', n: 1 }
      const { status, json } = await call(client, url, 'call_tool', { name: 'b_getWeather', arguments: args })
      assert.is(status, 200)
      assert.is(json.id, 1)
      assert.equal(JSON.parse(json.result.content[0].text), { name: 'getWeather', given: args })
      assert.equal(JSON.parse((await call(client, url, 'b_search', {})).json.result.content[0].text).name, 'search')
    })

test('SDK clients of both eras find and call tools of a server on the SDK', async () => {
  const server: McpTestServer = await startMcpServer()
  cleanups.push(() => server.close())
  const { url } = await start({ backends: [{ name: 's', url: server.url }] })
  for (const era of eras) {
    const { client } = await connect(url, era)
    try {
      assert.equal(
        (await client.listTools()).tools.map(({ name }) => name),
        ['find_tool', 'call_tool'],
      )
      const found = await client.callTool({ name: 'find_tool', arguments: { query: 'echo' } })
      assert.match(readText(found), 's_echo')
      const result = await client.callTool({
        name: 'call_tool',
        arguments: { name: 's_echo', arguments: { message: 'hello', text: 'hello' } },
      })
      assert.match(readText(result), 'hello')
    } finally {
      await client.close()
    }
  }
})

test('tools are found by names, titles, descriptions and arguments, the best match first', async () => {
  const { url } = await start()
  for (const [query, first] of [
    ['get the weather', 'b_getWeather'],
    ['WEATHER', 'b_getWeather'],
    ['sending mails', 'b_send_mail'],
    ['translate', 'b_x17'],
    ['ubersetzt', 'b_x17'],
    ['file bugs', 'b_create-issue'],
    ['labels', 'b_create-issue'],
    ['search', 'b_search'],
  ] as const)
    assert.is((await find(url, query))[0], first, query)
  assert.equal(await find(url, 'quantum chromodynamics'), [])
})

test('a search gives the requested number of tools, and never more than configured', async () => {
  const { url } = await start({ optimizer: { maxToolsToReturn: 3 } })
  const query = 'weather message bug text things'
  assert.is((await find(url, query)).length, 3)
  assert.is((await find(url, query, { limit: 2 })).length, 2)
  assert.is((await find(url, query, { limit: 1000 })).length, 3)
  const { json } = await ask('modern', url, 'tools/list', {})
  assert.is(json.result.tools[0].inputSchema.properties['limit']?.maximum, 3)
})

test('queries of any bytes, and arguments of any type, give tools or an error result', async () => {
  const { url } = await start()
  for (const query of [
    '"',
    "'",
    '"weather',
    'a" OR b',
    'NEAR(a b)',
    '*',
    '{name}: x',
    'name : weather',
    '-weather',
    '^',
  ]) {
    await find(url, query)
    assert.ok((await find(url, `${query} weather`)).includes('b_getWeather'), query)
  }
  for (const query of ['', ' ', '\0', '\u{1F600}', '\uD800', '))((', 'AND', 'a'.repeat(2000), 'é́́ '.repeat(500)])
    await find(url, query)
  for (const args of [undefined, null, [], 'x', {}, { query: 7 }, { query: 'x'.repeat(2001) }])
    assert.is((await call('modern', url, 'find_tool', args)).json.result.isError, true, JSON.stringify(args))
  for (const limit of [0, -1, 1.5, '3', null, 'Infinity'])
    assert.is((await call('modern', url, 'find_tool', { query: 'x', limit })).json.result?.isError, true, `${limit}`)
  for (const args of [undefined, null, [], {}, { name: 7 }, { name: 'b_search', arguments: [] }])
    assert.is((await call('modern', url, 'call_tool', args)).json.result.isError, true, JSON.stringify(args))
})

test('calling an unknown tool, or a search tool, by call_tool is an error result', async () => {
  const { url } = await start()
  for (const era of eras)
    for (const name of ['nothing', '', 'find_tool', 'call_tool', '__proto__', 'x'.repeat(10_000)]) {
      const { status, json } = await call(era, url, 'call_tool', { name, arguments: {} })
      assert.is(status, 200)
      assert.is(json.result.isError, true)
      assert.is(json.result.content[0].text, NOT_THERE)
    }
})

test('a denied tool is not found, and calling it is like calling an unknown one', async () => {
  const policies = [
    'permit(principal, action, resource) when { principal.claim_sub == "ada" };',
    'permit(principal, action, resource == Tool::"b_search") when { principal.claim_sub == "bob" };',
  ]
  const gateway = await start({
    resourceUrl: AUDIENCE,
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
    authz: { policies },
  })
  const { url } = gateway
  const bearer = async (sub: string) => ({ authorization: `Bearer ${await idp.mint({ aud: AUDIENCE, sub })}` })
  const [ada, bob, eve] = [await bearer('ada'), await bearer('bob'), await bearer('eve')]
  const query = 'weather message bug text things'
  for (const era of eras) {
    assert.is((await find(url, query, {}, ada, era)).length, 5)
    assert.equal(await find(url, query, {}, bob, era), ['b_search'])
    assert.equal(await find(url, query, {}, eve, era), [])
    assert.not.ok((await call(era, url, 'call_tool', { name: 'b_search' }, bob)).json.result.isError)
    const before = backend('modern').calls('tools/call').length
    const denied = await call(era, url, 'call_tool', { name: 'b_getWeather', arguments: {} }, bob)
    const unknown = await call(era, url, 'call_tool', { name: 'b_nothing', arguments: {} }, bob)
    assert.is(denied.text, unknown.text)
    assert.is(denied.status, unknown.status)
    assert.is(denied.json.result.content[0].text, NOT_THERE)
    assert.is(backend('modern').calls('tools/call').length, before)
  }
  // One list for each kind of caller, however many sessions and tokens there are.
  await find(url, query, {}, await bearer('ada'))
  assert.is((await gateway.status()).toolSearch?.indexes, 3)
})

test('a call counts under the name of the tool that is called', async () => {
  const { url } = await start({
    rateLimiting: { tools: [{ name: 'b_search', shared: { maxTokens: 1, refillPeriod: '1h' } }] },
  })
  const callSearch = () => call('modern', url, 'call_tool', { name: 'b_search' })
  assert.not.ok((await callSearch()).json.result.isError)
  assert.ok((await callSearch()).json.result.structuredContent.retryAfterSeconds > 1000)
  assert.not.ok((await call('modern', url, 'call_tool', { name: 'b_x17' })).json.result.isError)
})

test('a search counts as a call, in the overall rate limit and in its own', async () => {
  for (const rateLimiting of [
    { shared: { maxTokens: 2, refillPeriod: '1h' } },
    { perUser: { maxTokens: 2, refillPeriod: '1h' } },
    { tools: [{ name: 'find_tool', shared: { maxTokens: 2, refillPeriod: '1h' } }] },
  ]) {
    const { url } = await start({ rateLimiting })
    const callIn = async (era: (typeof eras)[number]) =>
      (await call(era, url, 'find_tool', { query: 'weather' })).json.result
    for (const era of eras) assert.not.ok((await callIn(era)).isError)
    for (const era of eras) assert.ok((await callIn(era)).structuredContent.retryAfterSeconds > 1000, era)
    const isLimited = !('tools' in rateLimiting)
    const { result } = (await call('modern', url, 'call_tool', { name: 'b_x17' })).json
    assert.is(result.isError === true, isLimited)
  }
})

test('a composite tool can be found and called, and each call of its steps counts', async () => {
  const compositeTools: TestConfig['compositeTools'] = [
    {
      name: 'tell_weather',
      description: 'Looks at the sky and writes a postcard.',
      steps: [
        { id: 'look', type: 'tool', tool: 'b.getWeather', arguments: { city: 'Bern' } },
        { id: 'send', type: 'tool', tool: 'b.send_mail', arguments: { recipient: 'Ada' }, dependsOn: ['look'] },
      ],
    },
  ]
  const { url } = await start({
    compositeTools,
    rateLimiting: { tools: [{ name: 'b_send_mail', shared: { maxTokens: 1, refillPeriod: '1h' } }] },
  })
  for (const era of eras) assert.is((await find(url, 'postcard', {}, {}, era))[0], 'tell_weather')
  const callWeather = async () =>
    (await call('modern', url, 'call_tool', { name: 'tell_weather', arguments: {} })).json.result
  const before = backend('modern').calls('tools/call').length
  assert.not.ok((await callWeather()).isError)
  assert.is(backend('modern').calls('tools/call').length - before, 2)
  const limited = await callWeather()
  assert.is(limited.isError, true)
  assert.match(limited.content[0].text, 'send')
  assert.is(backend('modern').calls('tools/call').length - before, 3, 'the second postcard is not sent')
})

test('the index follows the catalog', async () => {
  const server: McpTestServer = await startMcpServer({ mode: 'sessions' })
  cleanups.push(() => server.close())
  const { url } = await start({ backends: [{ name: 's', url: server.url }] })
  assert.equal(await find(url, 'hippopotamus'), [])
  server.addTool('wash_hippopotamus')
  await eventually('the new tool is found', async () => (await find(url, 'hippopotamus'))[0] === 's_wash_hippopotamus')
})

test('all tools are listed again when the search is removed from the configuration', async () => {
  const gateway = await start()
  await find(gateway.url, 'weather')
  await gateway.configure({ backends: [{ name: 'b', url: backend('modern').url }] })
  await eventually('all tools', async () => {
    const { json } = await ask('modern', gateway.url, 'tools/list', {})
    return json.result.tools.length === TOOLS.length
  })
  assert.is((await call('modern', gateway.url, 'find_tool', { query: 'x' })).json.error.code, -32602)
  assert.is((await gateway.status()).toolSearch, null)
})

test('a tool that asks its modern client continues with the answer', async () => {
  const asking: AskingServer = await startAskingServer({
    onAnswer: (call, answered) => call.finish({ content: [{ type: 'text', text: `Hello, ${nameIn(answered)}!` }] }),
  })
  cleanups.push(() => asking.close())
  const { url } = await start({ backends: [{ name: 'b', url: asking.url }] })
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  }
  const params = { name: 'call_tool', arguments: { name: 'b_t', arguments: {} }, _meta }
  const { json } = await postModern(url, 'tools/call', params)
  assert.is(json.result.resultType, 'input_required')
  const { requestState, inputRequests } = json.result
  const [key] = Object.keys(inputRequests) as [string]
  const inputResponses = { [key]: { action: 'accept', content: { name: 'Ada' } } }
  const again = await postModern(url, 'tools/call', { ...params, requestState, inputResponses })
  assert.is(again.json.result.content[0].text, 'Hello, Ada!')
})

test('a tool’s progress reaches the client that requested it', async () => {
  const server = await startRawServer({
    era: 'modern',
    tools: [tool('slow', 'Takes its time.')],
    call({ message }, res) {
      const token = (message.params as { _meta: { progressToken: unknown } })._meta.progressToken
      const progress = {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: token, progress: 1 },
      }
      const result = { resultType: 'complete', content: [] }
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const one of [progress, { jsonrpc: '2.0', id: message.id, result }])
        res.write(`data: ${JSON.stringify(one)}\n\n`)
      res.end()
      return undefined
    },
  })
  cleanups.push(() => server.close())
  const { url } = await start({ backends: [{ name: 'b', url: server.url }] })
  const { text } = await postModern(url, 'tools/call', {
    name: 'call_tool',
    arguments: { name: 'b_slow' },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
      progressToken: 'p7',
    },
  })
  assert.match(text, '"progressToken":"p7"')
})

test.run()
