/** Tests servers that show a session other tools than other sessions, or other tools after a call. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { endFileOnError } from '../../../support/or-fail.ts'
import { startSseServer } from '../../../support/servers/sse-server.ts'

interface UnlockingServer {
  readonly url: string
  /** The number of its list requests. */
  lists: number
  /** Ends all sessions. */
  forget(): void
  close(): Promise<void>
}

/** Starts a server of the official SDK 1 that shows a session `secret` after it has called `unlock`. */
async function startUnlockingServer(): Promise<UnlockingServer> {
  const sessions = new Map<unknown, StreamableHTTPServerTransport>()
  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const body = chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString())
      if (body?.method === 'tools/list') started.lists++
      let transport = sessions.get(req.headers['mcp-session-id'])
      if (transport === undefined) {
        if (body?.method !== 'initialize') {
          res.writeHead(404, { 'content-type': 'application/json' })
          res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
          return
        }
        const opened = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => crypto.randomUUID(),
          onsessioninitialized: (id) => void sessions.set(id, opened),
        })
        transport = opened
        await serverOfSession().connect(opened as never)
      }
      await transport.handleRequest(req, res, body)
    }),
  ).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const started: UnlockingServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    lists: 0,
    forget: () => sessions.clear(),
    async close() {
      for (const transport of sessions.values()) await transport.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return started
}

function serverOfSession(): McpServer {
  const server = new McpServer({ name: 'unlocking', version: '1' })
  const textResult = (text: string) => ({ content: [{ type: 'text' as const, text }] })
  server.registerTool('unlock', { description: 'Shows another tool' }, async () => {
    server.registerTool('secret', { annotations: { destructiveHint: true } }, async () => textResult('the secret'))
    return textResult('unlocked')
  })
  return server
}

let server: UnlockingServer
let proxy: GatewayUnderTest
let gateway: GatewayUnderTest
test.before(async () => {
  server = await startUnlockingServer()
  const backends: TestConfig['backends'] = [{ name: 'u', url: server.url }]
  proxy = await startGateway({ role: 'proxy', backends })
  gateway = await startGateway({ backends })
})
test.after(async () => {
  await Promise.all([proxy.close(), gateway.close()])
  await server.close()
})

const clients = { 'SDK 1': (url: string) => connectV1(url), 'SDK 2': (url: string) => connect(url, 'legacy') }

for (const [name, open] of Object.entries(clients))
  test(`${name}: a proxy lists a session’s own tools, announces them, and lets them be called`, async () => {
    const { client } = await open(proxy.url)
    const { client: other } = await open(proxy.url)
    try {
      let notices = 0
      const onChange = async () => void notices++
      if (name === 'SDK 1') {
        const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js')
        ;(client as Awaited<ReturnType<typeof connectV1>>['client']).setNotificationHandler(
          ToolListChangedNotificationSchema,
          onChange,
        )
      } else
        (client as Awaited<ReturnType<typeof connect>>['client']).setNotificationHandler(
          'notifications/tools/list_changed',
          onChange,
        )
      const names = async (one: typeof client) => (await one.listTools()).tools.map((tool) => tool.name)
      assert.equal(await names(client), ['unlock'])
      await client.callTool({ name: 'unlock', arguments: {} })
      assert.equal(await names(client), ['unlock', 'secret'])
      assert.is(readText(await client.callTool({ name: 'secret', arguments: {} })), 'the secret')
      await eventually('the session is notified', () => notices > 0)
      assert.equal(await names(other), ['unlock'])
    } finally {
      await Promise.all([client.close(), other.close()])
    }
  })

test('a gateway lists the common tools, and lets a session call its own', async () => {
  const session = await openSession(gateway.url)
  const call = (name: string) => post(gateway.url, rpc('tools/call', { name, arguments: {} }), session)
  assert.is((await call('u_secret')).json.error?.code, -32602)
  await call('u_unlock')
  assert.match((await call('u_secret')).text, 'the secret')
  assert.is((await call('u_other')).json.error?.code, -32602)
  assert.is((await call('secret')).json.error?.code, -32602)
  const { tools } = (await post(gateway.url, rpc('tools/list'), session)).json.result
  assert.equal(
    (tools ?? []).map(({ name }) => name),
    ['u_unlock'],
  )
  const stranger = await openSession(gateway.url)
  const answer = await post(gateway.url, rpc('tools/call', { name: 'u_secret', arguments: {} }), stranger)
  assert.is(answer.json.error?.code, -32602)
})

