/** Tests rate limits of several replicas on one Redis: what they share, and how calls are treated while Redis is down. */

import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Limits, RedisBuckets } from '../../../../dataplane/gateway/rate-limits/rate-limits.ts'
import { connectRedis, PromptRedis, type RedisConfig, redisKeyPrefix } from '../../../../dataplane/storage/redis.ts'
import { eventually } from '../../../support/eventually.ts'
import type { GatewayUnderTest } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { startRedis } from '../../../support/network/redis-server.ts'
import { MASTER_NAME, startCluster, startSentinelSet } from '../../../support/network/redis-sets.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { type Point, startOtlpReceiver } from '../../../support/telemetry/otlp-receiver.ts'
import { unwrap } from '../../../support/unwrap.ts'

const bucket = (maxTokens: number, refillPeriod = '24h') => ({ maxTokens, refillPeriod })

let backend: RawServer
const stage = new RedisStage(test, () => backend.url)
test.before(async () => {
  backend = await startRawServer({
    era: 'both',
    tools: ['{"name":"t","inputSchema":{"type":"object"}}'],
    call: ({ message }) =>
      JSON.stringify({
        jsonrpc: '2.0',
        id: message.id,
        result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] },
      }),
  })
})
test.after(() => backend.close())

const call = (url: string) => postModern(url, 'tools/call', { name: 'b_t', arguments: {} })
const isRefused = ({ json }: RpcAnswer) => json.result.isError === true
const rateLimits = async (gateway: GatewayUnderTest) => unwrap((await gateway.status()).rateLimits)

test('two replicas together allow as many calls as one, for clients of both eras', async () => {
  const [one, two] = await stage.twoReplicas({ rateLimiting: { shared: bucket(20) } })
  const sessions = [await openSession(one.url), await openSession(two.url)]
  const before = backend.calls('tools/call').length
  const legacy = (url: string, session = {}) => post(url, rpc('tools/call', { name: 'b_t', arguments: {} }), session)
  const answers: RpcAnswer[] = []
  // Few at once, because a call whose check takes half a second is made without it.
  for (let round = 0; round < 15; round++)
    answers.push(
      ...(await Promise.all([
        call(one.url),
        call(two.url),
        legacy(one.url, sessions[0]),
        // A session of the other replica.
        legacy(one.url, sessions[1]),
      ])),
    )
  assert.is(answers.filter((answer) => !isRefused(answer)).length, 20)
  assert.is(backend.calls('tools/call').length - before, 20)
  const [a, b] = [await rateLimits(one), await rateLimits(two)]
  assert.is(a.store, 'redis')
  assert.is(a.allowed + b.allowed, 20)
  assert.is(a.refused + b.refused, 40)
})

test('while Redis is down every call is allowed and that is reported, and limits hold again afterwards', async () => {
  const otel = await startOtlpReceiver()
  stage.cleanups.push(() => otel.close())
  const redis = await startRedis()
  stage.cleanups.push(() => redis.stop())
  const [gateway] = await stage.twoReplicas({
    rateLimiting: { shared: bucket(5) },
    sessionStorage: { redis: { addresses: [redis.address] } },
    telemetry: { openTelemetry: { enabled: true, endpoint: otel.url, insecure: true, metrics: { enabled: true } } },
  })
  for (let createdCount = 0; createdCount < 5; createdCount++) assert.is(isRefused(await call(gateway.url)), false)
  assert.is(isRefused(await call(gateway.url)), true)

  let isOver = false
  const answers: RpcAnswer[] = []
  const load = Array.from({ length: 8 }, async () => {
    while (!isOver) answers.push(await call(gateway.url))
  })
  try {
    await eventually('calls under way', () => answers.length > 20)
    await redis.stop()
    await eventually('calls that are let through', () => answers.filter((answer) => !isRefused(answer)).length > 20)
    assert.ok((await rateLimits(gateway)).unchecked > 10)
    const { problems } = await gateway.status()
    assert.ok(
      problems.some(({ code, message }) => code === 'RateLimitsNotKept' && /Redis can’t be reached/.test(message)),
    )
    const again = await startRedis({ port: redis.port })
    stage.cleanups.push(() => again.stop())
    await eventually('limits hold again', async () => isRefused(await call(gateway.url)))
  } finally {
    isOver = true
    await Promise.all(load)
  }
  assert.ok(
    answers.every(({ status, json }) => status === 200 && json.result !== undefined),
    'every call was answered',
  )
  assert.equal(
    (await gateway.status()).problems.filter(({ code }) => code === 'RateLimitsNotKept'),
    [],
  )
  const lines = gateway.lines.filter(({ msg }) => /rate limits/.test(String(msg)))
  assert.equal(
    lines.map(({ msg }) => msg),
    ['rate limits can’t be checked; calls are allowed without a check', 'rate limits are checked again'],
  )
  const hasPoint = (points: readonly Point[], error: string | undefined) =>
    points.some(
      ({ attributes }) => attributes['portico.rate_limit.store'] === 'redis' && attributes['error.type'] === error,
    )
  for (const error of [undefined, 'rate_limited', 'unavailable'])
    await eventually(`the metric with ${error}`, () =>
      hasPoint(otel.metrics.get('portico.rate_limit.duration') ?? [], error),
    )
})

