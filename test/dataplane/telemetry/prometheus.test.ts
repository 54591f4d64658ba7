/** Tests a gateway's Prometheus endpoint: exact counts, the names of its metrics, and its switch. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { eventually } from '../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../support/gateway/gateway.ts'
import { openSession, post, postModern } from '../../support/gateway/post.ts'
import { startRedis } from '../../support/network/redis-server.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { type Scraped, scrape } from '../../support/telemetry/prometheus-text.ts'

const SLOW_MS = 120
const OPEN_METRICS = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3'

let backend: RawServer
let gateway: GatewayUnderTest | undefined

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('good'), tool('bad'), tool('slow'), tool('secret')],
    call(request, res) {
      const name = request.message.params?.['name']
      if (name === 'bad')
        return `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32000,"message":"no"}}`
      const good = answer(request, '{"resultType":"complete","content":[]}')
      if (name !== 'slow') return good
      const slow = () => res.writeHead(200, { 'content-type': 'application/json' }).end(good)
      setTimeout(slow, SLOW_MS)
      return undefined
    },
  })
})
test.after(() => backend.close())
test.after.each(async () => {
  await gateway?.close()
  gateway = undefined
})

const buildConfig = (telemetry: TelemetrySettings, more: Partial<TestConfig> = {}): TestConfig => ({
  role: 'proxy',
  backends: [{ name: 'it', url: backend.url }],
  telemetry,
  ...more,
})

async function startCounted(config: TestConfig): Promise<GatewayUnderTest> {
  const served = await startGateway(config)
  gateway = served
  await eventually('the tools are there', async () => (await served.status()).backends[0]?.tools === 4)
  return served
}

const call = ({ url }: GatewayUnderTest, name: string) => postModern(url, 'tools/call', { name })

const SERVER = 'mcp_server_operation_duration_seconds'
const CLIENT = 'mcp_client_operation_duration_seconds'
const METHOD = { mcp_method_name: 'tools/call' }

/** Returns the counts of a histogram by these labels and by result. */
function counts({ samples }: Scraped, name: string, by: readonly string[] = ['mcp_method_name']): string[] {
  const sums = new Map<string, number>()
  for (const { labels, value } of samples.filter((sample) => sample.name === `${name}_count`)) {
    const key = [...by.map((label) => labels[label] ?? '-'), labels['error_type'] ?? 'ok'].join(' ')
    sums.set(key, (sums.get(key) ?? 0) + value)
  }
  return [...sums].map(([key, sum]) => `${key} ${sum}`).sort()
}

