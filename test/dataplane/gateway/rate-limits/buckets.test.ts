/**
 * Checks that buckets in memory and in Redis decide alike; those in memory are bounded, those in Redis take one command
 * a call.
 */

import type { Redis } from 'ioredis'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Buckets,
  type Limit,
  Limits,
  MemoryBuckets,
  RedisBuckets,
  userKey,
} from '../../../../dataplane/gateway/rate-limits/rate-limits.ts'
import { connectRedis, PromptRedis, redisKeyPrefix } from '../../../../dataplane/storage/redis.ts'
import { eventually } from '../../../support/eventually.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { createNumbers } from '../../../support/random.ts'

const log = pino({ level: 'silent' })
const MIB = 1024 * 1024
let redis: RedisServer
let plain: Redis
let gateways = 0
const cleanups: (() => unknown)[] = []

test.before(async () => {
  redis = await startRedis()
  plain = openRedis(redis.port)
})
test.after(async () => {
  for (const cleanup of cleanups) cleanup()
  plain.disconnect()
  await redis.stop()
})

function inRedis(prefix = redisKeyPrefix({ kind: 'gateway', namespace: 'a', name: `g${++gateways}` })) {
  const client = connectRedis({ mode: 'standalone', addresses: [redis.address] }, log)
  cleanups.push(() => client.disconnect())
  return new RedisBuckets(new PromptRedis(client), prefix)
}

const inMemory = (now?: () => number, mostBytes = MIB) =>
  new MemoryBuckets(now === undefined ? { mostBytes } : { mostBytes, now })

const bucket = (maxTokens: number, refillPeriod = '24h') => ({ maxTokens, refillPeriod })
const stores: Readonly<Record<string, () => Buckets>> = { memory: inMemory, redis: inRedis }

/** Returns the limits that refuse the call. */
const takeTokens = async (buckets: Buckets, limits: readonly Limit[], user: string) =>
  (await buckets.take(limits, user)).map(({ limit }) => limit.id)

for (const [store, make] of Object.entries(stores)) {
  test(`${store}: buckets shared, per user, per tool, and per tool and user each count their own calls`, async () => {
    const limits = new Limits({
      shared: bucket(7),
      perUser: bucket(4),
      tools: [
        { name: 'a', shared: bucket(3), perUser: bucket(2) },
        { name: 'user', perUser: bucket(1) },
      ],
    })
    const buckets = make()
    const call = (tool: string, user: string) => takeTokens(buckets, limits.forTool(tool), user)
    assert.equal(await call('a', 'u1'), [])
    assert.equal(await call('a', 'u1'), [])
    assert.equal(await call('a', 'u1'), ['user:a'], 'the user’s bucket of the tool')
    assert.equal(await call('a', 'u2'), [])
    assert.equal(await call('a', 'u2'), ['shared:a'], 'the tool’s bucket')
    assert.equal(await call('b', 'u1'), [], 'other tools are not concerned')
    assert.equal(await call('user', 'u1'), [], 'a tool with the name of a bucket has none either')
    assert.equal(await call('b', 'u1'), ['user'], 'the user’s bucket')
    assert.equal(await call('a', 'u1'), ['user', 'shared:a', 'user:a'], 'all empty buckets are named')
    assert.equal(await call('b', 'u3'), [], 'a refused call has taken nothing from the shared bucket')
    assert.equal(await call('b', 'u3'), [])
    assert.equal(await call('b', 'u3'), ['shared'])
    assert.equal(await call('b', 'u4'), ['shared'])
  })

  test(`${store}: a bucket refills up to its size, and says how long that takes`, async () => {
    const { all } = new Limits({ shared: bucket(2, '400ms') })
    const buckets = make()
    for (let round = 0; round < 2; round++) {
      const began = performance.now()
      assert.equal(await takeTokens(buckets, all, 'u'), [])
      assert.equal(await takeTokens(buckets, all, 'u'), [])
      const [empty] = await buckets.take(all, 'u')
      // On a busy machine a token may already have been refilled.
      if (performance.now() - began < 200) assert.ok(empty !== undefined && empty.waitMs > 0 && empty.waitMs <= 200)
      await eventually('a whole period has passed', () => performance.now() > began + 450)
    }
  })

  test(`${store}: another size takes effect at once`, async () => {
    const buckets = make()
    const buildLimits = (maxTokens: number) => new Limits({ shared: bucket(maxTokens) }).all
    assert.equal(await takeTokens(buckets, buildLimits(100), 'u'), [])
    assert.equal(await takeTokens(buckets, buildLimits(2), 'u'), [])
    assert.equal(await takeTokens(buckets, buildLimits(2), 'u'), [])
    assert.equal(await takeTokens(buckets, buildLimits(2), 'u'), ['shared'])
  })

  test(`${store}: a size that does not divide the period is refilled exactly in a whole period`, async () => {
    const buckets = make()
    const { all } = new Limits({ shared: bucket(997, '24h') })
    for (let call = 0; call < 997; call++) assert.equal(await takeTokens(buckets, all, 'u'), [])
    assert.equal(await takeTokens(buckets, all, 'u'), ['shared'])
  })
}

