/** Checks that unsent telemetry is bounded and counted, that series are bounded, and that the configured share is sampled. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { telemetryFindings } from '../../../dataplane/config/check/telemetry.ts'
import type { OpenTelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import type { Operation } from '../../../dataplane/telemetry/observe.ts'
import { Telemetry } from '../../../dataplane/telemetry/telemetry.ts'
import { recordLog } from '../../support/kept-log.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'

const REQUEST: Operation = { kind: 'request', name: 'tools/call' }

let receiver: OtlpReceiver
let telemetry: Telemetry

async function start(openTelemetry: OpenTelemetrySettings, spansAfterMs: number): Promise<void> {
  telemetry = new Telemetry({ role: 'gateway', version: '1', log: recordLog().log, metricsEveryMs: 50, spansAfterMs })
  const settings = { enabled: true, endpoint: receiver.url, insecure: true, ...openTelemetry }
  await telemetry.apply({ telemetry: { openTelemetry: settings }, directory: '.', workload: 'w' })
}

test.before.each(async () => {
  receiver = await startOtlpReceiver()
})
test.after.each(async () => {
  await telemetry.close()
  await receiver.close()
})

test('spans that end while 2048 wait are dropped, and are counted', async () => {
  await start({ tracing: { enabled: true, samplingRate: '1.0' } }, 20)
  // All in one turn of the event loop, so that only the first batch can be sent meanwhile.
  for (let index = 0; index < 5000; index++) telemetry.observe(REQUEST).end({ result: 'ok' })
  const { dropped = 0 } = telemetry.status().telemetry?.spans ?? {}
  assert.ok(dropped >= 5000 - 2048 - 512 && dropped <= 5000 - 2048, `${dropped}`)
  await receiver.received(5000 - dropped)
  assert.is(receiver.spans.length, 5000 - dropped)
})

test('five thousand names leave 2000 series, of which one has all the others', async () => {
  await start({ metrics: { enabled: true } }, 20)
  for (let index = 0; index < 5000; index++)
    telemetry.observe({ kind: 'sync', name: `source-${index}` }).end({ result: 'ok' })
  const points = await receiver.counted('portico.sync.duration', 5000)
  assert.is(points.length, 2000)
  const rest = points.find(({ attributes }) => attributes['otel.metric.overflow'] !== undefined)
  assert.is(rest?.count, 5000 - 1999)
  assert.is(telemetry.status().telemetry, undefined)
})

test('a fraction of the traces is sampled, each with all its spans', async () => {
  await start({ tracing: { enabled: true, samplingRate: '0.25' } }, 5)
  const flags = new Map<string, number>()
  for (let index = 0; index < 2000; index++) {
    const request = telemetry.observe(REQUEST)
    const call = telemetry.observe({ kind: 'backend-call', name: 'tools/call' }, { parent: request })
    const readFlag = (text = '') => text.slice(-2)
    assert.is(readFlag(call.trace?.traceparent), readFlag(request.trace?.traceparent))
    assert.is(call.trace?.traceparent.slice(0, 35), request.trace?.traceparent.slice(0, 35))
    flags.set(readFlag(call.trace?.traceparent), (flags.get(readFlag(call.trace?.traceparent)) ?? 0) + 1)
    call.end({ result: 'ok' })
    request.end({ result: 'ok' })
  }
  const sampled = flags.get('01') ?? 0
  assert.is((flags.get('00') ?? 0) + sampled, 2000)
  // The probability of a value outside this range is one in a hundred million.
  assert.ok(sampled > 380 && sampled < 630, `${sampled}`)
})

test('a span that ends twice counts once; values of callers are cut', async () => {
  await start({ tracing: { enabled: true, samplingRate: '1.0' }, metrics: { enabled: true } }, 5)
  const huge = 'x'.repeat(100_000)
  const request = telemetry.observe(REQUEST, { details: () => ({ 'gen_ai.tool.name': huge }), target: () => huge })
  request.end({ result: 'denied', code: 'forbidden' })
  request.end({ result: 'ok' })
  const [span] = await receiver.received(1)
  assert.is(String(span?.attributes['gen_ai.tool.name']).length, 256)
  assert.is(span?.name.length, 256)
  const points = await receiver.counted('mcp.server.operation.duration', 1)
  assert.equal(
    points.map(({ attributes, count }) => [attributes['error.type'], count]),
    [['forbidden', 1]],
  )
})

const wrong: readonly (readonly [OpenTelemetrySettings, string])[] = [
  [{ endpoint: 'ftp://a' }, '/endpoint is not a URL of HTTP'],
  [{ endpoint: 'http://a' }, '/endpoint an http:// endpoint needs insecure: true'],
  [{ endpoint: 'https://u:p@a' }, '/endpoint must hold no credentials: they belong in sensitiveHeaders'],
  [{ endpoint: 'https://a?key=1' }, '/endpoint must have no query and no fragment'],
  [{ endpoint: 'https://a#' }, '/endpoint must have no query and no fragment'],
  [{ headers: { 'a b': '1' } }, '/headers/a b is not a header name'],
  [{ headers: { a: '1\n' } }, '/headers/a is not a header value'],
  [{ headers: { Host: 'x' } }, '/headers/Host this header is set by the exporter itself'],
  [
    { headers: { a: '1' }, sensitiveHeaders: [{ name: 'A', file: 'f' }] },
    '/sensitiveHeaders/0/name this header is set twice',
  ],
  [{ insecure: true, caBundleFile: 'f' }, '/caBundleFile has no use when insecure is true'],
  [{ resourceAttributes: { 'service.name': 'x' } }, '/resourceAttributes/service.name is set by serviceName'],
]

for (const [openTelemetry, says] of wrong)
  test(`refused: ${JSON.stringify(openTelemetry)}`, async () => {
    const found = telemetryFindings({ openTelemetry }, '')
    assert.equal(
      found.map(({ pointer, message }) => `${pointer} ${message}`),
      [`/openTelemetry${says}`],
    )
    assert.equal(telemetryFindings({ openTelemetry: { endpoint: 'collector:4318' } }, ''), [])
  })

test.run()
