import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

let backend: McpTestServer
let gateway: GatewayUnderTest

test.before(async () => {
  backend = await startMcpServer({ name: 'b', mode: 'sessions' })
  gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
  await gateway.listed()
})

test.after(async () => {
  await gateway.close()
  await backend.close()
})

const echo = (message: string) => rpc('tools/call', { name: 'b_echo', arguments: { message } })

test('session ids are random and differ', async () => {
  const ids = new Set<string>()
  for (let round = 0; round < 50; round++) ids.add((await openSession(gateway.url))['mcp-session-id'] as string)
  assert.is(ids.size, 50)
  for (const id of ids) assert.match(id, /^[A-Za-z0-9_-]{32}$/)
})

test('a session of the client is one session with the backend, opened by its first call', async () => {
  backend.seen.length = 0
  const session = await openSession(gateway.url)
  assert.is(backend.calls('initialize').length, 0)
  await Promise.all(['1', '2', '3'].map((message) => post(gateway.url, echo(message), session)))
  assert.is(backend.calls('initialize').length, 1)
  assert.is(backend.calls('notifications/initialized').length, 1)
  assert.is(new Set(backend.calls('tools/call').map(({ headers }) => headers['mcp-session-id'])).size, 1)
})

test('DELETE ends the session here and at the backend', async () => {
  const session = await openSession(gateway.url)
  await post(gateway.url, echo('x'), session)
  backend.seen.length = 0
  const before = (await gateway.status()).sessions
  assert.is((await fetch(gateway.url, { method: 'DELETE', headers: session })).status, 204)
  assert.is((await gateway.status()).sessions, before - 1)
  assert.is((await post(gateway.url, rpc('ping'), session)).status, 404)
  assert.is((await fetch(gateway.url, { method: 'DELETE', headers: session })).status, 404)
  await eventually('the backend’s to be ended', () => backend.seen.some(({ method }) => method === 'DELETE'))
})

test('a backend that lost its sessions is initialized again once, and the call succeeds', async () => {
  const session = await openSession(gateway.url)
  await post(gateway.url, echo('before'), session)
  await postModern(gateway.url, 'tools/call', { name: 'b_echo', arguments: { message: 'before' } })
  backend.forget()
  const began = performance.now()
  // The gateway reopens its own session after a second.
  const isSoon = () => performance.now() - began < 1_000
  backend.seen.length = 0
  assert.is(readText((await post(gateway.url, echo('after'), session)).json.result), 'b: after')
  assert.is(backend.calls('tools/call').length, 2)
  const once = backend.calls('initialize').length
  if (isSoon()) assert.is(once, 1)
  const modern = await postModern(gateway.url, 'tools/call', { name: 'b_echo', arguments: { message: 'after' } })
  assert.is(readText(modern.json.result), 'b: after')
  assert.is(backend.calls('tools/call').length, 4)
  const twice = backend.calls('initialize').length
  if (isSoon()) assert.is(twice, 2)
})

test('a backend that answers 400 for a lost session is understood too', async () => {
  const raw = await startRawServer({
    era: 'legacy',
    call(request, res) {
      if (request.headers['mcp-session-id'] !== 'raw-session-2') return answer(request, OK_RESULT)
      raw.forget(request)
      res.writeHead(400, { 'content-type': 'application/json' })
      res.end(
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}',
      )
      return undefined
    },
  })
  const own = await startGateway({ backends: [{ name: 'r', url: raw.url }] })
  const session = await openSession(own.url)
  const { json } = await post(own.url, rpc('tools/call', { name: 'r_t' }), session)
  assert.equal(json.result, JSON.parse(OK_RESULT))
  assert.is(raw.calls('tools/call').length, 2)
  await own.close()
  await raw.close()
})

