import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { BackendFailure } from '../../../../dataplane/gateway/backends/connection/failure.ts'
import { failurePolicy, Health } from '../../../../dataplane/gateway/backends/health/health.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const unreachable = new BackendFailure('backend_unavailable', 'away')
const withStatus = (status: number) => new BackendFailure('backend_failed', `HTTP ${status}`, { status })

const createHealth = (failureHandling: TestConfig['failureHandling']) => {
  const health = new Health()
  health.policy = failurePolicy({ failureHandling })
  return health
}

const repeat = (count: number, act: () => void) => {
  for (let time = 0; time < count; time++) act()
}

test('by default a circuit breaker opens after five failures', () => {
  const health = new Health()
  repeat(4, () => health.failed(unreachable))
  assert.is(health.circuit, 'closed')
  assert.ok(health.mayTry())
  health.failed(unreachable)
  assert.is(health.circuit, 'open')
  assert.not(health.mayTry())
})

test('a configured circuit breaker opens at its own threshold, and a disabled one never', () => {
  const two = createHealth({ circuitBreaker: { enabled: true, failureThreshold: 2, timeout: '1s' } })
  repeat(2, () => two.failed(unreachable))
  assert.is(two.circuit, 'open')
  const off = createHealth({ circuitBreaker: { enabled: false } })
  repeat(100, () => off.failed(unreachable))
  assert.is(off.circuit, 'closed')
  assert.ok(off.mayTry())
})

test('one answer closes the circuit breaker', () => {
  const health = new Health()
  repeat(20, () => health.failed(unreachable))
  health.answered()
  assert.is(health.circuit, 'closed')
  assert.is(health.state, 'healthy')
})

test('half-open lets one call through; if it fails the circuit opens, if it is abandoned another may try', async () => {
  const openFor = (timeout: string) =>
    failurePolicy({
      failureHandling: { circuitBreaker: { enabled: true, failureThreshold: 1, timeout } },
    })
  const health = new Health()
  health.policy = openFor('1ms')
  health.failed(unreachable)
  await eventually('half-open', () => health.circuit === 'half-open')
  assert.ok(health.mayTry())
  assert.not(health.mayTry(), 'the second waits')
  health.abandoned()
  assert.ok(health.mayTry())
  health.policy = openFor('1h')
  health.failed(unreachable)
  assert.not(health.mayTry())
})

test('401 and 429 do not open the circuit', () => {
  const health = new Health()
  repeat(20, () => health.failed(withStatus(401)))
  assert.is(health.state, 'unauthenticated')
  assert.is(health.circuit, 'closed')
  health.answered()
  repeat(20, () => health.failed(withStatus(429)))
  assert.is(health.state, 'healthy')
  assert.is(health.circuit, 'closed')
})

test('a backend is unhealthy after the threshold of failures', () => {
  const health = createHealth({ unhealthyThreshold: 2 })
  health.failed(unreachable)
  assert.is(health.state, 'degraded')
  health.failed(unreachable)
  assert.is(health.state, 'unhealthy')
})

test('failing calls of one caller open the circuit for that caller alone', () => {
  const [one, other] = [{}, {}]
  const broken = withStatus(500)
  const health = new Health()
  repeat(20, () => health.failed(broken, one))
  assert.not(health.mayTry(one))
  assert.ok(health.mayTry(other))
  assert.is(health.state, 'degraded', 'it is not unhealthy either')
  health.failed(broken, other)
  assert.not(health.mayTry(other), 'two have seen it')
  health.answered()
  repeat(5, () => health.failed(unreachable, one))
  assert.not(health.mayTry(other), 'no request of a caller makes a backend unreachable')
  health.answered()
  repeat(4, () => health.failed(broken, one))
  health.failed(broken)
  assert.not(health.mayTry(other), 'the gateway has seen it as well')
})

let closing: (() => Promise<unknown>)[] = []
test.after.each(async () => {
  for (const close of closing.reverse()) await close()
  closing = []
})

async function server(port?: number): Promise<RawServer> {
  const started = await startRawServer({
    era: 'legacy',
    call: (request) => answer(request, OK_RESULT),
    ...(port === undefined ? {} : { port }),
  })
  closing.push(() => started.close().catch(() => {}))
  return started
}

async function gateway(config: TestConfig): Promise<GatewayUnderTest> {
  const started = await startGateway(config)
  closing.push(() => started.close())
  return started
}

const readState = async (of: GatewayUnderTest, name: string) =>
  (await of.status()).backends.find((backend) => backend.name === name)

/** A backend that is briefly slow stays healthy with these. */
const patient = { healthCheckInterval: '3s', healthCheckTimeout: '2900ms', unhealthyThreshold: 1 }
const fast = { healthCheckInterval: '150ms', healthCheckTimeout: '100ms' }