test('both stores take the same decisions over a thousand calls of many users and tools', async () => {
  const limits = new Limits({
    shared: bucket(400),
    perUser: bucket(40),
    tools: [
      { name: 't0', shared: bucket(90) },
      { name: 't1', perUser: bucket(9) },
      { name: 't2', shared: bucket(50), perUser: bucket(5) },
    ],
  })
  const [memory, shared] = [inMemory(), inRedis()]
  const next = createNumbers(7)
  let allowed = 0
  for (let call = 0; call < 1000; call++) {
    const [tool, user] = [`t${next(5)}`, `u${next(12)}`]
    const expected = await takeTokens(memory, limits.forTool(tool), user)
    assert.equal(await takeTokens(shared, limits.forTool(tool), user), expected, `call ${call}`)
    if (expected.length === 0) allowed++
  }
  assert.ok(allowed > 200 && allowed <= 400, `${allowed}`)
})

test('replicas share the buckets in Redis exactly, also under concurrent calls', async () => {
  const prefix = redisKeyPrefix({ kind: 'gateway', namespace: 'a', name: 'shared' })
  const [one, two] = [inRedis(prefix), inRedis(prefix)]
  const { all } = new Limits({ shared: bucket(50), perUser: bucket(40) })
  const calls = Array.from({ length: 200 }, (_, at) => (at % 2 === 0 ? one : two).take(all, `u${at % 3}`))
  assert.is((await Promise.all(calls)).filter((empty) => empty.length === 0).length, 50)
})

test('a call is one command, also after Redis has forgotten the script', async () => {
  const buckets = inRedis()
  const { all } = new Limits({ shared: bucket(50), perUser: bucket(40), tools: [{ name: 't', shared: bucket(9) }] })
  await buckets.take(all, 'u')
  const commands = async () => Number(/total_commands_processed:(\d+)/.exec(await plain.info('stats'))?.[1])
  const before = await commands()
  for (let call = 0; call < 5; call++) assert.equal(await buckets.take(all, 'u'), [])
  // Commands inside a script count as well: TIME, a GET and a SET for each of three buckets. So does the INFO before.
  assert.is((await commands()) - before, 5 * (1 + 1 + 3 * 2) + 1)
  await plain.script('FLUSH')
  for (let call = 0; call < 3; call++) assert.equal(await buckets.take(all, 'u'), [])
  assert.equal(await takeTokens(buckets, all, 'u'), ['shared:t'])
})

