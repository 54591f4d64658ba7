/** Tests clients with sessions and backends that support both eras. */
import type { ServerResponse } from 'node:http'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { startMcpServer } from '../../../support/servers/dual-server.ts'
import {
  answer,
  OK_RESULT,
  type RawRequest,
  type RawServer,
  type RawServerOptions,
  startRawServer,
} from '../../../support/servers/raw-server.ts'
import { startReference } from '../../../support/servers/reference.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Before = NonNullable<RawServerOptions['before']>

/** Starts a hand-written backend, by default of both eras, behind a gateway. */
async function startInFront(
  before: Before = () => false,
  more: object = {},
): Promise<{ server: RawServer; gateway: GatewayUnderTest }> {
  const server = await startRawServer({ era: 'both', call: (request) => answer(request, OK_RESULT), before })
  const gateway = await startGateway({ backends: [{ name: 'b', url: server.url }], ...more })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  return { server, gateway }
}

const call = (gateway: GatewayUnderTest, session: Record<string, string>): Promise<RpcAnswer> =>
  post(gateway.url, rpc('tools/call', { name: 'b_t', arguments: {} }), session)

const isOk = ({ json }: RpcAnswer) => assert.is(json?.result?.content[0].text, 'ok')

/** Returns the eras of the calls that reached a backend. */
const listEras = (server: RawServer) =>
  server
    .calls('tools/call')
    .map(({ headers }) => (headers['mcp-protocol-version'] === '2026-07-28' ? 'modern' : headers['mcp-session-id']))

const json = (res: ServerResponse, status: number, body: string): true => {
  res.writeHead(status, { 'content-type': 'application/json' }).end(body)
  return true
}

test('each client is served in its own era, and a session costs one initialize', async () => {
  const { server, gateway } = await startInFront()
  const sessions = [await openSession(gateway.url), await openSession(gateway.url)]
  for (let time = 0; time < 3; time++) {
    for (const session of sessions) isOk(await call(gateway, session))
    isOk(await postModern(gateway.url, 'tools/call', { name: 'b_t', arguments: {} }))
  }
  const one = ['raw-session-1', 'raw-session-2', 'modern']
  assert.equal(listEras(server), [...one, ...one, ...one])
  assert.is(server.calls('initialize').length, 2)
  const methods = server.seen.map(({ message }) => message.method).filter((method) => method !== 'tools/list')
  const usual = ['initialize', 'notifications/initialized', 'tools/call']
  assert.equal(methods, ['server/discover', ...usual, ...usual, ...Array(7).fill('tools/call')])
  assert.is((await gateway.status()).backends[0]?.revision, '2026-07-28')
})

test('a backend that only modern clients use gets no session', async () => {
  const { server, gateway } = await startInFront()
  isOk(await postModern(gateway.url, 'tools/call', { name: 'b_t', arguments: {} }))
  assert.is(server.calls('initialize').length, 0)
})

const result = (request: RawRequest, protocolVersion: unknown) =>
  answer(request, JSON.stringify({ protocolVersion, capabilities: {}, serverInfo: { name: 'x', version: '1' } }))

const refusals: Readonly<Record<string, (request: RawRequest, res: ServerResponse) => unknown>> = {
  'HTTP 404': (_request, res) => res.writeHead(404).end('not here'),
  'HTTP 400 with an error': (_request, res) =>
    json(res, 400, '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}'),
  'HTTP 200 with an error': (request, res) =>
    json(
      res,
      200,
      `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32022,"message":"no"}}`,
    ),
  'the modern revision': (request, res) => json(res, 200, result(request, '2026-07-28')),
  'a revision of no type': (request, res) => json(res, 200, result(request, { toString: 1 })),
  'no JSON': (_request, res) => json(res, 200, '<html>'),
  'a list': (_request, res) => json(res, 200, '[1, null]'),
  'no session id': (request, res) => json(res, 200, result(request, '2025-11-25')),
  'a stream that ends': (_request, res) => res.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
  'HTTP 503': (_request, res) => res.writeHead(503).end(),
  'HTTP 403': (_request, res) => res.writeHead(403).end(),
}
for (const [what, refuse] of Object.entries(refusals))
  test(`a backend that answers initialize with ${what} is probed once, and calls continue in the modern era`, async () => {
    const { server, gateway } = await startInFront((request, res) => {
      if (request.message.method !== 'initialize') return false
      refuse(request, res)
      return true
    })
    const sessions = await Promise.all(Array.from({ length: 5 }, () => openSession(gateway.url)))
    for (const answered of await Promise.all(sessions.map((session) => call(gateway, session)))) isOk(answered)
    isOk(await call(gateway, sessions[0] as Record<string, string>))
    assert.equal(new Set(listEras(server)), new Set(['modern']))
    assert.is(server.calls('initialize').length, 1)
    assert.is((await gateway.status()).backends[0]?.health, 'healthy')
  })

test('a backend that never answers initialize delays one call, and no call fails', async () => {
  const { server, gateway } = await startInFront(({ message }) => message.method === 'initialize', {
    timeouts: { default: '6s' },
  })
  const session = await openSession(gateway.url)
  for (let time = 0; time < 3; time++) isOk(await call(gateway, session))
  assert.is(server.calls('initialize').length, 1)
})

