/** Tests tool search with two replicas and backends of both eras: every replica finds and calls the same tools. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import type { GatewayUnderTest, TestConfig } from '../../../support/gateway/gateway.ts'
import { AUDIENCE } from '../../../support/gateway/guarded.ts'
import { BASE_HEADERS, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import type { RpcResult } from '../../../support/gateway/rpc-message.ts'
import { startEmbeddingService } from '../../../support/network/embedding-service.ts'
import { startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { startTcpFront } from '../../../support/network/tcp-front.ts'
import { nameIn, startAskingServer } from '../../../support/servers/asking-server.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

type Era = 'modern' | 'legacy'
type Headers = Record<string, string>
/** Calls a tool at a replica and returns its result. */
type Call = (url: string, name: string, args: object) => Promise<RpcResult>

const eras: readonly Era[] = ['modern', 'legacy']
const NOT_THERE = 'There is no tool of this name for you; find_tool finds those that there are.'

let modern: McpTestServer
let legacy: McpTestServer
const stage = new RedisStage(test, () => modern.url)
const { cleanups } = stage

test.before.each(async () => {
  modern = await startMcpServer({ name: 'new' })
  legacy = await startMcpServer({ name: 'old', mode: 'sessions' })
  cleanups.push(
    () => modern.close(),
    () => legacy.close(),
  )
})

const twoReplicas = (more: Partial<TestConfig> = {}): Promise<[GatewayUnderTest, GatewayUnderTest]> =>
  stage.twoReplicas({ backends: backends(), optimizer: {}, ...more })
const backends = () => [
  { name: 'new', url: modern.url },
  { name: 'old', url: legacy.url },
]

/** Returns a client of an era. A legacy client opens its session at `url` and can call any replica. */
async function openClient(era: Era, url: string, headers: Headers = {}): Promise<Call> {
  const session = era === 'legacy' ? await openSession(url, headers) : undefined
  return async (at, name, args) => {
    const params = { name, arguments: args }
    const { status, json } =
      session === undefined
        ? await postModern(at, 'tools/call', params, headers)
        : await post(at, rpc('tools/call', params), session)
    assert.is(status, 200)
    return json.result
  }
}

async function find(call: Call, url: string, query: string): Promise<string[]> {
  const result = await call(url, 'find_tool', { query })
  assert.not.ok(result.isError, JSON.stringify(result))
  return result.structuredContent.tools.map(({ name }: { name: string }) => name)
}

for (const era of eras)
  test(`a ${era} client finds the same at both replicas, and calls at one a tool found at the other`, async () => {
    const [one, two] = await twoReplicas()
    const call = await openClient(era, one.url)
    for (const query of ['say it again', 'takes its time', 'a large text', 'fails as tools do', 'progress'])
      assert.equal(await call(one.url, 'find_tool', { query }), await call(two.url, 'find_tool', { query }), query)
    for (const [finding, calling] of [
      [one, two],
      [two, one],
    ] as const) {
      const found = await find(call, finding.url, 'echo')
      assert.equal([...found].sort(), ['new_echo', 'old_echo'])
      for (const name of found) {
        const result = await call(calling.url, 'call_tool', { name, arguments: { message: 'hello' } })
        assert.is(readText(result), `${name.replace('_echo', '')}: hello`)
      }
    }
    // A client's session has one session with the backend, whichever replica its calls reach.
    const sessions = legacy.calls('tools/call').map(({ headers }) => headers['mcp-session-id'])
    if (era === 'legacy') assert.is(new Set(sessions).size, 1)
  })

for (const era of eras)
  test(`an SDK client (${era}) whose connections go to each replica in turn finds and calls tools`, async () => {
    const [one, two] = await twoReplicas()
    const ports = [one, two].map(({ url }) => Number(new URL(url).port)) as [number, number]
    const front = await startTcpFront(ports[0])
    cleanups.push(() => front.close())
    front.choose(...ports)
    const { client } = await connect(`http://127.0.0.1:${front.port}/mcp`, era, { headers: { connection: 'close' } })
    try {
      for (const backend of ['new', 'old', 'new', 'old']) {
        const found = await client.callTool({ name: 'find_tool', arguments: { query: `${backend} echo` } })
        assert.match(readText(found), `"${backend}_echo"`)
        const call = { name: `${backend}_echo`, arguments: { message: 'hello' } }
        assert.is(readText(await client.callTool({ name: 'call_tool', arguments: call })), `${backend}: hello`)
      }
      for (const port of ports) assert.ok(front.connections(port) >= 3)
    } finally {
      await client.close()
    }
  })