test('keys are in one slot, contain no names and expire when their buckets are full', async () => {
  const prefix = redisKeyPrefix({ kind: 'gateway', namespace: 'a', name: 'keys' })
  const { all } = new Limits({ shared: bucket(10, '100s'), perUser: bucket(10, '1000s') })
  await inRedis(prefix).take(all, 'digest')
  const keys = (await plain.keys('portico:{gateway/a/keys}:*')).sort()
  assert.equal(keys, ['portico:{gateway/a/keys}:limit:shared', 'portico:{gateway/a/keys}:limit:user:digest'])
  const [shared, user] = await Promise.all(keys.map((key) => plain.pttl(key)))
  assert.ok(shared !== undefined && shared > 1_000 && shared <= 10_000, `${shared}`)
  assert.ok(user !== undefined && user > 90_000 && user <= 100_000, `${user}`)
})

test('a clock that is set back blocks nobody, and rubbish counts as a full bucket', async () => {
  const prefix = redisKeyPrefix({ kind: 'gateway', namespace: 'a', name: 'clock' })
  const { all } = new Limits({ shared: bucket(2, '1s') })
  const buckets = inRedis(prefix)
  const key = `${prefix}limit:shared`
  const ahead = (Date.now() + 3_600_000) * 1000
  await plain.set(key, `0.5 ${ahead}`, 'PX', 60_000)
  const [empty] = await buckets.take(all, 'u')
  assert.ok(empty !== undefined && empty.waitMs <= 250)
  assert.ok(Number((await plain.get(key))?.split(' ')[1]) < ahead)
  const slow = new Limits({ shared: bucket(2) }).all
  for (const rubbish of ['', 'x', '1', 'nan nan', '-1e99 0', '9e99 1', '1 2 3', '\0']) {
    await plain.set(key, rubbish)
    assert.equal(await takeTokens(buckets, slow, 'u'), [], JSON.stringify(rubbish))
    assert.equal(await takeTokens(buckets, slow, 'u'), [])
    assert.equal(await takeTokens(buckets, slow, 'u'), ['shared'])
  }
})

test('a user is identified by issuer and subject, and all callers without a token are one user', () => {
  const buildKey = (issuer: string, subject: string) =>
    userKey({ kind: 'authenticated', issuer, subject, claims: {}, expiresAt: 0 })
  assert.is(buildKey('https://a.example', 'ada'), buildKey('https://a.example', 'ada'))
  const others = [
    buildKey('https://b.example', 'ada'),
    buildKey('https://a.example', 'bob'),
    buildKey('https://a.examplea', 'da'),
  ]
  assert.is(new Set([buildKey('https://a.example', 'ada'), ...others]).size, 4)
  assert.is(buildKey('https://a.example', 'x'.repeat(1e6)).length, 43)
  assert.is(userKey({ kind: 'anonymous' }), 'anonymous')
})

test('in memory, a hundred thousand users stay within the limit, and no refusal is forgotten', () => {
  let now = 0
  const buckets = inMemory(() => now, 256 * 1024)
  const { all } = new Limits({ perUser: bucket(2, '1h') })
  const take = (user: string) => buckets.take(all, user).length === 0
  const noisy = Array.from({ length: 20 }, (_, at) => `noisy${at}`)
  for (const user of noisy) assert.equal([take(user), take(user), take(user)], [true, true, false])
  for (let user = 0; user < 200_000; user++) take(`hostile${user}`)
  assert.ok(buckets.bytes <= 256 * 1024, `${buckets.bytes}`)
  assert.ok(buckets.size < 2_000)
  for (const user of noisy) assert.is(take(user), false, user)
  assert.is(buckets.isCrowded, false, 'buckets that let calls through make room')

  for (let user = 0; user < 200_000; user++) {
    take(`spent${user}`)
    take(`spent${user}`)
  }
  assert.ok(buckets.bytes <= 256 * 1024 + 1_000, `${buckets.bytes}`)
  for (const user of noisy) assert.is(take(user), false, user)
  assert.is(buckets.isCrowded, true)
  assert.is(take('new'), false, 'a new user shares what is left for new ones, which have spent it')

  now += 3_600_000
  assert.is(take('new'), true, 'full buckets make room')
  assert.is(buckets.isCrowded, false)
  for (const user of noisy) assert.is(take(user), true)
})

test.run()