test('filters and renames apply to a session’s own tools', async () => {
  for (const [more, expected] of [
    [{ workload: 'u', filter: ['unlock'] }, undefined],
    [{ workload: 'u', overrides: { secret: { name: 'hidden' } } }, 'hidden'],
  ] satisfies readonly (readonly [object, string | undefined])[]) {
    const shaped = await startGateway({
      role: 'proxy',
      backends: [{ name: 'u', url: server.url }],
      aggregation: { tools: [more] },
    })
    try {
      const session = await openSession(shaped.url)
      const call = (name: string) => post(shaped.url, rpc('tools/call', { name, arguments: {} }), session)
      await call('unlock')
      assert.is((await call('secret')).json.error?.code, -32602)
      const { text } = await post(shaped.url, rpc('tools/list'), session)
      assert.not.match(text, '"secret"')
      if (expected === undefined) continue
      assert.match(text, `"name":"${expected}"`)
      assert.match((await call(expected)).text, 'the secret')
    } finally {
      await shaped.close()
    }
  }
})

test('policies judge a session’s own tool like any other, by its name, its hints and its backend', async () => {
  for (const role of ['proxy', 'gateway'] as const) {
    const guarded = await GuardedGateway.start(
      [{ name: 'u', url: server.url }],
      {
        policies: [
          'permit(principal, action, resource);',
          'forbid(principal, action, resource) when { principal has claim_team && resource has destructiveHint && resource.destructiveHint };',
        ],
      },
      { role },
    )
    try {
      const prefix = role === 'proxy' ? '' : 'u_'
      for (const [claims, isAllowed] of [
        [{ sub: 'a' }, true],
        [{ sub: 'b', team: 'red' }, false],
      ] as const) {
        const session = await openSession(guarded.url, await guarded.bearer(claims))
        const call = (name: string) =>
          post(guarded.url, rpc('tools/call', { name: prefix + name, arguments: {} }), session)
        assert.is((await call('unlock')).status, 200)
        assert.is((await call('secret')).status, isAllowed ? 200 : 403, `${role} ${claims.sub}`)
        const { text } = await post(guarded.url, rpc('tools/list'), session)
        assert.is(text.includes('secret'), isAllowed && role === 'proxy', `${role} ${claims.sub}`)
        assert.is((await call('nothing')).status, 403)
      }
    } finally {
      await guarded.close()
    }
  }
})

test('sessions have their own tools over HTTP+SSE too', async () => {
  const old = await startSseServer()
  const backends: TestConfig['backends'] = [{ name: 'u', url: old.url, transport: 'sse' }]
  const [oldProxy, oldGateway] = [await startGateway({ role: 'proxy', backends }), await startGateway({ backends })]
  try {
    const { client } = await connectV1(oldProxy.url)
    const names = async () => (await client.listTools()).tools.map(({ name }) => name)
    assert.not((await names()).includes('grown'))
    await client.callTool({ name: 'grow', arguments: {} })
    assert.ok((await names()).includes('grown'))
    assert.is(readText(await client.callTool({ name: 'grown', arguments: {} })), 'grown')
    await client.close()
    const session = await openSession(oldGateway.url)
    const call = (name: string) => post(oldGateway.url, rpc('tools/call', { name, arguments: {} }), session)
    assert.is((await call('u_grown')).json.error?.code, -32602)
    await call('u_grow')
    assert.match((await call('u_grown')).text, '"grown"')
  } finally {
    await Promise.all([oldProxy.close(), oldGateway.close()])
    await old.close()
  }
})

test('a lost session is opened again for its list', async () => {
  const session = await openSession(proxy.url)
  const call = (name: string) => post(proxy.url, rpc('tools/call', { name, arguments: {} }), session)
  await call('unlock')
  assert.match((await post(proxy.url, rpc('tools/list'), session)).text, 'secret')
  server.forget()
  assert.not.match((await post(proxy.url, rpc('tools/list'), session)).text, 'secret')
  await call('unlock')
  assert.match((await call('secret')).text, 'the secret')
})

test('rate limits count a session’s own tool under its name', async () => {
  const limited = await startGateway({
    role: 'proxy',
    backends: [{ name: 'u', url: server.url }],
    rateLimiting: { tools: [{ name: 'secret', shared: { maxTokens: 1, refillPeriod: '1h' } }] },
  })
  try {
    const session = await openSession(limited.url)
    const call = (name: string) => post(limited.url, rpc('tools/call', { name, arguments: {} }), session)
    await call('unlock')
    assert.is((await call('secret')).status, 200)
    assert.is((await call('secret')).status, 429)
  } finally {
    await limited.close()
  }
})

test('many concurrent lists in one session cause one or two requests to the server', async () => {
  const session = await openSession(proxy.url)
  await post(proxy.url, rpc('tools/list'), session)
  const before = server.lists
  const answers = await Promise.all(Array.from({ length: 40 }, () => post(proxy.url, rpc('tools/list'), session)))
  assert.ok(answers.every(({ text }) => text.includes('unlock')))
  assert.ok(server.lists - before <= 20, String(server.lists - before))
})

test.run()
