/** Tests servers that can't handle the probe of the modern era. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { BackendConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { connectV1, readText } from '../../../support/gateway/clients.ts'
import { startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { answer, OK_RESULT, type RawServerOptions, startRawServer } from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** For servers that never answer; on a busy machine other servers may exceed these. */
const FAST = { healthCheckInterval: '2s', healthCheckTimeout: '1s' }

async function startBehind(
  before: NonNullable<RawServerOptions['before']>,
  era: 'legacy' | 'modern' | 'both' = 'legacy',
  more: Partial<BackendConfig> = {},
  failureHandling: TestConfig['failureHandling'] = {},
) {
  const server = await startRawServer({
    era,
    call: (request) => answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`),
    before,
  })
  const backends = [{ name: 'b', url: server.url, ...more }]
  const gateway = await startGateway({ role: 'proxy', backends, failureHandling })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  return { server, gateway }
}

const ways: Readonly<Record<string, (res: ServerResponse) => unknown>> = {
  'no answer': () => {},
  'a reset': (res) => res.socket?.destroy(),
  'HTTP 500': (res) => res.writeHead(500).end('oops'),
  'HTTP 503': (res) => res.writeHead(503).end(),
  'HTTP 401': (res) => res.writeHead(401).end(),
  'HTTP 403': (res) => res.writeHead(403).end('no'),
  'HTTP 202': (res) => res.writeHead(202).end(),
  'HTTP 204': (res) => res.writeHead(204).end(),
  'nothing at 200': (res) => res.writeHead(200).end(),
  'a stream that ends': (res) => res.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
}
for (const [way, answerProbe] of Object.entries(ways))
  test(`if a server answers the probe by ${way}, a session is opened`, async () => {
    const { gateway } = await startBehind(
      ({ message }, res) => {
        if (message.method !== 'server/discover') return false
        answerProbe(res)
        return true
      },
      'legacy',
      {},
      way === 'no answer' ? FAST : {},
    )
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const { client } = await connectV1(gateway.url)
    cleanups.push(() => client.close())
    assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
    assert.is((await gateway.status()).backends[0]?.revision, '2025-11-25')
  })

test('a server that supports neither era is reported with its answer', async () => {
  const { gateway } = await startBehind((_request, res) => {
    res.writeHead(403).end()
    return true
  })
  await eventually('the refusal', async () => (await gateway.status()).backends[0]?.health === 'unauthenticated')
  assert.is((await gateway.status()).backends[0]?.latencyMs, null)
})

test('protocolEra session: the server is never probed', async () => {
  const { gateway, server } = await startBehind(() => false, 'both', { protocolEra: 'session' })
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
  assert.is((await gateway.status()).backends[0]?.revision, '2025-11-25')
  assert.is(server.calls('server/discover').length, 0)
})

test('protocolEra stateless: no session is opened, not even for a session client', async () => {
  const { gateway, server } = await startBehind(() => false, 'both', { protocolEra: 'stateless' })
  const { client } = await connectV1(gateway.url)
  cleanups.push(() => client.close())
  assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
  assert.is((await gateway.status()).backends[0]?.revision, '2026-07-28')
  assert.is(server.calls('initialize').length, 0)
})

test('protocolEra stateless: a server that needs sessions is reported', async () => {
  const { gateway } = await startBehind(() => false, 'legacy', { protocolEra: 'stateless' })
  await eventually('the reason', async () =>
    ((await gateway.status()).backends[0]?.lastError?.message ?? '').includes('protocolEra is stateless'),
  )
})

test.run()
