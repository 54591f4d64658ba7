/** Checks that series are bounded and expire: by number, by time, with their backend, and for each backend separately. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Family } from '../../../dataplane/telemetry/metrics/family.ts'
import { Metrics } from '../../../dataplane/telemetry/metrics/metrics.ts'
import { Durations } from '../../../dataplane/telemetry/metrics/own.ts'
import { prometheusText } from '../../../dataplane/telemetry/metrics/prometheus.ts'
import type { Operation } from '../../../dataplane/telemetry/observe.ts'
import { parseScrape } from '../../support/telemetry/prometheus-text.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const OK = { result: 'ok' } as const

const buildCall = (backend: string, tool: string): Operation => ({
  kind: 'backend-call',
  name: 'tools/call',
  attributes: { 'portico.backend': backend },
  tool,
})

/** Starts metrics with a clock and backends that the test controls. */
function start(backends: string[] = ['a', 'b']) {
  const clock = { now: 0 }
  const readKnown = () => ({ readings: [], known: new Map([['portico.backend', new Set(backends)]]) })
  const metrics = new Metrics([readKnown], () => clock.now)
  return { clock, metrics, durations: new Durations('gateway', metrics) }
}

const countSeries = (family: Family): number => ('points' in family ? family.points : family.series).length
const read = (metrics: Metrics) => parseScrape(prometheusText(metrics.read(), {}).text)
const TOOLS = 'portico_tool_calls_total'

test('a hundred thousand tools and names leave a limited number of series, and none a day later', () => {
  const { clock, metrics, durations } = start()
  let most = 0
  let last = ''
  for (let index = 0; index < 100_000; index++) {
    last = `tool-${index}`
    durations.record(buildCall(index % 2 === 0 ? 'a' : 'b', last), OK, 1)
    durations.record({ kind: 'sync', name: `source-${index}` }, OK, 1)
    durations.record({ kind: 'exchange', name: `user-${index}` }, OK, 1)
    clock.now = (index * DAY) / 100_000
    if (index % 350 === 0) most = Math.max(most, ...metrics.read().map(countSeries))
  }
  assert.ok(most <= 2_000, `${most}`)
  const text = read(metrics)
  // A new series has room, since unused ones were removed.
  assert.is(text.value(TOOLS, { gen_ai_tool_name: last }), 1)
  assert.is(text.value('mcp_client_operation_duration_seconds_count', { portico_backend: 'a' }), 50_000)
  clock.now += DAY
  metrics.read()
  durations.record(buildCall('a', 'still'), OK, 1)
  const left = read(metrics).samples.filter(({ name, labels }) => name === TOOLS && !('otel_metric_overflow' in labels))
  assert.equal(
    left.map(({ labels }) => labels['gen_ai_tool_name']),
    ['still'],
  )
})

test('a backend with many tools does not affect another, and all its calls are counted', () => {
  const { metrics, durations } = start()
  for (let index = 0; index < 5_000; index++) durations.record(buildCall('a', `tool-${index}`), OK, 1)
  durations.record(buildCall('b', 'one'), OK, 1)
  const text = read(metrics)
  assert.is(text.value(TOOLS, { portico_backend: 'b', gen_ai_tool_name: 'one' }), 1)
  assert.is(text.value(TOOLS, { otel_metric_overflow: 'true' }), 4_500)
  assert.is(text.samples.filter(({ name }) => name === TOOLS).length, 502)
})

test('requests are counted by tool or prompt; many of them do not affect other methods', () => {
  const { metrics, durations } = start()
  const request = (name: string) => ({ kind: 'request', name }) as const
  const [toolCall, promptGet, list] = [request('tools/call'), request('prompts/get'), request('tools/list')]
  for (let index = 0; index < 10_000; index++) durations.record(toolCall, OK, 1, `tool-${index}`)
  durations.record(toolCall, { result: 'error', code: 'tool_error' }, 1, 'tool-7')
  durations.record(toolCall, OK, 1, 'tool-7')
  durations.record(promptGet, OK, 1, 'greet')
  durations.record(list, OK, 1, 'no-target-of-its')
  const text = read(metrics)
  const name = 'mcp_server_operation_duration_seconds_count'
  assert.is(text.value(name, { mcp_method_name: 'tools/call', gen_ai_tool_name: 'tool-7' }), 2)
  assert.is(text.value(name, { mcp_method_name: 'prompts/get', gen_ai_prompt_name: 'greet' }), 1)
  const [listed] = text.samples.filter(
    (sample) => sample.name === name && sample.labels['mcp_method_name'] === 'tools/list',
  )
  assert.equal([listed?.labels, listed?.value], [{ mcp_method_name: 'tools/list' }, 1])
  const counted = text.samples.filter((sample) => sample.name === name)
  assert.is(
    counted.reduce((sum, { value }) => sum + value, 0),
    10_004,
  )
  assert.ok(counted.length <= 1_503, `${counted.length}`)
})

test('series of a removed backend end; calls that end later, and its return, begin new ones', () => {
  const backends = ['a', 'b']
  const { metrics, durations } = start(backends)
  const [a, b] = [buildCall('a', 't'), buildCall('b', 't')]
  for (const operation of [a, a, b]) durations.record(operation, OK, 1)
  assert.is(read(metrics).value(TOOLS, { portico_backend: 'a' }), 2)
  backends.shift()
  assert.is(read(metrics).value(TOOLS, { portico_backend: 'a' }), undefined)
  durations.record(a, OK, 1)
  assert.is(read(metrics).value(TOOLS, { portico_backend: 'a' }), undefined)
  backends.push('a')
  durations.record(a, OK, 1)
  assert.is(read(metrics).value(TOOLS, { portico_backend: 'a' }), 1)
  assert.is(read(metrics).value(TOOLS, { portico_backend: 'b' }), 1)
})

test('sums and buckets are exact', () => {
  const { metrics, durations } = start()
  const times = [5, 10, 10.5, 250, 2_000, 400_000]
  for (const ms of times) durations.record(buildCall('a', 't'), OK, ms)
  durations.record(buildCall('a', 't'), { result: 'error', code: 'backend_timeout' }, 30_000)
  const text = read(metrics)
  const name = 'mcp_client_operation_duration_seconds'
  const buckets = text.samples
    .filter((sample) => sample.name === `${name}_bucket` && sample.labels['error_type'] === undefined)
    .map(({ labels, value }) => `${labels['le']} ${value}`)
  assert.equal(buckets, [
    ...['0.01 2', '0.02 3', '0.05 3', '0.1 3', '0.2 3', '0.5 4', '1 4', '2 5', '5 5', '10 5'],
    ...['30 5', '60 5', '120 5', '300 5', '+Inf 6'],
  ])
  const sum = text.samples.find((sample) => sample.name === `${name}_sum` && sample.labels['error_type'] === undefined)
  assert.is(
    sum?.value,
    times.reduce((total, ms) => total + ms / 1000, 0),
  )
  assert.is(text.value(`${name}_count`, { error_type: 'backend_timeout' }), 1)
  assert.is(text.value(TOOLS, { error_type: 'backend_timeout' }), 1)
})

test.run()
