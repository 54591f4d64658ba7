/** Tests servers that change while a gateway has cached their properties: no call fails because of the cache. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import {
  answer,
  OK_RESULT,
  type RawServer,
  type RawServerOptions,
  startRawServer,
} from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Options = Omit<RawServerOptions, 'call'>

/** Refuses requests of the other era without processing them, as the official SDK's servers do. */
const refuseUnknown =
  (era: Options['era']): NonNullable<Options['before']> =>
  (request, res) => {
    const { method } = request.message
    const isModern = request.headers['mcp-protocol-version'] === '2026-07-28'
    if (request.method !== 'POST' || method === 'initialize' || method === 'server/discover') return false
    if (era === 'both' || isModern === (era === 'modern')) return false
    const error = isModern
      ? { code: -32000, message: 'Bad Request: Server not initialized' }
      : { code: -32022, message: 'Unsupported', data: { supported: ['2026-07-28'], requested: '2025-11-25' } }
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
    return true
  }

/** A server that can be replaced at the same address, and a gateway that has cached the first one's tools. */
class Changing {
  server!: RawServer
  gateway!: GatewayUnderTest
  readonly #options: RawServerOptions = {
    era: 'both',
    call: (request) => {
      this.done++
      return answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`)
    },
  }

  static async start(options: Options, healthCheckInterval = '30s', healthCheckTimeout = '10s'): Promise<Changing> {
    const one = new Changing()
    one.become(options)
    one.server = await startRawServer(one.#options)
    one.gateway = await startGateway({
      role: 'proxy',
      backends: [{ name: 'b', url: one.server.url }],
      failureHandling: { healthCheckInterval, healthCheckTimeout },
    })
    cleanups.push(
      () => one.server.close(),
      () => one.gateway.close(),
    )
    await eventually('its tools', async () => (await one.gateway.status()).backends[0]?.tools === 1)
    return one
  }

  /** Replaces the server like a new version behind a load balancer: no connection is closed. */
  become({ era, before = refuseUnknown(era) }: Options): void {
    Object.assign(this.#options, { era, before })
  }

  /** The number of executed calls. */
  done = 0
}

for (const [before, after] of [
  ['legacy', 'modern'],
  ['modern', 'legacy'],
  ['both', 'modern'],
  ['both', 'legacy'],
] as const)
  test(`no client loses a call if a server of ${before} becomes one of ${after}`, async () => {
    const one = await Changing.start({ era: before })
    const clients = [
      (await connectV1(one.gateway.url)).client,
      (await connect(one.gateway.url, 'modern')).client,
      (await connect(one.gateway.url, 'legacy')).client,
    ]
    cleanups.push(...clients.map((client) => () => client.close()))
    const callTool = async (client: (typeof clients)[number]) =>
      readText(await client.callTool({ name: 't', arguments: {} }))
    for (const client of clients) assert.is(await callTool(client), 'ok')
    one.become({ era: after })
    for (const client of clients) assert.is(await callTool(client), 'ok')
    assert.is(one.done, 2 * clients.length)
  })

/** Other ways in which servers with sessions refuse a request of the stateless era. */
const refusals: Readonly<Record<string, readonly [status: number, type: string, body: string]>> = {
  '404 with -32001': [
    404,
    'application/json',
    '{"jsonrpc":"2.0","id":"x","error":{"code":-32001,"message":"Session not found"}}',
  ],
  '400 with -32600': [
    400,
    'application/json',
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Bad Request: Missing session ID"}}',
  ],
  '422 with a text': [422, 'text/plain', 'Unexpected message, expect initialize request'],
}
for (const [what, [status, type, body]] of Object.entries(refusals))
  test(`no call is lost if a server comes to need sessions and says so by ${what}`, async () => {
    const one = await Changing.start({ era: 'modern' })
    one.become({
      era: 'legacy',
      before({ message: { method }, headers }, res) {
        if (method === undefined || method === 'initialize' || headers['mcp-session-id'] !== undefined) return false
        res.writeHead(status, { 'content-type': type }).end(body)
        return true
      },
    })
    const { json } = await postModern(one.gateway.url, 'tools/call', { name: 't', arguments: {} })
    assert.is(json.result?.content[0].text, 'ok', JSON.stringify(json))
  })

test('a server’s own error with that code is passed on, and the call is made twice at most', async () => {
  const one = await Changing.start({
    era: 'modern',
    before({ message: { method, id } }, res) {
      if (method !== 'tools/call') return false
      res.writeHead(404, { 'content-type': 'application/json' })
      res.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32001,"message":"No such row"}}`)
      return true
    },
  })
  const { json } = await postModern(one.gateway.url, 'tools/call', { name: 't', arguments: {} })
  assert.equal(json.error, { code: -32001, message: 'No such row' })
  assert.ok(one.server.calls('tools/call').length <= 2)
})