test('the end and the return of a backend are noticed without a call', async () => {
  const one = await server()
  const gw = await gateway({ failureHandling: fast, backends: [{ name: 'one', url: one.url }] })
  await eventually('healthy', async () => (await readState(gw, 'one'))?.health === 'healthy')
  await one.close()
  await eventually('unhealthy', async () => (await readState(gw, 'one'))?.health === 'unhealthy')
  await eventually('the circuit to open', async () => (await readState(gw, 'one'))?.circuit !== 'closed')
  await server(one.port)
  await eventually('healthy again', async () => {
    const { health, circuit } = (await readState(gw, 'one')) ?? {}
    return health === 'healthy' && circuit === 'closed'
  })
  // On a busy machine a health check may exceed its timeout, and the backend is briefly unhealthy.
  const call = () => postModern(gw.url, 'tools/call', { name: 'one_t' })
  await eventually('an answer', async () => (await call()).json.result?.content[0].text === 'ok')
})

for (const era of ['legacy', 'modern'] as const)
  test(`a backend without tools is checked too (${era})`, async () => {
    const start = async (port?: number) => {
      const started = await startRawServer({
        era,
        call: () => undefined,
        before({ message }, res) {
          const { method = '', id } = message
          const results: Record<string, unknown> = {
            initialize: { protocolVersion: '2025-11-25', capabilities: { prompts: {} }, serverInfo: {} },
            ping: {},
            'prompts/list': { prompts: [] },
          }
          if (era === 'modern')
            results['server/discover'] = { supportedVersions: ['2026-07-28'], capabilities: { prompts: {} } }
          if (results[method] === undefined) return false
          res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
          res.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] }))
          return true
        },
        ...(port === undefined ? {} : { port }),
      })
      closing.push(() => started.close().catch(() => {}))
      return started
    }
    const one = await start()
    const gw = await gateway({ failureHandling: fast, backends: [{ name: 'one', url: one.url }] })
    await eventually('healthy', async () => (await readState(gw, 'one'))?.health === 'healthy')
    await one.close()
    await eventually('unhealthy', async () => (await readState(gw, 'one'))?.health === 'unhealthy')
    await start(one.port)
    await eventually('healthy again', async () => (await readState(gw, 'one'))?.health === 'healthy')
  })

test('only calls open the circuit, and then calls fail at once', async () => {
  let broken = true
  const one = await startRawServer({
    era: 'legacy',
    call: (request, res) => {
      if (!broken) return answer(request, OK_RESULT)
      res.writeHead(500).end()
      return undefined
    },
  })
  closing.push(() => one.close())
  const circuitBreaker = { enabled: true, failureThreshold: 3, timeout: '5s' }
  const gw = await gateway({ failureHandling: { circuitBreaker }, backends: [{ name: 'one', url: one.url }] })
  const session = await openSession(gw.url)
  const call = () => post(gw.url, rpc('tools/call', { name: 'one_t', arguments: {} }), session)
  const began = performance.now()
  // The circuit stays open for five seconds, which may be over on a busy machine.
  const isOpen = () => performance.now() - began < 5_000
  for (let time = 0; time < 3; time++) assert.ok((await call()).text.includes('error'))
  const opened = await readState(gw, 'one')
  if (isOpen()) assert.is(opened?.circuit, 'open')
  const before = one.calls('tools/call').length
  for (let time = 0; time < 5; time++) assert.ok((await call()).text.includes('error'))
  if (isOpen()) assert.is(one.calls('tools/call').length, before, 'nothing is sent while it is open')
  broken = false
  await eventually('the circuit to close by one try', async () => (await call()).text.includes('"ok"'))
  assert.is((await readState(gw, 'one'))?.circuit, 'closed')
})

test('another failure policy takes effect on a running gateway without reopening backends', async () => {
  const one = await server()
  const backends = [{ name: 'one', url: one.url }]
  const gw = await gateway({ backends })
  await eventually('the first list', () => one.calls('tools/list').length > 0)
  const before = one.calls('tools/list').length
  await gw.configure({ backends, failureHandling: { healthCheckInterval: '2s', healthCheckTimeout: '1900ms' } })
  await eventually('more lists', () => one.calls('tools/list').length > before + 2)
  assert.is(one.calls('initialize').length, 1)
})

for (const [partialFailureMode, whole] of [
  ['fail', true],
  ['best_effort', false],
] as const)
  test(`partialFailureMode ${partialFailureMode}: a list ${whole ? 'fails' : 'shows the rest'} while a backend is away`, async () => {
    const one = await server()
    const two = await server()
    const gw = await gateway({
      failureHandling: { ...patient, partialFailureMode },
      backends: [
        { name: 'one', url: one.url },
        { name: 'two', url: two.url },
      ],
    })
    const list = () => postModern(gw.url, 'tools/list')
    await eventually('the whole list', async () => (await list()).json.result?.tools.length === 2)
    await two.close()
    await eventually('unhealthy', async () => (await readState(gw, 'two'))?.health === 'unhealthy')
    const { json } = await list()
    assert.is(json.error !== undefined, whole)
    if (whole) assert.is(json.error.message, 'The backend "two" can’t be reached.')
    for (const method of ['prompts/list', 'resources/list', 'resources/templates/list']) {
      const { error } = (await postModern(gw.url, method)).json
      assert.is(error?.message, whole ? 'The backend "two" can’t be reached.' : undefined)
    }
    assert.is((await postModern(gw.url, 'tools/call', { name: 'one_t' })).json.result.content[0].text, 'ok')
    await server(two.port)
    await eventually('the whole list again', async () => (await list()).json.result?.tools.length === 2)
  })

test.run()
