import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { type EverythingServer, startEverything } from '../../../support/servers/everything.ts'

let dual: McpTestServer
let sessions: McpTestServer
let everything: EverythingServer
let gateway: GatewayUnderTest

test.before(async () => {
  dual = await startMcpServer({ name: 'dual' })
  sessions = await startMcpServer({ name: 'sessions', mode: 'sessions' })
  everything = await startEverything()
  gateway = await startGateway({
    backends: [
      { name: 'dual', url: dual.url },
      { name: 'sessions', url: sessions.url },
      { name: 'every', url: everything.url },
    ],
    // On a slow machine a check that comes during the many calls is not answered in time.
    failureHandling: { healthCheckInterval: '1h' },
  })
  await gateway.listed()
})

test.after(async () => {
  await gateway.close()
  await Promise.all([dual.close(), sessions.close(), everything.close()])
})

const echoes: readonly [tool: string, answer: string][] = [
  ['dual_echo', 'dual: hi'],
  ['sessions_echo', 'sessions: hi'],
  ['every_echo', 'Echo: hi'],
]

for (const era of ['modern', 'legacy', 'auto'] as const)
  test(`SDK 2, ${era}: lists and calls tools of every backend`, async () => {
    const { client } = await connect(gateway.url, era)
    const { tools } = await client.listTools()
    const names = tools.map(({ name }) => name)
    assert.equal(names, [...names].sort())
    assert.ok(names.includes('dual_echo') && names.includes('every_get-sum'))
    assert.equal(tools.find(({ name }) => name === 'dual_echo')?.annotations, { readOnlyHint: true })
    for (const [name, answer] of echoes)
      assert.is(readText(await client.callTool({ name, arguments: { message: 'hi' } })), answer)
    assert.is(client.getNegotiatedProtocolVersion(), era === 'legacy' ? '2025-11-25' : '2026-07-28')
    await client.close()
  })

test('SDK 1: lists, calls, pings, ends its session', async () => {
  const { client, transport } = await connectV1(gateway.url)
  assert.is(client.getServerVersion()?.name, 'test')
  const { tools } = await client.listTools()
  assert.ok(tools.length > 20)
  for (const [name, answer] of echoes)
    assert.is(readText(await client.callTool({ name, arguments: { message: 'hi' } })), answer)
  await client.ping()
  const before = (await gateway.status()).sessions
  await transport.terminateSession()
  assert.is((await gateway.status()).sessions, before - 1)
  await client.close()
})

for (const era of ['modern', 'legacy'] as const) {
  test(`${era}: a tool's own failure is a result`, async () => {
    const { client } = await connect(gateway.url, era)
    for (const backend of ['dual', 'sessions']) {
      const failed = await client.callTool({ name: `${backend}_fail`, arguments: {} })
      assert.is(failed.isError, true)
      assert.is(readText(failed), 'it failed')
      assert.is((await client.callTool({ name: `${backend}_throw`, arguments: {} })).isError, true)
    }
    await client.close()
  })

  test(`${era}: progress arrives before the answer`, async () => {
    const { client } = await connect(gateway.url, era)
    for (const backend of ['dual', 'sessions']) {
      const seen: number[] = []
      const result = await client.callTool(
        { name: `${backend}_steps`, arguments: { count: 3 } },
        { onprogress: ({ progress }) => void seen.push(progress) },
      )
      assert.is(readText(result), '3 steps')
      assert.equal(seen, [1, 2, 3], backend)
    }
    await client.close()
  })

  test(`${era}: a large result comes whole`, async () => {
    const { client } = await connect(gateway.url, era)
    for (const backend of ['dual', 'sessions']) {
      const result = await client.callTool({ name: `${backend}_big`, arguments: { bytes: 3_000_000 } })
      assert.is(readText(result).length, 3_000_000, backend)
    }
    await client.close()
  })

  test(`${era}: a parameter in a header`, async () => {
    const { client } = await connect(gateway.url, era)
    await client.listTools()
    for (const backend of ['dual', 'sessions']) {
      const result = await client.callTool({ name: `${backend}_region`, arguments: { region: 'Zürich' } })
      assert.is(readText(result), 'Zürich', backend)
    }
    await client.close()
  })

  test(`${era}: many calls at once find their own answers`, async () => {
    const { client } = await connect(gateway.url, era)
    const calls = Array.from({ length: 60 }, async (_, index) => {
      const backend = ['dual', 'sessions'][index % 2]
      const result = await client.callTool({ name: `${backend}_echo`, arguments: { message: `m${index}` } })
      assert.is(readText(result), `${backend}: m${index}`)
    })
    await Promise.all(calls)
    await client.close()
  })
}

test('modern clients that share a session with a legacy backend don’t mix up their answers', async () => {
  const clients = await Promise.all(Array.from({ length: 6 }, () => connect(gateway.url, 'modern')))
  await Promise.all(
    clients.flatMap(({ client }, who) =>
      Array.from({ length: 10 }, async (_, index) => {
        const message = `client ${who} call ${index}`
        const result = await client.callTool({ name: 'sessions_echo', arguments: { message } })
        assert.is(readText(result), `sessions: ${message}`)
      }),
    ),
  )
  await Promise.all(clients.map(({ client }) => client.close()))
})

test('a backend that asks the user gets an error, and does not hang', async () => {
  const { client } = await connect(gateway.url, 'legacy')
  const result = await client.callTool({ name: 'sessions_ask', arguments: {} })
  assert.match(readText(result), /nobody answered/)
  await client.close()
})

test('the status lists the backends', async () => {
  const { backends, config } = await gateway.status()
  assert.match(config, /^sha256:[0-9a-f]{64}$/)
  assert.equal(
    backends.map(({ name, health, revision, circuit, lastError }) => ({ name, health, revision, circuit, lastError })),
    [
      { name: 'dual', health: 'healthy', revision: '2026-07-28', circuit: 'closed', lastError: null },
      { name: 'sessions', health: 'healthy', revision: '2025-11-25', circuit: 'closed', lastError: null },
      { name: 'every', health: 'healthy', revision: '2025-11-25', circuit: 'closed', lastError: null },
    ],
  )
})

test.run()
