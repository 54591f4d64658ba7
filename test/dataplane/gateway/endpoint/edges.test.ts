import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, type RequestOptions, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { GatewayReplica } from '../../../support/gateway/replica.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

let legacy: McpTestServer
let dual: McpTestServer
let gateway: GatewayUnderTest
test.before(async () => {
  legacy = await startMcpServer({ name: 'l', mode: 'sessions' })
  dual = await startMcpServer({ name: 'd' })
  gateway = await startGateway({
    backends: [
      { name: 'l', url: legacy.url, headers: { 'X-Fixed': 'ours' } },
      { name: 'd', url: dual.url },
    ],
    passthroughHeaders: ['X-Tenant', 'x-fixed', 'X-Absent'],
    allowedHosts: ['tools.example.com'],
  })
})
test.after(async () => {
  await gateway.close()
  await Promise.all([legacy.close(), dual.close()])
})

const sent = {
  'x-tenant': 'blue',
  'x-fixed': 'theirs',
  'x-other': 'stays here',
  authorization: 'Bearer secret-of-the-client',
  cookie: 'a=b',
  'x-forwarded-for': '203.0.113.9',
}

test('the named headers go with a call in both eras, credentials and others do not', async () => {
  const session = await openSession(gateway.url)
  for (const backend of [legacy, dual]) {
    backend.seen.length = 0
    const name = `${backend === legacy ? 'l' : 'd'}_echo`
    const params = { name, arguments: { message: 'x' } }
    await postModern(gateway.url, 'tools/call', params, sent)
    await post(gateway.url, rpc('tools/call', params), { ...session, ...sent })
    const calls = backend.calls('tools/call')
    assert.is(calls.length, 2)
    for (const { headers } of calls) {
      assert.is(headers['x-tenant'], 'blue')
      assert.is(headers['x-fixed'], backend === legacy ? 'ours' : 'theirs')
      for (const name of ['x-absent', 'x-other', 'authorization', 'cookie', 'x-forwarded-for'])
        assert.is(headers[name], undefined, name)
    }
  }
})

test('headers that may not be passed on are refused in the configuration', () => {
  const config: GatewayConfig = {
    name: 'x',
    namespace: 'x',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: [],
  }
  const names = ['Authorization', 'Cookie', 'Host', 'Connection', 'TE', 'X-Forwarded-For', 'Mcp-Session-Id', 'a b', '']
  for (const name of names) assert.is(checkGateway({ ...config, passthroughHeaders: [name] }).length, 1, name)
  assert.is(checkGateway({ ...config, passthroughHeaders: ['X-A', 'x-a'] }).length, 1)
  assert.equal(checkGateway({ ...config, passthroughHeaders: ['X-Tenant', 'traceparent'] }), [])
})

/** Sends a ping in a form that fetch does not allow. */
function answerTo(options: RequestOptions): Promise<IncomingMessage> {
  const { port } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: '127.0.0.1', path: '/mcp', method: 'POST', ...options }, (response) => {
      response.resume()
      resolve(response)
    })
    outgoing.on('error', reject)
    // Node sends a body of HEAD and OPTIONS without its length.
    outgoing.end(options.method === undefined ? rpc('ping') : undefined)
  })
}

async function statusFor(host: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  return (await answerTo({ headers: { ...BASE_HEADERS, host, ...headers } })).statusCode
}

test('the endpoint has one path, however it is written, and three methods', async () => {
  const headers = { ...BASE_HEADERS, ...(await openSession(gateway.url)) }
  for (const path of ['/mcp', '/mcp?a=/b', '/mcp?', 'http://localhost/mcp', 'http://localhost/mcp?a'])
    assert.is((await answerTo({ path, headers })).statusCode, 200, path)
  for (const path of ['/', '/mcp/', '/mcpx', '/%6dcp', '/MCP', '/mcp/x?/mcp', '//mcp', '/a?/mcp'])
    assert.is((await answerTo({ path, headers })).statusCode, 404, path)
  for (const method of ['HEAD', 'OPTIONS', 'PUT', 'PATCH'])
    for (const path of ['/mcp', 'http://localhost/mcp']) {
      const answer = await answerTo({ method, path, headers })
      assert.is(answer.statusCode, 405, method)
      assert.is(answer.headers.allow, 'GET, POST, DELETE')
    }
})

test('allowed host names are answered, others are refused', async () => {
  const session = await openSession(gateway.url)
  assert.is(await statusFor('tools.example.com', session), 200)
  assert.is(await statusFor('TOOLS.example.com:8443', session), 200)
  assert.is(await statusFor('evil.example.com', session), 403)
  assert.is(await statusFor('tools.example.com', { ...session, origin: 'https://evil.example.com' }), 403)
  assert.is(await statusFor('tools.example.com', { ...session, origin: 'https://tools.example.com' }), 200)
})

test('too many headers are 431, too large a body is 413, and later requests are served', async () => {
  const session = await openSession(gateway.url)
  assert.is(await statusFor('localhost', { ...session, 'x-large': 'a'.repeat(70_000) }), 431)
  const large = rpc('tools/call', { name: 'd_echo', arguments: { message: 'a'.repeat(9 * 1024 * 1024) } })
  assert.is((await post(gateway.url, large, session)).status, 413)
  assert.is((await post(gateway.url, rpc('ping'), session)).status, 200)
})

test('a stopping gateway is not ready at once, waits for calls, ends streams, and exits', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'portico-drain-'))
  const configFile = join(directory, 'gateway.yaml')
  const config = {
    name: 'drain',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: [{ name: 'l', url: legacy.url }],
  }
  await writeFile(configFile, JSON.stringify(config))
  const replica = await GatewayReplica.start(configFile)
  const session = await openSession(replica.url)
  await post(replica.url, rpc('tools/list'), session)
  const stream = await fetch(replica.url, { headers: { ...session, accept: 'text/event-stream' } })
  legacy.seen.length = 0
  const slow = post(replica.url, rpc('tools/call', { name: 'l_slow', arguments: { ms: 5_000 } }), session)
  await eventually('the call to arrive', () => legacy.calls('tools/call').length === 1)
  const ended = replica.end('SIGTERM')
  await eventually('it is not ready', async () => (await replica.readiness()) === 503)
  assert.not.match(await stream.text(), /jsonrpc/, 'the stream ends while the call goes on')
  assert.is(await replica.readiness(), 503)
  assert.is(readText((await slow).json.result), 'at last')
  assert.is(await ended, 0)
  await rm(directory, { recursive: true })
})

test.run()