test('session ids that a backend gives and never accepts are dropped', async () => {
  const { server, gateway } = await startInFront(({ headers }, res) => {
    if (headers['mcp-session-id'] === undefined) return false
    return json(res, 404, '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
  })
  const session = await openSession(gateway.url)
  isOk(await call(gateway, session))
  isOk(await call(gateway, session))
  assert.equal(listEras(server), ['raw-session-1', 'raw-session-2', 'modern', 'modern'])
})

test('a backend that restarts with sessions is used with sessions at once', async () => {
  const { server, gateway } = await startInFront(({ message }, res) => {
    if (message.method !== 'initialize') return false
    res.writeHead(404).end()
    return true
  })
  const session = await openSession(gateway.url)
  isOk(await call(gateway, session))
  await server.close()
  await eventually('the gateway to notice', async () => (await call(gateway, session)).json.error !== undefined)
  const anew = await startRawServer({ era: 'both', call: (request) => answer(request, OK_RESULT), port: server.port })
  cleanups.push(() => anew.close())
  await eventually('calls to succeed again', async () => (await call(gateway, session)).json.result !== undefined)
  await call(gateway, session)
  assert.is(listEras(anew).at(-1), 'raw-session-1')
})

test('a session that a dual-era backend has lost is opened again', async () => {
  let lost = ''
  const { server, gateway } = await startInFront(({ headers }, res) => {
    if (headers['mcp-session-id'] !== lost) return false
    return json(res, 404, '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
  })
  const session = await openSession(gateway.url)
  isOk(await call(gateway, session))
  lost = 'raw-session-1'
  isOk(await call(gateway, session))
  assert.equal(listEras(server), ['raw-session-1', 'raw-session-1', 'raw-session-2'])
})

test('a session client gets a server’s questions, in whichever way the server asks', async () => {
  const reference = await startReference()
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'r', url: reference.url }] })
  cleanups.push(
    () => reference.close(),
    () => gateway.close(),
  )
  const client = new Client({ name: 'x', version: '1' }, { capabilities: { elicitation: {}, sampling: {}, roots: {} } })
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Ada' } }))
  client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///x' }] }))
  client.setRequestHandler('sampling/createMessage', async () => ({
    role: 'assistant',
    model: 'm',
    content: { type: 'text', text: 'Paris' },
  }))
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  cleanups.push(() => client.close())
  const callTool = async (name: string, args: Record<string, string> = {}) =>
    readText(await client.callTool({ name, arguments: args }))
  assert.match(await callTool('test_elicitation', { message: 'Who?' }), /action=accept/)
  assert.match(await callTool('test_sampling', { prompt: 'What?' }), /Paris/)
  assert.is(await callTool('test_input_required_result_elicitation'), 'Hello, Ada!')
  assert.is(await callTool('test_input_required_result_list_roots'), 'roots: file:///x')
  assert.is(await callTool('test_reconnection'), 'The stream was gone on with.')
})

test('a dual-era server without sessions asks in the modern way', async () => {
  const server = await startMcpServer()
  const gateway = await startGateway({ backends: [{ name: 'd', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  const { client } = await connect(gateway.url, 'legacy')
  cleanups.push(() => client.close())
  assert.is(readText(await client.callTool({ name: 'd_echo', arguments: { message: 'hi' } })), 'test-server: hi')
  assert.is(server.calls('tools/call')[0]?.headers['mcp-protocol-version'], '2026-07-28')
})

test('resources of a dual-era backend are subscribed to in the client’s session', async () => {
  const streams: ServerResponse[] = []
  const capabilities = { tools: {}, resources: { subscribe: true } }
  const uri = 'test://r'
  const { server, gateway } = await startInFront((request, res) => {
    const { message, method, headers } = request
    const give = (result: object) =>
      json(res, 200, answer(request, JSON.stringify({ resultType: 'complete', ...result })))
    if (method === 'GET') {
      streams.push(res.writeHead(200, { 'content-type': 'text/event-stream' }))
      res.flushHeaders()
      return true
    }
    if (message.method === 'server/discover') return give({ supportedVersions: ['2026-07-28'], capabilities })
    if (message.method === 'initialize') {
      res.setHeader('mcp-session-id', 's-1')
      return give({ protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'x', version: '1' } })
    }
    if (message.method === 'resources/list') return give({ resources: [{ uri, name: 'r' }] })
    if (message.method === 'resources/templates/list') return give({ resourceTemplates: [] })
    if (!message.method?.startsWith('resources/')) return false
    assert.is(headers['mcp-session-id'], 's-1')
    return give({})
  })
  const { client } = await connect(gateway.url, 'legacy')
  cleanups.push(() => client.close())
  const updated: string[] = []
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri))
  await client.subscribeResource({ uri })
  await eventually('its stream', () => streams.length > 0)
  streams
    .at(-1)
    ?.write(
      `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } })}\n\n`,
    )
  await eventually('the update', () => updated.length === 1)
  await client.unsubscribeResource({ uri })
  assert.is(server.calls('resources/subscribe').length, 1)
  assert.is(server.calls('resources/unsubscribe').length, 1)
  assert.is(server.calls('subscriptions/listen').length, 0)
})

test.run()
