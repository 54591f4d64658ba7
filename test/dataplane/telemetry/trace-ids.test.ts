import { ROOT_CONTEXT } from '@opentelemetry/api'
import { TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { sampledBelow, TraceIds, traceIn } from '../../../dataplane/telemetry/sdk/spans.ts'

/** More than three times the number that is generated at once. */
const COUNT = 1_000

test('ids do not repeat, and each is valid in W3C Trace Context', () => {
  const ids = new TraceIds()
  const traces = Array.from({ length: COUNT }, () => ids.next())
  for (const { traceparent } of traces) assert.match(traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
  assert.is(new Set(traces.map(({ traceparent }) => traceIn(traceparent))).size, COUNT)
  const spans = [...traces.map(({ traceparent }) => traceparent.slice(36, 52)), ...Array.from(traces, () => ids.span())]
  for (const span of spans) assert.match(span, /^[0-9a-f]{16}$/)
  assert.is(new Set(spans).size, 2 * COUNT)
})

test('the sampled traces are those that the SDK would sample', () => {
  const ids = new TraceIds()
  const sampler = new TraceIdRatioBasedSampler(0.25)
  const limit = sampledBelow(0.25)
  for (let index = 0; index < COUNT; index++) {
    const { traceparent, share } = ids.next()
    const { decision } = sampler.shouldSample(ROOT_CONTEXT, traceIn(traceparent))
    assert.is(share < limit, decision === 2, traceparent)
  }
})

test.run()
