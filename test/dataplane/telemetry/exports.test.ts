/** Tests how telemetry is sent: the exported counts, the switches, TLS, secrets, and a receiver that is down. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { eventually } from '../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { assertSecured, SECURED } from '../../support/telemetry/secured-exports.ts'

type OpenTelemetry = NonNullable<TelemetrySettings['openTelemetry']>

interface Counted {
  readonly telemetry: { readonly spans: { readonly sent: number; readonly failed: number; readonly dropped: number } }
}

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const both = { tracing: { enabled: true, samplingRate: '1.0' }, metrics: { enabled: true } }

let backend: RawServer
/** Run after each test, last first. */
let ends: (() => Promise<unknown>)[] = []

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('good'), tool('bad')],
    call: (request) =>
      request.message.params?.['name'] === 'good'
        ? answer(request, '{"resultType":"complete","content":[]}')
        : `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32000,"message":"hunter2"}}`,
  })
})
test.after(async () => {
  await backend.close()
})
test.after.each(async () => {
  for (const end of ends.reverse()) await end()
  ends = []
})

async function startReceiver(): Promise<OtlpReceiver> {
  const receiver = await startOtlpReceiver()
  ends.push(() => receiver.close())
  return receiver
}

const buildConfig = (openTelemetry: OpenTelemetry, more: Omit<TelemetrySettings, 'openTelemetry'> = {}) => ({
  role: 'proxy' as const,
  backends: [{ name: 'it', url: backend.url }],
  telemetry: { ...more, openTelemetry: { enabled: true, ...openTelemetry } },
})

async function startExporting(
  openTelemetry: OpenTelemetry,
  files: Record<string, string> = {},
): Promise<GatewayUnderTest> {
  const gateway = await startGateway(buildConfig(openTelemetry), async (directory) => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  })
  ends.push(() => gateway.close())
  await eventually('the tools are there', async () => (await gateway.status()).backends[0]?.tools === 2)
  return gateway
}

const call = (gateway: GatewayUnderTest, name: string, headers = {}) =>
  postModern(gateway.url, 'tools/call', { name }, headers)

test('a known number of calls, errors and unknown names gives exactly these counts', async () => {
  const receiver = await startReceiver()
  const gateway = await startExporting({ ...both, endpoint: receiver.url, insecure: true })
  for (let index = 0; index < 5; index++) await call(gateway, 'good')
  for (let index = 0; index < 3; index++) await call(gateway, 'bad')
  for (let index = 0; index < 4; index++) await call(gateway, `made-up-${index}`)
  for (let index = 0; index < 2; index++) await postModern(gateway.url, `made/up-${index}`)
  const server = await receiver.counted('mcp.server.operation.duration', 14)
  const counts = (points: typeof server) =>
    points
      .map(({ attributes, count }) =>
        [attributes['mcp.method.name'], attributes['error.type'] ?? 'ok', count].join(' '),
      )
      .sort()
  assert.equal(counts(server), [
    'other method_not_found 2',
    'tools/call _OTHER 3',
    'tools/call ok 5',
    'tools/call unknown_tool 4',
  ])
  const client = await receiver.counted('mcp.client.operation.duration', 8)
  assert.equal(counts(client), ['tools/call _OTHER 3', 'tools/call ok 5'])
  assert.equal([...new Set(client.map(({ attributes }) => attributes['portico.backend']))], ['it'])
  assert.ok(server.every(({ sum, count }) => sum > 0 && sum < count * 10))
  await receiver.received(22)
  assert.is(receiver.spans.length, 22)
  const spans = await receiver.counted('portico.telemetry.spans', 22)
  assert.equal(Object.fromEntries(spans.map(({ attributes, count }) => [attributes['portico.result'], count])), {
    sent: 22,
    failed: 0,
    dropped: 0,
  })
  assert.not.match(JSON.stringify([receiver.spans, ...receiver.metrics]), /hunter2/)
  assert.not.match(JSON.stringify([...receiver.metrics]), /made/)
})

test('each switch sends its own signal, and nothing without an endpoint or when all is off', async () => {
  const receiver = await startReceiver()
  const at = { endpoint: receiver.url, insecure: true }
  const assertSent = async (openTelemetry: OpenTelemetry, ...expected: readonly string[]) => {
    receiver.exports.length = 0
    const gateway = await startExporting(openTelemetry)
    assert.is((await call(gateway, 'good', { traceparent: SAMPLED })).status, 200)
    const paths = () => [...new Set(receiver.exports.map(({ path }) => path))].sort()
    await eventually(expected.join(' and '), () => expected.every((path) => paths().includes(path)))
    // The rest is sent at the end.
    await gateway.close()
    ends.pop()
    assert.equal(paths(), expected)
  }
  await assertSent({ ...both, ...at }, '/v1/metrics', '/v1/traces')
  await assertSent({ ...at, tracing: both.tracing }, '/v1/traces')
  await assertSent({ ...at, metrics: both.metrics }, '/v1/metrics')
  await assertSent({ ...at, tracing: { enabled: false }, metrics: { enabled: false } })
  await assertSent({ ...both, ...at, enabled: false })
  await assertSent(both)
  await assertSent({ ...both, ...at, endpoint: `${receiver.url}/otlp/` }, '/otlp/v1/metrics', '/otlp/v1/traces')
  const withoutScheme = receiver.url.replace('http://', '')
  await assertSent({ ...both, ...at, endpoint: withoutScheme }, '/v1/metrics', '/v1/traces')
})