test('a backend that loses every session is not asked endlessly', async () => {
  const raw = await startRawServer({
    era: 'legacy',
    call(request, res) {
      raw.forget(request)
      res.writeHead(404).end()
      return undefined
    },
  })
  const own = await startGateway({ backends: [{ name: 'r', url: raw.url }] })
  const session = await openSession(own.url)
  const { json } = await post(own.url, rpc('tools/call', { name: 'r_t' }), session)
  assert.is(json.error.code, -32603)
  assert.is(raw.calls('tools/call').length, 2)
  await own.close()
  await raw.close()
})

test('a backend without sessions works too', async () => {
  const raw = await startRawServer({
    era: 'legacy',
    call: (request) => answer(request, OK_RESULT),
    before({ message }, res) {
      if (message.method !== 'initialize') return false
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(
        `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`,
      )
      return true
    },
  })
  const own = await startGateway({ backends: [{ name: 'r', url: raw.url }] })
  assert.ok((await postModern(own.url, 'tools/call', { name: 'r_t' })).json.result)
  const [request] = raw.calls('tools/call')
  assert.is(request?.headers['mcp-session-id'], undefined)
  assert.is(request?.headers['mcp-protocol-version'], '2025-03-26')
  assert.is((await own.status()).backends[0]?.revision, '2025-03-26')
  await own.close()
  await raw.close()
})

test('a newer stream replaces an older one', async () => {
  const session = { ...(await openSession(gateway.url)), accept: 'text/event-stream' }
  const first = await fetch(gateway.url, { headers: session })
  const second = await fetch(gateway.url, { headers: session })
  assert.not.match(await first.text(), /jsonrpc/)
  assert.is(second.status, 200)
  await second.body?.cancel()
})

test('a shutdown ends streams and waits for calls', async () => {
  const own = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
  const session = await openSession(own.url)
  await post(own.url, rpc('tools/list'), session)
  const stream = await fetch(own.url, { headers: { ...session, accept: 'text/event-stream' } })
  backend.seen.length = 0
  const slow = post(own.url, rpc('tools/call', { name: 'b_slow', arguments: { ms: 400 } }), session)
  await eventually('the call to arrive', () => backend.calls('tools/call').length === 1)
  const closed = own.close()
  assert.not.match(await stream.text(), /jsonrpc/)
  assert.is(readText((await slow).json.result), 'at last')
  await closed
  await eventually(
    'the backend’s sessions to be ended',
    () => backend.seen.filter(({ method }) => method === 'DELETE').length === 2,
  )
})

test('headers from files follow the files, and no request is sent without a missing one', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const own = await startGateway(
    {
      backends: [
        { name: 'r', url: raw.url, headerFiles: [{ name: 'Authorization', file: 'token' }] },
        { name: 'm', url: raw.url, headerFiles: [{ name: 'Authorization', file: 'missing' }] },
      ],
    },
    (directory) => writeFile(join(directory, 'token'), 'Bearer one\n'),
  )
  await postModern(own.url, 'tools/call', { name: 'r_t' })
  assert.is(raw.calls('tools/call').at(-1)?.headers.authorization, 'Bearer one')
  await writeFile(join(own.directory, 'token'), 'Bearer two\n')
  await eventually('the new value', async () => {
    await postModern(own.url, 'tools/call', { name: 'r_t' })
    return raw.calls('tools/call').at(-1)?.headers.authorization === 'Bearer two'
  })
  for (const { headers } of raw.seen) assert.ok(headers.authorization)
  const missing = (await own.status()).backends.find(({ name }) => name === 'm')
  assert.match(missing?.lastError?.message ?? '', /Authorization: the file .*missing can’t be read/)
  await own.close()
  await raw.close()
})

test('SDK 1 survives the restart of its backend', async () => {
  const { client } = await connectV1(gateway.url)
  await client.callTool({ name: 'b_echo', arguments: { message: '1' } })
  backend.forget()
  assert.is(readText(await client.callTool({ name: 'b_echo', arguments: { message: '2' } })), 'b: 2')
  await client.close()
})

test.run()
