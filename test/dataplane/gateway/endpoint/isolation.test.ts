import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayStatus } from '../../../../dataplane/config/status.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, startUntried, type TestConfig } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

let good: RawServer
const closing: (() => Promise<unknown>)[] = []

test.before(async () => {
  good = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
})

test.after(() => good.close())

test.after.each(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function gatewayOver(
  backends: readonly { name: string; url: string; timeout?: string }[],
  prepare?: (directory: string) => Promise<void>,
  failureHandling: TestConfig['failureHandling'] = {},
  start = startGateway,
): Promise<GatewayUnderTest> {
  const gateway = await start({ backends: backends as never, failureHandling }, prepare)
  closing.push(() => gateway.close())
  return gateway
}

/** Starts a server whose only behaviour is `handle`. */
async function startOdd(handle: Parameters<typeof createServer>[1]): Promise<string> {
  const server: Server = createServer(handle as never)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}

async function startRaw(options: Parameters<typeof startRawServer>[0]): Promise<RawServer> {
  const server = await startRawServer(options)
  closing.push(() => server.close())
  return server
}

const listTools = async (gateway: GatewayUnderTest): Promise<string[]> =>
  (await postModern(gateway.url, 'tools/list')).json.result.tools.map(({ name }: { name: string }) => name)

const call = (gateway: GatewayUnderTest, name: string) => postModern(gateway.url, 'tools/call', { name })

const findBackend = (status: GatewayStatus, name: string) => status.backends.find((backend) => backend.name === name)

test('dead, silent and broken backends do not affect the others', async () => {
  const rubbish: [string, Parameters<typeof createServer>[1]][] = [
    ['html', (_req, res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    ['error', (_req, res) => void res.writeHead(500).end()],
    ['denied', (_req, res) => void res.writeHead(401).end()],
    ['cut', (req) => void req.socket.destroy()],
    ['redirect', (_req, res) => void res.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()],
    ['empty', (_req, res) => void res.writeHead(200, { 'content-type': 'application/json' }).end()],
    ['array', (_req, res) => void res.writeHead(200, { 'content-type': 'application/json' }).end('[]')],
    [
      'list',
      (_req, res) =>
        void res
          .writeHead(200, { 'content-type': 'application/json' })
          .end('{"jsonrpc":"2.0","id":1,"result":{"tools":5}}'),
    ],
    ['silent', () => {}],
  ]
  const backends = [
    { name: 'good', url: good.url },
    { name: 'dead', url: `http://127.0.0.1:${await freePort()}/mcp` },
  ]
  for (const [name, handle] of rubbish) backends.push({ name, url: await startOdd(handle) })
  // The silent one's timeout outlasts the test, however slow the machine is.
  const patience = { healthCheckInterval: '1h', healthCheckTimeout: '59m' }
  const gateway = await gatewayOver(backends, undefined, patience, startUntried)

  const start = performance.now()
  assert.equal(await listTools(gateway), ['good_t'], 'the first list waits for the silent one, and not for ever')
  const first = performance.now()
  assert.equal(await listTools(gateway), ['good_t'])
  assert.ok((await call(gateway, 'good_t')).json.result)
  assert.ok(performance.now() - first < first - start, 'later ones do not wait')

  const isTried = ({ name, health }: { name: string; health: string }) => name === 'silent' || health !== 'unknown'
  await eventually('all but the silent one to be tried', async () => (await gateway.status()).backends.every(isTried))
  const status = await gateway.status()
  assert.is(findBackend(status, 'good')?.health, 'healthy')
  assert.is(findBackend(status, 'silent')?.health, 'unknown')
  assert.is(findBackend(status, 'denied')?.health, 'unauthenticated')
  for (const name of ['dead', 'html', 'error', 'cut', 'redirect', 'empty', 'array'])
    assert.match(findBackend(status, name)?.health ?? '', /degraded|unhealthy/, name)
  assert.match(findBackend(status, 'dead')?.lastError?.message ?? '', 'ECONNREFUSED')
})

test('a tool of a backend that never answered is unavailable, not unknown', async () => {
  const gateway = await gatewayOver([
    { name: 'good', url: good.url },
    { name: 'dead', url: `http://127.0.0.1:${await freePort()}/mcp` },
  ])
  assert.match((await call(gateway, 'dead_t')).json.error.message, 'reached')
  assert.is((await call(gateway, 'good_nothing')).json.error.code, -32602)
})

test('a backend that starts later is found without a restart', async () => {
  const port = await freePort()
  const gateway = await gatewayOver([{ name: 'late', url: `http://127.0.0.1:${port}/mcp` }])
  assert.equal(await listTools(gateway), [])
  await startRaw({ era: 'legacy', port, call: (request) => answer(request, OK_RESULT) })
  await eventually('its tools', async () => (await listTools(gateway)).includes('late_t'))
  assert.ok((await call(gateway, 'late_t')).json.result)
  assert.is(findBackend(await gateway.status(), 'late')?.health, 'healthy')
})

test('a backend that goes down stays listed; calls fail at once, and later without a try', async () => {
  const server = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await gatewayOver([
    { name: 'good', url: good.url },
    { name: 'gone', url: server.url },
  ])
  assert.ok((await call(gateway, 'gone_t')).json.result)
  await server.close()
  for (let round = 0; round < 8; round++) {
    const { status, json } = await call(gateway, 'gone_t')
    assert.is(status, 200)
    assert.is(json.error.code, -32603)
  }
  assert.equal(await listTools(gateway), ['gone_t', 'good_t'])
  const gone = findBackend(await gateway.status(), 'gone')
  assert.is(gone?.health, 'unhealthy')
  // After two seconds, which may be over on a busy machine, the circuit allows one attempt.
  assert.match(gone?.circuit ?? '', /open$/)
  const again = await startRaw({ era: 'modern', port: server.port, call: (request) => answer(request, OK_RESULT) })
  await eventually('the circuit to close', async () => (await call(gateway, 'gone_t')).json.result !== undefined)
  assert.ok(again.seen.length > 0)
  assert.is(findBackend(await gateway.status(), 'gone')?.circuit, 'closed')
})

test('a call ends after its backend’s timeout, whatever progress it reports', async () => {
  const server = await startRaw({
    era: 'legacy',
    tools: [tool('hang'), tool('busy')],
    call(request, res) {
      if (request.message.params?.['name'] === 'hang') return undefined
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      const more = setInterval(
        () =>
          res.write(
            'data: {"method":"notifications/progress","params":{"progressToken":1,"progress":1},"jsonrpc":"2.0"}\n\n',
          ),
        30,
      )
      res.on('close', () => clearInterval(more))
      return undefined
    },
  })
  const gateway = await gatewayOver([{ name: 's', url: server.url, timeout: '2s' }])
  await eventually('its tools', async () => (await listTools(gateway)).length === 2)
  const session = await openSession(gateway.url)
  for (const name of ['s_hang', 's_busy']) {
    const start = performance.now()
    const { text } = await post(gateway.url, rpc('tools/call', { name }), session)
    const took = performance.now() - start
    assert.match(text, /"code":-32603,"message":"The backend did not answer in time\."/)
    assert.ok(took > 1_900 && took < 30_000, `${name} took ${took} ms`)
  }
  await eventually('the backend to be notified', () => server.calls('notifications/cancelled').length === 2)
})

test('invalid answers are distinguished from valid ones', async () => {
  const lies: Record<string, (id: string) => string> = {
    'other-id': () => `{"jsonrpc":"2.0","id":"other","result":${OK_RESULT}}`,
    'no-id': () => `{"jsonrpc":"2.0","result":${OK_RESULT}}`,
    half: (id) => `{"jsonrpc":"2.0","id":${id},"result":{"a":`,
    neither: (id) => `{"jsonrpc":"2.0","id":${id}}`,
    batch: (id) => `[{"jsonrpc":"2.0","id":${id},"result":${OK_RESULT}}]`,
    words: () => 'hello',
    nothing: () => '',
    request: (id) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`,
  }
  for (const era of ['modern', 'legacy'] as const) {
    const server = await startRaw({
      era,
      tools: Object.keys(lies).map((name) => tool(name)),
      call: (request) => lies[String(request.message.params?.['name'])]?.(JSON.stringify(request.message.id)) ?? '',
    })
    const gateway = await gatewayOver([{ name: 's', url: server.url }])
    const session = await openSession(gateway.url)
    for (const name of Object.keys(lies)) {
      const answers = [
        await call(gateway, `s_${name}`),
        await post(gateway.url, rpc('tools/call', { name: `s_${name}` }), session),
      ]
      for (const { status, json } of answers) {
        assert.is(status, 200, `${era} ${name}`)
        assert.is(json.error?.code, -32603, `${era} ${name}`)
        assert.is(json.id, 1)
        // It fails often enough for its circuit to open, so a later call may not be attempted at all.
        assert.match(json.error.message, /did not answer as it should|reached/)
      }
    }
  }
})

test('a backend’s own error text is not shown to callers', async () => {
  const secret = 'postgres://user:pw@db'
  const url = await startOdd((_req, res) => void res.writeHead(500, { 'x-secret': secret }).end(secret))
  const server = await startRaw({
    era: 'modern',
    call: (_request, res) => {
      res.writeHead(502, { 'content-type': 'text/plain' }).end(secret)
      return undefined
    },
  })
  const gateway = await gatewayOver([
    { name: 'a', url },
    { name: 'b', url: server.url },
  ])
  for (const name of ['a_t', 'b_t']) {
    const { text, headers } = await call(gateway, name)
    assert.not.match(text, secret)
    assert.is(headers.get('x-secret'), null)
  }
  assert.not.match(JSON.stringify(await gateway.status()), secret)
})

test('if an answer breaks off while it is streamed, the client’s breaks off too', async () => {
  let breakOff = () => {}
  const server = await startRaw({
    era: 'modern',
    call: (request, res) => {
      res.writeHead(200, { 'content-type': 'application/json' })
      res.write(`{"jsonrpc":"2.0","id":${request.message.id},"result":{"text":"${'x'.repeat(200_000)}`)
      breakOff = () => res.destroy()
      return undefined
    },
  })
  const gateway = await gatewayOver([{ name: 's', url: server.url }])
  const { headers, body } = modern('tools/call', { name: 's_t' })
  const response = await fetch(gateway.url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body })
  breakOff()
  await response.text().then(
    () => assert.unreachable('a broken answer looked whole'),
    (error: Error) => assert.match(error.message, 'terminated'),
  )
})

test('listening clients do not use up the connections for calls', async () => {
  let streams = 0
  const backend = await startRaw({
    era: 'legacy',
    call: (request) => answer(request, OK_RESULT),
    before({ method }, res) {
      if (method !== 'GET') return false
      streams++
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      return true
    },
  })
  const gateway = await gatewayOver([{ name: 'b', url: backend.url }])
  const leaving = new AbortController()
  closing.push(async () => leaving.abort())
  const sessions = await Promise.all(Array.from({ length: 200 }, () => openSession(gateway.url)))
  for (const session of sessions) {
    const { signal } = leaving
    await fetch(gateway.url, { headers: { ...session, accept: 'text/event-stream' }, signal })
    const { json } = await post(gateway.url, rpc('tools/call', { name: 'b_t', arguments: {} }), session)
    assert.is(json.result.content[0].text, 'ok')
  }
  assert.ok(streams >= sessions.length, `${streams} streams`)
})

test.run()