test('resource attributes, older names and the service name are as configured', async () => {
  const receiver = await startReceiver()
  const settings = { ...both, endpoint: receiver.url, insecure: true, resourceAttributes: { team: 'a' } }
  const gateway = await startExporting({ ...settings, useLegacyAttributes: false })
  await call(gateway, 'good')
  await receiver.received(2)
  const [span] = receiver.spans
  assert.equal([span?.resource['team'], span?.resource['service.name']], ['a', 'test'])
  assert.equal([span?.attributes['mcp.method.name'], span?.attributes['mcp.method']], ['tools/call', undefined])
  await receiver.counted('mcp.server.operation.duration', 1)
  assert.is(receiver.metricsResource['team'], 'a')
})

test('older names are exported unless switched off, and the rate applies if the caller has not decided', async () => {
  const older = [
    'mcp.method',
    'mcp.tool.name',
    'mcp.request.id',
    'http.method',
    'http.user_agent',
    'mcp.transport',
    'rpc.system',
  ]
  const sendSpans = async (more: OpenTelemetry, count = 10) => {
    const receiver = await startReceiver()
    const gateway = await startExporting({ ...both, endpoint: receiver.url, insecure: true, ...more })
    for (let index = 0; index < 5; index++) await call(gateway, 'good')
    await receiver.received(count)
    await gateway.close()
    ends.pop()
    return receiver.spans
  }
  const names = (spans: readonly ReceivedSpan[]) =>
    older.filter((name) => spans.some(({ kind, attributes }) => kind === 2 && name in attributes))
  const [unset, on, off] = [
    await sendSpans({}),
    await sendSpans({ useLegacyAttributes: true }),
    await sendSpans({ useLegacyAttributes: false }),
  ]
  assert.equal([unset.length, on.length, off.length], [10, 10, 10])
  assert.equal([names(unset), names(on), names(off)], [older, older, []])
  assert.equal(await sendSpans({ tracing: { enabled: true, samplingRate: '0.0' } }, 0), [])
})

test('another endpoint is used without a restart, and telemetry that is switched off ends', async () => {
  const [first, second] = [await startReceiver(), await startReceiver()]
  const gateway = await startExporting({ ...both, endpoint: first.url, insecure: true })
  await call(gateway, 'good')
  await first.received(2)
  await gateway.configure(buildConfig({ ...both, endpoint: second.url, insecure: true }, { serviceName: 'moved' }))
  await eventually('spans at the other endpoint', async () => {
    await call(gateway, 'good')
    return second.spans.length > 0
  })
  assert.is(second.spans[0]?.resource['service.name'], 'moved')
  const { config } = await gateway.status()
  await gateway.configure(buildConfig({ ...both, enabled: false }))
  await eventually('it is switched off', async () => !('telemetry' in (await gateway.status())))
  assert.is.not((await gateway.status()).config, config)
})

test('exports go over TLS with a private CA and a secret header, both replaced at run time', async () => {
  const { sender, receiver } = await assertSecured(
    async (openTelemetry, files) => {
      const gateway = await startExporting(openTelemetry, files)
      return {
        ...gateway,
        act: () => call(gateway, 'good'),
        write: (file: string, text: string) => writeFile(join(gateway.directory, file), text),
        configure: (next: OpenTelemetry) => gateway.configure(buildConfig(next)),
      }
    },
    (end) => ends.push(end),
  )

  // With invalid files nothing is sent, and the gateway survives the end of the connections.
  const countFailed = async () => ((await sender.status()) as unknown as Counted).telemetry.spans.failed
  const failOnce = async () => {
    const before = await countFailed()
    await eventually('an export fails', async () => {
      await sender.act()
      return (await countFailed()) > before
    })
    // One export that was in progress with valid files may still succeed.
    await eventually('all of them fail', async () => {
      const [sent, already] = [receiver.exports.length, await countFailed()]
      await eventually('another one fails', async () => {
        await sender.act()
        return (await countFailed()) > already + 2
      })
      return receiver.exports.length === sent
    })
  }
  await sender.write(SECURED.token, 'line\r\nbreak: x')
  await failOnce()
  await sender.write(SECURED.token, 'two')
  await sender.write(SECURED.ca, '-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----')
  await failOnce()
  await rm(join(sender.directory, SECURED.ca))
  await failOnce()
  await receiver.close()
  assert.is((await sender.act()).status, 200)
})

test('an endpoint that is down or refuses does not affect calls; lost telemetry is counted', async () => {
  const receiver = await startReceiver()
  const gateway = await startExporting({ ...both, endpoint: receiver.url, insecure: true })
  receiver.status = 400
  for (let index = 0; index < 10; index++) assert.is((await call(gateway, 'good')).status, 200)
  const spans = async () => ((await gateway.status()) as unknown as Counted).telemetry.spans
  await eventually(
    'they are counted',
    async () => JSON.stringify(await spans()) === '{"sent":0,"failed":20,"dropped":0}',
  )
  receiver.status = 200
  await call(gateway, 'good')
  await receiver.received(2)
  await eventually('it is reported', () => gateway.lines.some(({ msg }) => /accepts telemetry again/.test(String(msg))))
  await receiver.close()
  ends.shift()
  assert.is((await call(gateway, 'good')).status, 200)
})

test.run()
