/** What a registry reports: its syncs, and the requests to both of its halves. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/network/otlp-receiver.ts'
import { startRegistry, type TestRegistry } from '../../support/registry/registry.ts'

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

let receiver: OtlpReceiver
let registry: TestRegistry

test.before(async () => {
  receiver = await startOtlpReceiver()
  registry = await startRegistry(
    { own: '{"servers":[]}', broken: '{' },
    {
      telemetry: {
        serviceName: 'catalog',
        openTelemetry: {
          enabled: true,
          endpoint: receiver.url,
          insecure: true,
          tracing: { enabled: true, samplingRate: '1.0' },
          metrics: { enabled: true },
        },
      },
    },
  )
})
test.after(async () => {
  await registry.close()
  await receiver.close()
})

test('syncs and requests are spans and counts, by names of ours alone', async () => {
  const traceparent = SAMPLED
  for (let index = 0; index < 3; index++) await registry.get('/servers?search=hunter2', { traceparent })
  await registry.get('/servers?limit=0', { traceparent })
  assert.is((await fetch(`${registry.url}/v1/sources`, { headers: { traceparent } })).status, 200)
  const requests = await receiver.counted('portico.registry.request.duration', 5)
  const told = requests
    .map(({ attributes, count }) => `${attributes['portico.operation']} ${attributes['error.type'] ?? 'ok'} ${count}`)
    .sort()
  assert.equal(told, ['listServers invalid_request 1', 'listServers ok 3', 'listSources ok 1'])
  const syncs = await receiver.counted('portico.sync.duration', 2)
  assert.equal(
    syncs
      .map(({ attributes }) => [attributes['portico.source'], attributes['error.type'] !== undefined].join(' '))
      .sort(),
    ['broken true', 'own false'],
  )
  await receiver.received(7)
  const servers = receiver.spans.filter(({ kind }) => kind === 2)
  assert.equal(servers.map(({ name, failed }) => `${name} ${failed}`).sort(), [
    'listServers false',
    'listServers false',
    'listServers false',
    'listServers true',
    'listSources false',
  ])
  assert.ok(servers.every(({ parentSpanId }) => parentSpanId === SAMPLED.slice(36, 52)))
  assert.equal(new Set(receiver.spans.map(({ resource }) => resource['service.name'])), new Set(['catalog']))
  assert.not.match(JSON.stringify(receiver.spans), /hunter2/)
})

test.run()
