/**
 * Checks a gateway's gauges (requests in progress, backends' state, tokens being checked) for exact values, by
 * Prometheus and by OTLP.
 */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { eventually } from '../../support/eventually.ts'
import { EventReader } from '../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../support/gateway/gateway.ts'
import { GuardedGateway } from '../../support/gateway/guarded.ts'
import { BASE_HEADERS, modern, openSession, post, postModern, rpc } from '../../support/gateway/post.ts'
import { freePort } from '../../support/network/free-port.ts'
import {
  answer,
  OK_RESULT,
  type RawRequest,
  type RawServer,
  startRawServer,
  tool,
} from '../../support/servers/raw-server.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { scrape } from '../../support/telemetry/prometheus-text.ts'

let receiver: OtlpReceiver
let backend: RawServer
/** The pending calls of `held`. */
const open: { readonly request: RawRequest; readonly response: ServerResponse }[] = []
const cleanups: (() => Promise<unknown>)[] = []

test.before(async () => {
  receiver = await startOtlpReceiver()
  backend = await startBackend()
})
test.after(async () => {
  await backend.close()
  await receiver.close()
})
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const startBackend = (port?: number) =>
  startRawServer({
    era: 'both',
    tools: [tool('good'), tool('held')],
    ...(port !== undefined && { port }),
    call(request, response) {
      if (request.message.params?.['name'] === 'good') return answer(request, OK_RESULT)
      open.push({ request, response })
      return undefined
    },
  })

const telemetry = (): TelemetrySettings => ({
  prometheus: { enabled: true },
  openTelemetry: { enabled: true, endpoint: receiver.url, insecure: true, metrics: { enabled: true } },
})

async function start(more: Partial<TestConfig> = {}): Promise<GatewayUnderTest> {
  const backends = [{ name: 'b', url: backend.url }]
  const gateway = await startGateway({ backends, telemetry: telemetry(), ...more })
  cleanups.push(() => gateway.close())
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 2)
  return gateway
}

/** Waits until a metric has exactly these values, as `LABEL… VALUE`, both scraped and exported. */
async function assertReads({ adminUrl }: GatewayUnderTest, metric: string, expected: readonly string[]): Promise<void> {
  const sortWords = (words: readonly unknown[]) => words.map(String).sort().join(' ')
  const line = (labels: Readonly<Record<string, unknown>>, value: number) =>
    sortWords([...Object.values(labels), value])
  const name = metric.replaceAll('.', '_')
  const readScraped = async () =>
    (await scrape(adminUrl)).samples
      .filter((sample) => sample.name === name || sample.name === `${name}_seconds_count`)
      .map(({ labels, value }) => line(labels, value))
  const readSent = async () =>
    (receiver.metrics.get(metric) ?? []).map(({ attributes, count }) => line(attributes, count))
  const wanted = expected.map((one) => sortWords(one.split(' '))).sort()
  for (const read of [readScraped, readSent]) {
    let last: readonly string[] = []
    await eventually(`${metric}: ${wanted}`, async () => {
      last = (await read()).sort()
      return String(last) === String(wanted)
    }).catch((error: Error) => {
      throw new Error(`${error.message}; it is ${last}`, { cause: error })
    })
  }
}

test('sessions, streams and calls are counted while they last', async () => {
  const gateway = await start()
  const sessions = [await openSession(gateway.url), await openSession(gateway.url), await openSession(gateway.url)]
  const [first = {}, second = {}] = sessions
  const streams = [await EventReader.listen(gateway.url, first), await EventReader.listen(gateway.url, second)]
  const { body, headers } = modern('subscriptions/listen', { notifications: { toolsListChanged: true } })
  const init = { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body }
  const listening = await EventReader.open(gateway.url, init)
  const calls = [
    postModern(gateway.url, 'tools/call', { name: 'b_held' }),
    post(gateway.url, rpc('tools/call', { name: 'b_held' }), first),
  ]
  await eventually('both are called', () => open.length === 2)
  await assertReads(gateway, 'portico.sessions', ['3'])
  await assertReads(gateway, 'portico.streams', ['session 2', 'listen 1'])
  await assertReads(gateway, 'portico.calls.active', ['2'])

  for (const { request, response } of open.splice(0))
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, OK_RESULT))
  for (const { status } of await Promise.all(calls)) assert.is(status, 200)
  await assertReads(gateway, 'portico.calls.active', ['0'])
  // Streams of sessions outlive their connections for a while. Then they have no reader; once resumed, they are the
  // same streams.
  for (const reader of [...streams, listening]) await reader.leave()
  await assertReads(gateway, 'portico.streams', ['session 0', 'listen 0'])
  await EventReader.listen(gateway.url, first, streams[0]?.lastId)
  await assertReads(gateway, 'portico.streams', ['session 1', 'listen 0'])
  for (const session of sessions) await fetch(gateway.url, { method: 'DELETE', headers: session })
  await assertReads(gateway, 'portico.sessions', ['0'])
  await assertReads(gateway, 'portico.streams', ['session 0', 'listen 0'])
})

test('a backend and its circuit breaker are in one state each, while it is down and when it is back', async () => {
  const port = await freePort()
  const backends = [
    { name: 'b', url: backend.url },
    { name: 'later', url: `http://127.0.0.1:${port}/mcp` },
  ]
  const gateway = await start({
    backends,
    failureHandling: {
      // Long, so that a busy machine opens no circuit; a failed backend is probed more often.
      healthCheckInterval: '31s',
      healthCheckTimeout: '30s',
      unhealthyThreshold: 1,
      circuitBreaker: { enabled: true, failureThreshold: 1, timeout: '1h' },
    },
  })
  const states = (its: string, ...all: string[]) => [
    ...all.map((state) => `b ${state} ${state === all[0] ? 1 : 0}`),
    ...all.map((state) => `later ${state} ${state === its ? 1 : 0}`),
  ]
  const health = (its: string) => states(its, 'healthy', 'degraded', 'unhealthy', 'unauthenticated', 'unknown')
  const circuit = (its: string) => states(its, 'closed', 'half-open', 'open')
  await assertReads(gateway, 'portico.backend.health', health('unhealthy'))
  await assertReads(gateway, 'portico.backend.circuit', circuit('open'))
  await assertReads(gateway, 'portico.backend.tools', ['b 2', 'later 0'])
  const later = await startBackend(port)
  cleanups.push(() => later.close())
  await assertReads(gateway, 'portico.backend.health', health('healthy'))
  await assertReads(gateway, 'portico.backend.circuit', circuit('closed'))
  await assertReads(gateway, 'portico.backend.tools', ['b 2', 'later 2'])
})

test('token checks are counted by outcome; cached tokens are not', async () => {
  const guarded = await GuardedGateway.start(
    [{ name: 'b', url: backend.url }],
    { policies: ['permit(principal, action, resource);'] },
    { telemetry: telemetry() },
  )
  cleanups.push(() => guarded.close())
  const list = async (headers: Record<string, string>) =>
    (await postModern(guarded.url, 'tools/list', {}, headers)).status
  for (const sub of ['ada', 'bob', 'eve']) {
    const headers = await guarded.bearer({ sub })
    for (let time = 0; time < 3; time++) assert.is(await list(headers), 200)
  }
  const foreign = await guarded.bearer({ sub: 'ada', aud: 'https://elsewhere' })
  for (let time = 0; time < 2; time++) assert.is(await list(foreign), 401)
  assert.is(await list({}), 401)
  await assertReads(guarded.gateway, 'portico.decision.duration', ['authenticate 3', 'authenticate unauthenticated 2'])
})

test.run()