test('both replicas follow added and removed tools', async () => {
  const config = stage.config({ backends: backends(), optimizer: {} })
  const replicas = await stage.twoReplicas(config)
  const calls = await Promise.all(eras.map((era) => openClient(era, replicas[0].url)))
  const searchEverywhere = async (query: string) =>
    JSON.stringify(
      await Promise.all(
        replicas.flatMap(({ url }) => calls.map(async (call) => (await find(call, url, query)).sort())),
      ),
    )
  const expectAll = (...names: string[]) => JSON.stringify(new Array(4).fill(names))
  assert.is(await searchEverywhere('hippopotamus'), expectAll())
  modern.addTool('wash_hippopotamus')
  await eventually('the tool of the modern backend', async () => {
    return (await searchEverywhere('hippopotamus')) === expectAll('new_wash_hippopotamus')
  })
  legacy.addTool('feed_hippopotamus')
  await eventually('the tool of the legacy backend', async () => {
    return (await searchEverywhere('hippopotamus')) === expectAll('new_wash_hippopotamus', 'old_feed_hippopotamus')
  })
  for (const { url } of replicas)
    for (const call of calls)
      assert.is(readText(await call(url, 'call_tool', { name: 'old_feed_hippopotamus' })), 'feed_hippopotamus')

  const left = { ...config, backends: backends().slice(0, 1) }
  for (const replica of replicas) await replica.configure(left)
  await eventually('the legacy backend is gone', async () => {
    return (await searchEverywhere('hippopotamus')) === expectAll('new_wash_hippopotamus')
  })
  for (const { url } of replicas)
    for (const call of calls)
      assert.is(readText(await call(url, 'call_tool', { name: 'old_feed_hippopotamus' })), NOT_THERE)
})

test('each caller finds and calls their own tools at both replicas, in either order', async () => {
  const idp = await startIdentityProvider()
  cleanups.push(() => idp.close())
  const replicas = await twoReplicas({
    resourceUrl: AUDIENCE,
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
    authz: {
      policies: [
        'permit(principal, action, resource) when { principal.claim_sub == "ada" };',
        'permit(principal, action, resource == Tool::"old_echo") when { principal.claim_sub == "bob" };',
      ],
    },
  })
  const [one, two] = replicas
  const bearer = async (sub: string) => ({ authorization: `Bearer ${await idp.mint({ aud: AUDIENCE, sub })}` })
  for (const era of eras) {
    const [ada, bob, eve] = [
      await openClient(era, one.url, await bearer('ada')),
      await openClient(era, one.url, await bearer('bob')),
      await openClient(era, one.url, await bearer('eve')),
    ]
    for (const { url } of [two, one, two]) {
      assert.equal((await find(ada, url, 'echo')).sort(), ['new_echo', 'old_echo'])
      assert.equal(await find(bob, url, 'echo'), ['old_echo'])
      assert.equal(await find(eve, url, 'echo'), [])
      // The results of another caller's search, at any replica, do not help these.
      const params = { name: 'new_echo', arguments: { message: 'x' } }
      const before = modern.calls('tools/call').length
      for (const call of [bob, eve]) assert.is(readText(await call(url, 'call_tool', params)), NOT_THERE)
      assert.is(modern.calls('tools/call').length, before, 'the backend was not called')
      assert.is(readText(await ada(url, 'call_tool', params)), 'new: x')
      assert.is(readText(await bob(url, 'call_tool', { ...params, name: 'old_echo' })), 'old: x')
    }
  }
  const session = await openSession(one.url, await bearer('ada'))
  const stolen = { ...session, ...(await bearer('bob')) }
  const search = rpc('tools/call', { name: 'find_tool', arguments: { query: 'echo' } })
  for (const { url } of replicas) assert.is((await post(url, search, stolen)).status, 404)
  // One list for each kind of caller, at each replica.
  for (const replica of replicas) assert.is((await replica.status()).toolSearch?.indexes, 3)
})

test('calls by call_tool at both replicas, of clients of both eras, count in the same buckets', async () => {
  const shared = { maxTokens: 3, refillPeriod: '24h' }
  const [one, two] = await twoReplicas({ rateLimiting: { tools: [{ name: 'old_echo', shared }] } })
  const calls = await Promise.all(eras.map((era) => openClient(era, one.url)))
  const results = await Promise.all(
    [one, two].flatMap(({ url }) =>
      calls.flatMap((call) => [
        call(url, 'call_tool', { name: 'old_echo', arguments: { message: 'x' } }),
        call(url, 'old_echo', { message: 'x' }),
      ]),
    ),
  )
  assert.is(results.filter(({ isError }) => isError !== true).length, 3)
  assert.is(legacy.calls('tools/call').length, 3)
  for (const { url } of [one, two])
    for (const call of calls) assert.ok((await find(call, url, 'old echo')).includes('old_echo'), 'searches are free')
})