test('a stateless server that comes to need sessions opens one for each client', async () => {
  const sessionless: Options['before'] = (_request, res) => {
    const writeHead = res.writeHead.bind(res)
    res.writeHead = ((status: number, { 'mcp-session-id': _, ...headers }: Record<string, string> = {}) =>
      writeHead(status, headers)) as typeof res.writeHead
    return false
  }
  const one = await Changing.start({ era: 'legacy', before: sessionless })
  const session = await openSession(one.gateway.url)
  const callTool = async () => (await post(one.gateway.url, rpc('tools/call', { name: 't' }), session)).json
  assert.ok((await callTool()).result)
  one.become({
    era: 'legacy',
    before({ message: { method }, headers }, res) {
      if (method === undefined || method === 'initialize' || headers['mcp-session-id'] !== undefined) return false
      res.writeHead(400, { 'content-type': 'application/json' })
      res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID"}}')
      return true
    },
  })
  assert.is((await callTool()).result?.content[0].text, 'ok')
})

test('a redirect that no longer applies is forgotten by lists and calls', async () => {
  let path = '/mcp/'
  const one = await Changing.start({
    era: 'legacy',
    before(request, res) {
      if (request.path === path) return false
      if (request.path === '/mcp') res.writeHead(307, { location: path }).end()
      else res.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here')
      return true
    },
  })
  const { client } = await connectV1(one.gateway.url)
  cleanups.push(() => client.close())
  const callTool = async () => readText(await client.callTool({ name: 't', arguments: {} }))
  assert.is(await callTool(), 'ok')
  for (path of ['/mcp', '/elsewhere', '/mcp']) {
    assert.is(await callTool(), 'ok', path)
    assert.is((await client.listTools()).tools.length, 1, path)
  }
  path = '/later'
  assert.is((await client.listTools()).tools.length, 1, path)
  const lists = one.server.calls('initialize').length
  assert.ok(lists < 10, `${lists} sessions`)
})

test('a stateless server that once refused subscriptions is asked again', async () => {
  let isRefused = true
  let isAway = false
  let streams = 0
  const one = await Changing.start(
    {
      era: 'modern',
      before(request, res) {
        const { method } = request.message
        if (isAway) {
          res.writeHead(503).end()
          return true
        }
        if (method === 'server/discover') {
          const capabilities = { tools: { listChanged: true } }
          res.writeHead(200, { 'content-type': 'application/json' })
          res.end(
            answer(
              request,
              JSON.stringify({
                resultType: 'complete',
                supportedVersions: ['2026-07-28'],
                capabilities,
                ttlMs: 0,
                cacheScope: 'private',
              }),
            ),
          )
          return true
        }
        if (method !== 'subscriptions/listen') return false
        if (isRefused) res.writeHead(404).end()
        else res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams++
        return true
      },
    },
    '300ms',
    '250ms',
  )
  await eventually('it is refused', () => streams === 1)
  const looks = () => one.server.calls('tools/list').length
  const before = looks()
  isRefused = false
  isAway = true
  await eventually(
    'the server is unreachable',
    async () => (await one.gateway.status()).backends[0]?.lastError !== null,
  )
  isAway = false
  await eventually('it is probed again', () => looks() > before + 1)
  await eventually('it is called again', () => streams > 1)
})

test('a client’s subscriptions are renewed in the session that replaces a lost one', async () => {
  const lost = new Set<unknown>()
  const streams = new Map<unknown, { write(text: string): unknown }>()
  const subscribed = new Map<unknown, string[]>()
  const uri = 'test://a'
  const one = await Changing.start({
    era: 'legacy',
    before(request, res) {
      const { method, params } = request.message
      const session = request.headers['mcp-session-id']
      if (lost.has(session) && request.method !== 'DELETE') {
        res.writeHead(404).end('Session not found')
        return true
      }
      if (request.method === 'GET') {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams.set(session, res)
        return true
      }
      const results: Record<string, string> = {
        'resources/list': `{"resources":[{"uri":"${uri}","name":"a"}]}`,
        'resources/subscribe': '{}',
      }
      const result = results[method ?? '']
      if (method === 'initialize') {
        const writeHead = res.writeHead.bind(res)
        const end = res.end.bind(res)
        res.writeHead = ((status: number, headers: Record<string, string>) =>
          writeHead(status, headers)) as typeof res.writeHead
        res.end = ((text: string) =>
          end(text.replace('{"tools":{}}', '{"tools":{},"resources":{"subscribe":true}}'))) as typeof res.end
        return false
      }
      if (result === undefined) return false
      if (method === 'resources/subscribe')
        subscribed.set(session, [...(subscribed.get(session) ?? []), String(params?.['uri'])])
      res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, result))
      return true
    },
  })
  const session = await openSession(one.gateway.url)
  const listener = await EventReader.listen(one.gateway.url, session)
  const watching = await EventReader.watch(one.gateway.url, [uri])
  cleanups.push(
    () => listener.leave(),
    () => watching.leave(),
  )
  assert.ok((await post(one.gateway.url, rpc('resources/subscribe', { uri }), session)).json.result)
  await eventually('both are subscribed', () => subscribed.size === 2)
  for (const known of subscribed.keys()) {
    lost.add(known)
    const stream = streams.get(known) as unknown as { end(): void }
    stream.end()
  }
  await post(one.gateway.url, rpc('tools/call', { name: 't' }), session)
  await eventually('both are subscribed again', () => subscribed.size === 4)
  assert.equal([...subscribed.values()], [[uri], [uri], [uri], [uri]])
})

test.run()
