/** Tests a registry's telemetry: its syncs, and the requests to both of its APIs. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { buildConfig, registryFile, server, startRegistry, type TestRegistry } from '../../support/registry/registry.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { scrape } from '../../support/telemetry/prometheus-text.ts'
import { assertSecured } from '../../support/telemetry/secured-exports.ts'
import { spanTree } from '../../support/telemetry/span-tree.ts'

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

let receiver: OtlpReceiver
let registry: TestRegistry

test.before(async () => {
  receiver = await startOtlpReceiver()
  registry = await startRegistry(
    { own: registryFile([server('a/b'), { name: 'bad' }, server('c/d'), {}, 7]), broken: '{' },
    {
      telemetry: {
        serviceName: 'catalog',
        prometheus: { enabled: true },
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

test('syncs and requests are spans and counts with fixed names', async () => {
  const traceparent = SAMPLED
  for (let index = 0; index < 3; index++) await registry.get('/servers?search=hunter2', { traceparent })
  await registry.get('/servers?limit=0', { traceparent })
  assert.is((await fetch(`${registry.url}/v1/sources`, { headers: { traceparent } })).status, 200)
  const requests = await receiver.counted('portico.registry.request.duration', 5)
  const counts = requests
    .map(({ attributes, count }) => `${attributes['portico.operation']} ${attributes['error.type'] ?? 'ok'} ${count}`)
    .sort()
  assert.equal(counts, ['listServers invalid_request 1', 'listServers ok 3', 'listSources ok 1'])
  const syncs = await receiver.counted('portico.sync.duration', 2)
  assert.equal(
    syncs
      .map(({ attributes }) => [attributes['portico.source'], attributes['error.type'] !== undefined].join(' '))
      .sort(),
    ['broken true', 'own false'],
  )
  await receiver.received(7)
  // A failed source is tried again.
  const first = receiver.spans.find(({ name }) => name === 'broken')
  assert.equal(spanTree(receiver.spans.filter((span) => span === first || span.name !== 'broken')), [
    'internal broken failed error.type=not_json',
    'internal own',
    'server listServers',
    'server listServers',
    'server listServers',
    'server listServers failed error.type=invalid_request',
    'server listSources',
  ])
  const servers = receiver.spans.filter(({ kind }) => kind === 2)
  assert.ok(servers.every(({ parentSpanId }) => parentSpanId === SAMPLED.slice(36, 52)))
  assert.equal(new Set(receiver.spans.map(({ resource }) => resource['service.name'])), new Set(['catalog']))
  assert.not.match(JSON.stringify(receiver.spans), /hunter2/)
  const findSample = (name: string, status: number) => {
    const found = servers.find(
      (span) => span.name === name && span.attributes['http.response.status_code'] === status,
    )?.attributes
    return [found?.['url.path'], found?.['url.scheme'], found?.['http.status_code']]
  }
  const list = '/registry/{registry}/v0.1/servers'
  assert.equal(findSample('listServers', 200), [list, 'http', 200])
  assert.equal(findSample('listServers', 400), [list, 'http', 400])
  assert.equal(findSample('listSources', 200), ['/v1/sources', 'http', 200])
  receiver.spans.length = 0
  const headers = { traceparent }
  const { headers: answered } = await registry.get('/servers', headers)
  await registry.get('/servers', { ...headers, 'if-none-match': answered.get('etag') ?? '' })
  await registry.get('/servers/hunter2%2Fx/versions/1.0.0', headers)
  await fetch(`${registry.url}/v1/sources/hunter2`, { headers })
  await fetch(`${registry.url}/v1/sources/own`, { method: 'PUT', headers, body: '{' })
  const listSpans = () => receiver.spans.filter(({ kind }) => kind === 2)
  await eventually('all spans', () => listSpans().length === 5)
  const statuses = listSpans().map(
    ({ attributes }) => `${attributes['http.response.status_code']} ${attributes['url.path']}`,
  )
  assert.equal(statuses.slice(0, 4), [
    `200 ${list}`,
    `304 ${list}`,
    `404 ${list}/{entry}/versions/{version}`,
    '404 /v1/sources/{source}',
  ])
  assert.match(statuses[4] ?? '', /^4\d\d \/v1\/sources\/\{source\}$/)
  assert.not.match(JSON.stringify(receiver.spans), /hunter2/)
})

test('Prometheus has the same counts, and the state of the sources', async () => {
  const text = await scrape(registry.adminUrl)
  const requests = (labels: Record<string, string>) =>
    text.value('portico_registry_request_duration_seconds_count', labels)
  assert.is(requests({ portico_operation: 'listServers', error_type: 'invalid_request' }), 1)
  assert.is(requests({ portico_operation: 'listSources' }), 1)
  assert.is(text.value('portico_source_entries', { portico_source: 'own', portico_entry_type: 'server' }), 2)
  assert.is(text.value('portico_source_entries_left_out', { portico_source: 'own' }), 3)
  assert.is(text.value('portico_source_entries_left_out', { portico_source: 'broken' }), 0)
  const readLastSuccess = (source: string) =>
    text.value('portico_source_last_success_timestamp_seconds', { portico_source: source })
  assert.ok(Math.abs((readLastSuccess('own') ?? 0) - Date.now() / 1000) < 600)
  assert.is(readLastSuccess('broken'), undefined)
  assert.ok((text.value('portico_source_failures', { portico_source: 'broken' }) ?? 0) > 0)
  assert.is(text.value('portico_source_failures', { portico_source: 'own' }), 0)
  assert.is(text.value('portico_store_up'), 1)
  assert.is(text.value('portico_config_refused'), 0)
  assert.match(text.text, 'service_name="catalog"')
  assert.not.match(text.text, /hunter2/)
})

test('exports go over TLS with a private CA and a secret header, both replaced at run time', async () => {
  const ends: (() => Promise<unknown>)[] = []
  const buildTelemetry = (openTelemetry: object) => ({
    telemetry: { openTelemetry: { enabled: true, ...openTelemetry } },
  })
  try {
    await assertSecured(
      async (openTelemetry, files) => {
        const inConfig = Object.entries(files).map(([name, text]) => [`config/${name}`, text])
        const started = await startRegistry(
          { own: registryFile([]) },
          buildTelemetry(openTelemetry),
          Object.fromEntries(inConfig),
        )
        ends.push(() => started.close())
        return {
          lines: started.log.lines,
          act: () => started.get('/servers'),
          write: (file, text) => started.folder.write(`config/${file}`, text),
          configure: (next) => started.folder.configure(buildConfig({ own: 'own.json' }, buildTelemetry(next))),
        }
      },
      (end) => ends.push(end),
    )
  } finally {
    for (const end of ends.reverse()) await end()
  }
})

test.run()
