import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { type SseServer, startSseServer } from '../../../support/servers/sse-server.ts'

let server: SseServer
let gateway: GatewayUnderTest

// Tests that count streams come before those that cut them: the gateway opens its own stream again at a random time.
test.before(async () => {
  server = await startSseServer()
  gateway = await startGateway({
    failureHandling: { healthCheckInterval: '1h' },
    backends: [{ name: 'old', transport: 'sse', url: server.url, headers: { authorization: 'Bearer hush' } }],
  })
})

test.after(async () => {
  await gateway.close()
  await server.close()
})

const echo = async (url: string, era: 'modern' | 'legacy', message = 'hi') => {
  const { client } = await connect(url, era)
  try {
    return readText(await client.callTool({ name: 'old_echo', arguments: { message } }))
  } finally {
    await client.close()
  }
}

type Connected = Awaited<ReturnType<typeof connectV1>> | Awaited<ReturnType<typeof connect>>
type ClientV1 = Awaited<ReturnType<typeof connectV1>>['client']
type Call = (message?: string) => Promise<unknown>

/** Ends a session and waits until its streams have ended: the next test counts only its own. */
async function end({ client, transport }: Connected, before: number): Promise<void> {
  await transport.terminateSession()
  await client.close()
  await eventually('the streams of the session to end', () => server.streams <= before)
}

/** Runs `work` with a call of `echo`, which returns its text, in a session of its own. */
async function inSession(work: (call: Call, client: ClientV1) => Promise<void>): Promise<void> {
  const before = server.streams
  const connected = await connectV1(gateway.url)
  const call: Call = async (message = 'again') =>
    readText(await connected.client.callTool({ name: 'old_echo', arguments: { message } }))
  try {
    await work(call, connected.client)
  } finally {
    await end(connected, before)
  }
}

for (const era of ['modern', 'legacy'] as const)
  test(`${era} client: lists, calls and gets progress`, async () => {
    const before = server.streams
    const connected = await connect(gateway.url, era)
    const { client } = connected
    assert.ok((await client.listTools()).tools.some(({ name }) => name === 'old_echo'))
    assert.is(readText(await client.callTool({ name: 'old_echo', arguments: { message: 'hi' } })), 'hi')
    const seen: number[] = []
    const onprogress = ({ progress }: { progress: number }) => void seen.push(progress)
    await client.callTool({ name: 'old_steps', arguments: { count: 3 } }, { onprogress } as never)
    await eventually('progress', () => seen.length === 3)
    if (era === 'legacy') await end(connected, before)
    else await client.close()
  })

test('every request carries the configured headers', () => {
  assert.ok(server.seen.some((line) => line.startsWith('GET')))
  assert.equal([...new Set(server.seen.map((line) => line.replace(/^\w+ /, '')))].sort(), [
    '/messages Bearer hush',
    '/sse Bearer hush',
  ])
})

test('each session has a stream of its own, which ends with it', async () => {
  const before = server.streams
  const { client, transport } = await connectV1(gateway.url)
  await client.callTool({ name: 'old_echo', arguments: { message: 'a' } })
  assert.is(server.streams, before + 1)
  await transport.terminateSession()
  await client.close()
  await eventually('the stream to end', () => server.streams === before)
})

for (const status of [400, 401, 410, 422, 500])
  test(`a session that a server forgot while its stream is open (HTTP ${status}) is opened again`, () =>
    inSession(async (call) => {
      assert.is(await call(), 'again')
      const { streams } = server
      server.forgottenStatus = status
      server.forget()
      const first = await call().catch(() => 'refused')
      assert.is(first, [400, 401, 410].includes(status) ? 'again' : 'refused')
      assert.is(await call(), 'again', 'the next call')
      await eventually('no stream is left behind', () => server.streams === streams)
      server.forgottenStatus = 404
    }))

test('a JSON-RPC error in the HTTP answer to a posted message is passed to callers', () =>
  inSession(async (call) => {
    await call()
    server.refusal = { code: -32050, message: 'The disk is full.' }
    const refusal = (await call().catch((error) => error)) as { code: number; message: string }
    server.refusal = undefined
    assert.is(refusal.code, -32050)
    assert.match(refusal.message, 'The disk is full.')
    assert.is(await call(), 'again')
  }))

test('if the server refuses `initialize`, the stream is closed', () =>
  inSession(async (_call, client) => {
    const { streams } = server
    server.forgottenStatus = 500
    server.isForgetful = true
    try {
      const called = await client.callTool({ name: 'old_echo', arguments: { message: 'a' } }).catch((error) => error)
      assert.is(called.isError ?? called instanceof Error, true, JSON.stringify(called))
      await eventually('the stream to end', () => server.streams === streams, 10_000)
    } finally {
      server.forgottenStatus = 404
      server.isForgetful = false
    }
  }))

test('ended streams and forgotten sessions are reopened without a failed call', () =>
  inSession(async (call) => {
    assert.is(await call(), 'again')
    server.forget()
    assert.is(await call(), 'again')
    server.cut()
    await eventually('all streams have ended', () => server.streams === 0)
    await eventually('the next call', () =>
      call().then(
        (text) => text === 'again',
        () => false,
      ),
    )
  }))

test('the modern era works over cut streams', async () => {
  server.cut()
  await eventually('the next call', () =>
    echo(gateway.url, 'modern').then(
      (text) => text === 'hi',
      () => false,
    ),
  )
})

test('a refused credential is reported as such', async () => {
  server.token = 'Bearer other'
  server.cut()
  await eventually('the backend is unauthenticated', async () => {
    await echo(gateway.url, 'legacy').catch(() => {})
    return (await gateway.status()).backends[0]?.health === 'unauthenticated'
  })
  server.token = undefined
})

test('an endpoint of another origin gets nothing', async () => {
  let stolen = 0
  const thief = createServer((_req, res) => {
    stolen++
    res.writeHead(202).end()
  })
  await new Promise<void>((resolve) => thief.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(thief.address() as AddressInfo).port}/take`
  const bad = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write(`event: endpoint\ndata: ${endpoint}\n\n`)
  })
  await new Promise<void>((resolve) => bad.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(bad.address() as AddressInfo).port}/sse`
  const lone = await startGateway({ backends: [{ name: 'old', transport: 'sse', url }] })
  await eventually('the refusal', async () => {
    const { backends } = await lone.status()
    return backends[0]?.lastError?.message === 'named an endpoint of another origin'
  })
  assert.is(stolen, 0)
  await lone.close()
  for (const one of [thief, bad]) {
    one.closeAllConnections()
    await new Promise((resolve) => one.close(resolve))
  }
})

test('server-everything over SSE', async () => {
  const port = await freePort()
  const script = fileURLToPath(
    new URL('../../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
  )
  const child = spawn(process.execPath, [script, 'sse'], {
    env: { ...process.env, PORT: String(port) },
    stdio: 'ignore',
  })
  const lone = await startGateway({
    backends: [{ name: 'old', transport: 'sse', url: `http://127.0.0.1:${port}/sse` }],
  })
  try {
    await eventually('it answers', () =>
      echo(lone.url, 'modern', 'x').then(
        (text) => text === 'Echo: x',
        () => false,
      ),
    )
    assert.is(await echo(lone.url, 'legacy', 'y'), 'Echo: y')
  } finally {
    await lone.close()
    child.kill('SIGKILL')
  }
})

test.run()