test('calls, denials, errors and slow answers are exactly these counts and sums, in Prometheus as in OTLP', async () => {
  const receiver = await startOtlpReceiver()
  try {
    const openTelemetry = { enabled: true, endpoint: receiver.url, insecure: true, metrics: { enabled: true } }
    const policies = [
      'permit(principal, action, resource);',
      'forbid(principal, action == Action::"call_tool", resource == Tool::"secret");',
    ]
    const served = await startCounted(
      buildConfig({ prometheus: { enabled: true }, openTelemetry }, { authz: { policies } }),
    )
    for (let index = 0; index < 5; index++) await call(served, 'good')
    for (let index = 0; index < 3; index++) await call(served, 'bad')
    for (let index = 0; index < 2; index++) await call(served, 'slow')
    for (let index = 0; index < 4; index++) await call(served, 'secret')
    for (let index = 0; index < 2; index++) await postModern(served.url, `made/up-${index}`)
    await fetch(served.url, { method: 'POST', headers: { 'content-type': 'text/html' }, body: '{}' })

    const text = await scrape(served.adminUrl)
    assert.equal(counts(text, SERVER), [
      'other method_not_found 2',
      'other unsupported_media_type 1',
      'tools/call _OTHER 3',
      'tools/call forbidden 4',
      'tools/call ok 7',
    ])
    // Refused calls have no tool name, so that strangers can't make series.
    assert.equal(counts(text, SERVER, ['mcp_method_name', 'gen_ai_tool_name']), [
      'other - method_not_found 2',
      'other - unsupported_media_type 1',
      'tools/call - forbidden 4',
      'tools/call bad _OTHER 3',
      'tools/call good ok 5',
      'tools/call slow ok 2',
    ])
    assert.equal(counts(text, CLIENT), ['tools/call _OTHER 3', 'tools/call ok 7'])
    const calls = (name: string) =>
      text.samples
        .filter((sample) => sample.name === 'portico_tool_calls_total' && sample.labels['gen_ai_tool_name'] === name)
        .map(({ labels, value }) => [labels['portico_backend'], labels['error_type'] ?? 'ok', value].join(' '))
    assert.equal(calls('good'), ['it ok 5'])
    assert.equal(calls('bad'), ['it _OTHER 3'])
    assert.equal(calls('slow'), ['it ok 2'])
    assert.equal(calls('secret'), [])
    const countDecisions = (result: string) =>
      text.value('portico_policy_decisions_total', { portico_action: 'call_tool', portico_result: result })
    assert.equal([countDecisions('allowed'), countDecisions('denied')], [10, 4])

    // The slow calls are in the buckets above a tenth of a second, and in the sum.
    const ok = { ...METHOD, portico_backend: 'it' }
    const within = text.samples.find(
      ({ name, labels }) => name === `${CLIENT}_bucket` && labels['le'] === '0.1' && labels['error_type'] === undefined,
    )
    assert.ok((within?.value ?? 6) <= 5, `${within?.value}`)
    const sums = text.samples.filter(
      ({ name, labels }) => name === `${CLIENT}_sum` && labels['error_type'] === undefined,
    )
    assert.is(sums.length, 1)
    assert.ok((sums[0]?.value ?? 0) >= (2 * SLOW_MS) / 1000)
    assert.is(
      text.samples.find(
        ({ name, labels }) =>
          name === `${CLIENT}_bucket` && labels['le'] === '+Inf' && labels['error_type'] === undefined,
      )?.value,
      7,
    )
    assert.is(text.value(`${CLIENT}_count`, { ...ok, error_type: '_OTHER' }), 3)

    // The same numbers, to the last digit.
    const otlp = await receiver.counted('mcp.client.operation.duration', 10)
    const sent = otlp.map(({ attributes, count, sum }) => `${attributes['error.type'] ?? 'ok'} ${count} ${sum}`).sort()
    const scraped = ['_OTHER', undefined].map((error) => {
      const readValue = (suffix: string) =>
        text.samples.find(({ name, labels }) => name === CLIENT + suffix && labels['error_type'] === error)?.value
      return `${error ?? 'ok'} ${readValue('_count')} ${readValue('_sum')}`
    })
    assert.equal(sent, scraped.sort())
    const policy = await receiver.counted('portico.policy.decisions', 14)
    assert.equal(
      policy.filter(({ count }) => count > 0).map(({ attributes, count }) => [attributes['portico.result'], count]),
      [
        ['allowed', 10],
        ['denied', 4],
      ],
    )
    assert.not.match(text.text, /made/)
  } finally {
    await receiver.close()
  }
})

