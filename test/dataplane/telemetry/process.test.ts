/** Compares the process metrics that Prometheus scrapes with those of the same process, which is the test's own. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../support/gateway/gateway.ts'
import { type Scraped, scrape } from '../../support/telemetry/prometheus-text.ts'

const MIB = 1024 * 1024
const MEMORY = 1024 * MIB

let gateway: GatewayUnderTest

test.before(async () => {
  const config = { backends: [], telemetry: { prometheus: { enabled: true } } }
  gateway = await startGateway(config, undefined, undefined, undefined, MEMORY)
})
test.after(() => gateway?.close())

const readValue = (text: Scraped, name: string): number => {
  const value = text.value(name)
  assert.type(value, 'number', name)
  return value as number
}

test('callers may hold three sixteenths of the memory, with an eighth of that in reserve', async () => {
  const text = await scrape(gateway.adminUrl)
  assert.is(readValue(text, 'portico_memory_limit_bytes'), (MEMORY / 16) * 3 * (1 + 1 / 8))
})

test('the uptime is measured when it is read', async () => {
  for (let time = 0; time < 2; time++) {
    const before = process.uptime()
    const uptime = readValue(await scrape(gateway.adminUrl), 'process_uptime_seconds')
    const after = process.uptime()
    assert.ok(before <= uptime && uptime <= after, `${before} ≤ ${uptime} ≤ ${after}`)
  }
})

const DELAY = 'nodejs_eventloop_delay'
const LATE_S = 0.04

/** Returns the event loop delays since the last scrape. */
async function delays(): Promise<{ readonly p50: number; readonly p99: number; readonly max: number }> {
  const text = await scrape(gateway.adminUrl)
  const [p50, p99, max] = ['p50', 'p99', 'max'].map((of) => readValue(text, `${DELAY}_${of}_seconds`)) as [
    number,
    number,
    number,
  ]
  // Percentiles come from buckets, with an error of up to a thousandth.
  assert.ok(p50 <= p99 * 1.01 && p99 <= max * 1.01, `${p50} ≤ ${p99} ≤ ${max}`)
  return { p50, p99, max }
}

/** Blocks the event loop. */
function block(seconds: number): void {
  const end = performance.now() + seconds * 1000
  while (performance.now() < end) {
    // Nothing else runs.
  }
}

test('p50 of the event loop’s delay is high if most turns are late, and not after a single one', async () => {
  await eventually('most turns are late', async () => {
    for (let turn = 0; turn < 20; turn++) {
      block(2 * LATE_S)
      await nextTurn()
    }
    return (await delays()).p50 >= LATE_S
  })
  await eventually('one turn of many is late', async () => {
    block(2 * LATE_S)
    await new Promise((resolve) => setTimeout(resolve, 10 * LATE_S * 1000))
    const { p50, max } = await delays()
    return p50 < LATE_S && max >= LATE_S
  })
})

test.run()
