import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

let one: McpTestServer
let two: McpTestServer
let gateway: GatewayUnderTest
let config: TestConfig

test.before(async () => {
  one = await startMcpServer({ name: 'one' })
  two = await startMcpServer({ name: 'two', mode: 'sessions' })
})

test.after(() => Promise.all([one.close(), two.close()]).then(() => {}))

test.before.each(async () => {
  config = {
    backends: [
      { name: 'one', url: one.url },
      { name: 'two', url: two.url },
    ],
  }
  gateway = await startGateway(config)
})

test.after.each(() => gateway.close())

const listNames = async (): Promise<string[]> =>
  (await postModern(gateway.url, 'tools/list')).json.result.tools.map(({ name }: { name: string }) => name)

test('a changed filter takes effect, and sessions live on', async () => {
  const { client } = await connectV1(gateway.url)
  assert.is(readText(await client.callTool({ name: 'two_echo', arguments: { message: '1' } })), 'two: 1')
  const initialized = two.calls('initialize').length
  await gateway.configure({ ...config, aggregation: { tools: [{ workload: 'one', filter: ['echo'] }] } })
  await eventually('the filter', async () => (await listNames()).filter((name) => name.startsWith('one_')).length === 1)
  assert.is(readText(await client.callTool({ name: 'one_echo', arguments: { message: '2' } })), 'one: 2')
  assert.is(readText(await client.callTool({ name: 'two_echo', arguments: { message: '3' } })), 'two: 3')
  assert.is(two.calls('initialize').length, initialized, 'the backend’s session lives on too')
  await client.close()
})

test('a backend that is added serves, one that is removed is gone', async () => {
  const { client } = await connect(gateway.url, 'legacy')
  const third = await startMcpServer({ name: 'three' })
  const { backends } = config
  await gateway.configure({ backends: [backends[0] as never, { name: 'three', url: third.url }] })
  await eventually('the new set', async () => {
    const names = await listNames()
    return names.includes('three_echo') && !names.includes('two_echo')
  })
  assert.is(readText(await client.callTool({ name: 'three_echo', arguments: { message: 'hi' } })), 'three: hi')
  try {
    await client.callTool({ name: 'two_echo', arguments: { message: 'hi' } })
    assert.unreachable()
  } catch (error) {
    assert.is((error as { code: number }).code, -32602)
  }
  assert.equal(
    (await gateway.status()).backends.map(({ name }) => name),
    ['one', 'three'],
  )
  await client.close()
  await third.close()
})

test('a backend’s sessions are ended when it is removed', async () => {
  const session = await openSession(gateway.url)
  await post(gateway.url, rpc('tools/call', { name: 'two_echo', arguments: { message: 'x' } }), session)
  two.seen.length = 0
  await gateway.configure({ backends: [config.backends[0] as never] })
  // The gateway's own session and that of the client's session.
  await eventually('both sessions to be ended', () => two.seen.filter(({ method }) => method === 'DELETE').length === 2)
})

test('a call in flight is finished when its backend is removed', async () => {
  const slow = postModern(gateway.url, 'tools/call', { name: 'one_slow', arguments: { ms: 600 } })
  await eventually('the call to arrive', () => one.calls('tools/call').some(({ body }) => body.includes('"slow"')))
  await gateway.configure({ backends: [config.backends[1] as never] })
  await eventually('the backend to be gone', async () => !(await listNames()).includes('one_slow'))
  assert.is(readText((await slow).json.result), 'at last')
})

test('listening clients are notified that the tools have changed', async () => {
  const session = await openSession(gateway.url)
  await eventually('the backends', async () => (await listNames()).length > 0)
  const stream = await fetch(gateway.url, { headers: { ...session, accept: 'text/event-stream' } })
  assert.is(stream.headers.get('content-type'), 'text/event-stream')
  const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
  await gateway.configure({ ...config, aggregation: { excludeAllTools: true } })
  // The stream's first event only sets the event id.
  let received = ''
  const listChanged = /event: message\ndata: .*"notifications\/tools\/list_changed".*\n\n$/
  for (let read = await reader.read(); !read.done && !listChanged.test(received); read = await reader.read())
    received += Buffer.from(read.value).toString()
  assert.match(received, listChanged)
  await reader.cancel()
})

test('a refused configuration leaves the old one in force, and every finding is logged', async () => {
  const { config: before } = await gateway.status()
  await gateway.configure({
    backends: [
      { name: 'one', url: one.url },
      { name: 'one', url: 'ftp://nowhere' },
    ],
    role: 'nothing' as never,
    surprise: 1,
  } as never)
  await eventually('the refusal', () => gateway.lines.some(({ msg }) => String(msg).includes('refused')))
  const { findings } = gateway.lines.find(({ msg }) => String(msg).includes('refused')) as { findings: string[] }
  for (const part of ['/role', '/backends/1/url', 'surprise']) assert.match(findings.join('\n'), part)
  const status = await gateway.status()
  assert.is(status.config, before)
  const pointers = status.refused.map(({ pointer }) => pointer)
  for (const pointer of ['/role', '/backends/1/url']) assert.ok(pointers.includes(pointer), pointers.join())
  assert.ok((await listNames()).includes('two_echo'))

  await gateway.configure('{ broken')
  await eventually(
    'the second refusal',
    () => gateway.lines.filter(({ msg }) => String(msg).includes('refused')).length === 2,
  )
  assert.is((await gateway.status()).config, before)

  await gateway.configure({ ...config, aggregation: { excludeAllTools: true } })
  await eventually('the next good one', async () => (await listNames()).length === 0)
  assert.is.not((await gateway.status()).config, before)
  assert.equal((await gateway.status()).refused, [])
})

test('changed authentication applies to existing sessions too', async () => {
  const session = await openSession(gateway.url)
  const oidc = { issuer: 'http://127.0.0.1:9/', audience: 'a', allowPrivateIP: true }
  await gateway.configure({ ...config, incomingAuth: { type: 'oidc', oidc } })
  await eventually('authentication', async () => (await post(gateway.url, rpc('ping'), session)).status === 401)
  const answer = await fetch(gateway.url, { method: 'POST', headers: BASE_HEADERS, body: rpc('ping') })
  assert.match(
    answer.headers.get('www-authenticate') ?? '',
    /^Bearer .*resource_metadata="http:\/\/127\.0\.0\.1:\d+\/\.well-known\/oauth-protected-resource\/mcp"/,
  )
})

test('a backend that changes its list tells the gateway, which tells its clients', async () => {
  const session = await openSession(gateway.url)
  await eventually('the backends', async () => (await listNames()).includes('two_echo'))
  const stream = await fetch(gateway.url, { headers: { ...session, accept: 'text/event-stream' } })
  const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
  for (const [name, server] of [
    ['one', one],
    ['two', two],
  ] as const) {
    server.addTool('later')
    await eventually(`${name}_later`, async () => (await listNames()).includes(`${name}_later`))
    let received = ''
    while (!received.includes('list_changed')) received += Buffer.from((await reader.read()).value ?? []).toString()
  }
  await reader.cancel()
})

test.run()