test('a Redis that does not answer delays a call by at most half a second, and later calls not at all', async () => {
  const redis = await startRedis()
  stage.cleanups.push(() => redis.stop())
  const [gateway] = await stage.twoReplicas({
    rateLimiting: { shared: bucket(1) },
    sessionStorage: { redis: { addresses: [redis.address] } },
  })
  assert.is(isRefused(await call(gateway.url)), false)
  redis.signal('SIGSTOP')
  stage.cleanups.push(() => redis.signal('SIGCONT'))
  for (let createdCount = 0; createdCount < 3; createdCount++) assert.is(isRefused(await call(gateway.url)), false)
  redis.signal('SIGCONT')
  await eventually('limits hold again', async () => isRefused(await call(gateway.url)))
})

const { all } = new Limits({ shared: bucket(3), perUser: bucket(2), tools: [{ name: 't', shared: bucket(9) }] })
const log = pino({ level: 'silent' })

async function bucketsIn(config: RedisConfig, name: string): Promise<RedisBuckets> {
  const client = connectRedis(config, log)
  stage.cleanups.push(() => client.disconnect())
  const prefix = redisKeyPrefix({ kind: 'gateway', namespace: 'a', name })
  const buckets = new RedisBuckets(new PromptRedis(client), prefix)
  await eventually('it is connected', () =>
    buckets.take([], 'u').then(
      () => true,
      () => false,
    ),
  )
  return buckets
}

const takeToken = async (buckets: RedisBuckets, user: string) =>
  (await buckets.take(all, user)).map(({ limit }) => limit.id)

async function takesThree(buckets: RedisBuckets): Promise<void> {
  assert.equal(await takeToken(buckets, 'u'), [])
  assert.equal(await takeToken(buckets, 'u'), [])
  assert.equal(await takeToken(buckets, 'u'), ['user'])
  assert.equal(await takeToken(buckets, 'v'), [])
  assert.equal(await takeToken(buckets, 'v'), ['shared'])
}

test('in a Redis Cluster the buckets of one gateway are in one slot, those of many gateways in many', async () => {
  const cluster = await startCluster()
  stage.cleanups.push(() => cluster.close())
  const addresses = cluster.nodes.map(({ address }) => address)
  for (let gateway = 0; gateway < 4; gateway++)
    await takesThree(await bucketsIn({ mode: 'cluster', addresses }, `g${gateway}`))
})

test('behind Sentinel, limits continue at the server that takes over', async () => {
  const set = await startSentinelSet()
  stage.cleanups.push(() => set.close())
  const buckets = await bucketsIn({ mode: 'sentinel', addresses: set.sentinels, masterName: MASTER_NAME }, 'g')
  await takesThree(buckets)
  await set.master.stop()
  const ask = () => takeToken(buckets, 'v').catch(() => undefined)
  let answer: string[] = []
  // Writes that the old server had not replicated may be lost; its last call was long before.
  await eventually('the other server refuses', async () => (answer = (await ask()) ?? []).length > 0)
  assert.ok(answer.includes('shared') || answer.includes('user'))
})

test.run()