test('a composite tool found at one replica runs at the other, over backends of both eras', async () => {
  const compositeTools = [
    {
      name: 'say_twice',
      description: 'Makes an announcement.',
      steps: [
        { id: 'first', type: 'tool', tool: 'new_echo', arguments: { message: 'a' } },
        {
          id: 'second',
          type: 'tool',
          tool: 'old_echo',
          arguments: { message: '{{.steps.first.output.text}}' },
          dependsOn: ['first'],
        },
      ],
    },
  ] as unknown as TestConfig['compositeTools']
  const [one, two] = await twoReplicas({ compositeTools })
  for (const era of eras) {
    const call = await openClient(era, two.url)
    assert.equal(await find(call, one.url, 'announcement'), ['say_twice'])
    assert.is(readText(await call(two.url, 'call_tool', { name: 'say_twice', arguments: {} })), 'old: new: a')
  }
})

test('a question of a tool called by call_tool can be answered at the other replica, in both eras', async () => {
  const asking = await startAskingServer({
    onAnswer: (call, answered) => call.finish({ content: [{ type: 'text', text: `Hello, ${nameIn(answered)}!` }] }),
  })
  cleanups.push(() => asking.close())
  const [one, two] = await twoReplicas({ backends: [{ name: 'b', url: asking.url }] })
  const answer = { action: 'accept', content: { name: 'Ada' } }
  const called = { name: 'call_tool', arguments: { name: 'b_t', arguments: {} } }

  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  }
  const { json } = await postModern(one.url, 'tools/call', { ...called, _meta })
  assert.is(json.result.resultType, 'input_required')
  const { requestState, inputRequests } = json.result
  const inputResponses = { [Object.keys(inputRequests)[0] as string]: answer }
  const retry = { ...called, _meta, requestState, inputResponses }
  const other = { name: 'b_t', arguments: { amount: 10_000 } }
  const refused = await postModern(two.url, 'tools/call', { ...retry, arguments: other })
  assert.match(refused.json.error.message, /other arguments/)
  assert.is(readText((await postModern(two.url, 'tools/call', retry)).json.result), 'Hello, Ada!')

  const clientInfo = { name: 'a', version: '1' }
  const params = { protocolVersion: '2025-11-25', capabilities: { elicitation: {} }, clientInfo }
  const opened = await post(one.url, rpc('initialize', params, 0))
  const session = {
    'mcp-session-id': opened.headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  const reader = await EventReader.open(one.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...session },
    body: rpc('tools/call', called, 'c'),
  })
  const question = () => reader.messages.find(({ method }) => method === 'elicitation/create')
  await eventually('the question', () => question() !== undefined)
  await post(two.url, JSON.stringify({ jsonrpc: '2.0', id: question()?.id, result: answer }), session)
  await eventually('the answer', () => reader.messages.some(({ id }) => id === 'c'))
  assert.is(readText(unwrap(reader.messages.find(({ id }) => id === 'c')).result), 'Hello, Ada!')
})

test('after one replica has ended, the other finds and calls in the same session', async () => {
  const [one, two] = await stage.oneToKill({ backends: backends(), optimizer: {} })
  const call = await openClient('legacy', one.url)
  for (const { url } of [one, two])
    await eventually('its tools', async () => (await find(call, url, 'echo')).length === 2)
  await one.end()
  assert.equal((await find(call, two.url, 'echo')).sort(), ['new_echo', 'old_echo'])
  const params = { name: 'old_echo', arguments: { message: 'still' } }
  assert.is(readText(await call(two.url, 'call_tool', params)), 'old: still')
})

test('both replicas find the same tools by meaning, and each embeds each text once', async () => {
  const service = await startEmbeddingService([
    ['again', 'parrot'],
    ['time', 'tortoise'],
  ])
  cleanups.push(() => service.close())
  const [one, two] = await twoReplicas({ optimizer: { embeddingService: service.url } })
  const calls = await Promise.all(eras.map((era) => openClient(era, two.url)))
  for (const [meant, suffix] of [
    ['parrot', 'echo'],
    ['tortoise', 'slow'],
  ] as const)
    for (const { url } of [one, two])
      for (const call of calls)
        assert.equal((await find(call, url, meant)).slice(0, 2).sort(), [`new_${suffix}`, `old_${suffix}`])
  const byText = Map.groupBy(service.texts, (text) => text)
  for (const [text, times] of byText) if (!['parrot', 'tortoise'].includes(text)) assert.is(times.length, 2, text)
  assert.ok(byText.size > 2)
})

test.run()