test('without OpenTelemetry both formats have the names of Prometheus', async () => {
  const resourceAttributes = { 'a.b': '1', a_b: 'two"\\\n', __name__: 'x', '': 'y' }
  const served = await startCounted(
    buildConfig({
      serviceName: 'named',
      prometheus: { enabled: true },
      openTelemetry: { enabled: false, resourceAttributes },
    }),
  )
  await call(served, 'good')
  const plain = await scrape(served.adminUrl)
  assert.is(plain.contentType, 'text/plain; version=0.0.4; charset=utf-8')
  const target = plain.samples.find(({ name }) => name === 'target_info')
  assert.is(target?.labels['service_name'], 'named')
  assert.is(target?.labels['a_b'], '1;two\\"\\\\\\n')
  assert.not.match(plain.text, /__name__/)
  for (const name of [
    'portico_sessions',
    'portico_calls_active',
    'portico_memory_held_bytes',
    'portico_config_refused',
    'portico_session_storage_up',
    'process_memory_usage_bytes',
    'nodejs_eventloop_utilization_ratio',
    'nodejs_eventloop_delay_p99_seconds',
    'v8js_memory_heap_used_bytes',
  ])
    assert.type(plain.value(name), 'number', name)
  assert.is(plain.value('portico_backend_health', { portico_backend: 'it', portico_state: 'healthy' }), 1)
  assert.is(plain.value('portico_backend_circuit', { portico_backend: 'it', portico_state: 'open' }), 0)
  assert.is(plain.value('portico_backend_tools', { portico_backend: 'it' }), 4)
  assert.ok((plain.value('process_cpu_time_seconds_total', { cpu_mode: 'user' }) ?? 0) > 0)
  assert.match(plain.text, '# TYPE portico_tool_calls_total counter\n')

  const open = await scrape(served.adminUrl, OPEN_METRICS)
  assert.is(open.contentType, 'application/openmetrics-text; version=1.0.0; charset=utf-8')
  assert.match(open.text, /^# HELP target [^\n]+\n# TYPE target info\ntarget_info\{/)
  assert.match(open.text, '# TYPE portico_tool_calls counter\n')
  assert.match(open.text, `# UNIT ${SERVER} seconds\n`)
  assert.ok(open.text.endsWith('\n# EOF\n'))
  assert.is(open.value(`${SERVER}_count`, METHOD), 1)
})

test('a disabled endpoint is not found; it is switched without a restart, and loses removed backends', async () => {
  const served = await startCounted(buildConfig({ prometheus: { enabled: false } }))
  const status = async () => (await fetch(`${served.adminUrl}/metrics`)).status
  assert.is(await status(), 404)
  await served.configure(buildConfig({ prometheus: { enabled: true } }))
  await eventually('the metrics are served', async () => (await status()) === 200)
  await call(served, 'good')
  assert.is((await scrape(served.adminUrl)).value(`${CLIENT}_count`, METHOD), 1)
  // Counts survive a change of the telemetry settings.
  await served.configure(buildConfig({ prometheus: { enabled: true }, serviceName: 'other' }))
  await eventually('it has another name', async () => /service_name="other"/.test((await scrape(served.adminUrl)).text))
  await call(served, 'good')
  assert.is((await scrape(served.adminUrl)).value(`${CLIENT}_count`, METHOD), 2)

  await served.configure(
    buildConfig({ prometheus: { enabled: true } }, { backends: [{ name: 'another', url: backend.url }] }),
  )
  await eventually('the other backend is there', async () => /"another"/.test((await scrape(served.adminUrl)).text))
  assert.not.match((await scrape(served.adminUrl)).text, /"it"/)
  assert.is((await scrape(served.adminUrl)).value(`${SERVER}_count`, METHOD), 2)
  await served.configure(buildConfig({ prometheus: { enabled: false } }))
  await eventually('the metrics are switched off', async () => (await status()) === 404)
})

test('Redis commands and outages are counted', async () => {
  const redis = await startRedis()
  try {
    const sessionStorage = { redis: { addresses: [redis.address] } }
    const served = await startCounted(buildConfig({ prometheus: { enabled: true } }, { sessionStorage }))
    const readSample = async (error?: string) =>
      (await scrape(served.adminUrl)).samples.find(
        ({ name, labels }) => name === 'db_client_operation_duration_seconds_count' && labels['error_type'] === error,
      )
    await eventually('it has been called', async () => ((await readSample())?.value ?? 0) > 0)
    assert.is((await readSample())?.labels['db_system_name'], 'redis')
    await redis.stop()
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } }
    await eventually('the outage is counted', async () => {
      await fetch(served.url, {
        method: 'POST',
        headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
      })
      return ((await readSample('unavailable'))?.value ?? 0) > 0
    })
  } finally {
    await redis.stop()
  }
})

test('a call counts as one policy decision, also while a backend has never answered', async () => {
  const silent = createServer(() => {
    // Every client that connects has to wait.
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as AddressInfo
  const config = buildConfig({ prometheus: { enabled: true } }, { role: 'gateway' })
  const served = await startGateway({
    ...config,
    backends: [...config.backends, { name: 'silent', url: `http://127.0.0.1:${port}/mcp` }],
    authz: { policies: ['permit(principal, action, resource);'] },
  })
  gateway = served
  try {
    await eventually('the tools are there', async () => (await served.status()).backends[0]?.tools === 4)
    const { json } = await call(served, 'it_good')
    assert.ok(json.result)
    const decided = (await scrape(served.adminUrl)).value('portico_policy_decisions_total', {
      portico_action: 'call_tool',
      portico_result: 'allowed',
    })
    assert.is(decided, 1)
  } finally {
    silent.close()
    silent.closeAllConnections()
  }
})

test('known methods and answers of clients are named; unknown ones are other', async () => {
  const served = await startCounted(buildConfig({ prometheus: { enabled: true } }))
  const session = await openSession(served.url)
  const known = ['initialized', 'cancelled', 'progress', 'roots/list_changed'].map((name) => `notifications/${name}`)
  const before = counts(await scrape(served.adminUrl), SERVER)
  for (const method of [...known, 'notifications/made-up'])
    await post(served.url, JSON.stringify({ jsonrpc: '2.0', method, params: { requestId: 7 } }), session)
  await post(served.url, JSON.stringify({ jsonrpc: '2.0', id: 7, result: {} }), session)
  const after = counts(await scrape(served.adminUrl), SERVER)
  const named = after.filter((line) => !before.includes(line)).map((line) => line.split(' ')[0])
  assert.equal(named.sort(), [...known, 'other', 'response'].sort())
})

test.run()
