import type { Redis } from 'ioredis'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { agreeInRedis, SharedKeys } from '../../../../dataplane/gateway/sessions/store/shared-keys.ts'
import { eventually } from '../../../support/eventually.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

let server: RedisServer
let redis: Redis
test.before(async () => {
  server = await startRedis()
  redis = openRedis(server.port, '127.0.0.1')
})
test.before.each(async () => {
  await redis.flushall()
})
test.after(async () => {
  redis.disconnect()
  await server.stop()
})

const replica = (): SharedKeys => {
  const keys = new SharedKeys()
  keys.follow(agreeInRedis(redis, 'x:secret'))
  return keys
}
const readFirst = (keys: SharedKeys) => keys.keysFor('use')[0].toString('hex')
const accepts = (keys: SharedKeys, key: string) => keys.keysFor('use').some((one) => one.toString('hex') === key)
const waitUntilSame = (one: SharedKeys, two: SharedKeys) =>
  eventually('they agree', () => readFirst(one) === readFirst(two))

test('replicas that start at once agree on one key for each use', async () => {
  const all = Array.from({ length: 5 }, replica)
  for (const one of all) await waitUntilSame(one, all[0] as SharedKeys)
  assert.is.not(readFirst(all[0] as SharedKeys), all[0]?.keysFor('another')[0].toString('hex'))
  assert.is(readFirst(all[0] as SharedKeys).length, 64)
})

test('a replica alone has a key at once, and still accepts it after it has found the others', async () => {
  const alone = new SharedKeys()
  const own = readFirst(alone)
  const other = replica()
  await eventually('the secret', async () => (await redis.get('x:secret')) !== null)
  alone.follow(agreeInRedis(redis, 'x:secret'))
  await waitUntilSame(alone, other)
  assert.is.not(readFirst(alone), own)
  assert.ok(accepts(alone, own))
})

test('the first search for a secret ends with an answer, a failure, or no replica to ask', async () => {
  let resolveSecret: (secret: string) => void = () => {}
  const keys = new SharedKeys()
  keys.follow(
    () =>
      new Promise((resolve) => {
        resolveSecret = resolve
      }),
  )
  assert.not(keys.hasAsked)
  resolveSecret('theirs')
  await eventually('it has called', () => keys.hasAsked)
  for (const follow of [undefined, () => Promise.reject(new Error('Redis is away'))]) {
    const others = new SharedKeys()
    others.follow(follow)
    await eventually('it has called', () => others.hasAsked)
  }
})

test('a replaced secret is adopted, and data sealed by the old one is still accepted', async () => {
  const [one, two] = [replica(), replica()]
  await waitUntilSame(one, two)
  const before = readFirst(one)
  await redis.set('x:secret', 'another')
  await Promise.all([one.renew(), two.renew()])
  assert.is.not(readFirst(one), before)
  assert.is(readFirst(one), readFirst(two))
  assert.ok(accepts(one, before) && accepts(two, before))
})

test('a secret that Redis lost is restored by a replica that knows it', async () => {
  const one = replica()
  await eventually('the secret', async () => (await redis.get('x:secret')) !== null)
  await redis.flushall()
  await one.renew()
  const two = replica()
  await waitUntilSame(one, two)
  assert.is(two.keysFor('use').length, 2)
})

test('while Redis is down the last key stays in use', async () => {
  const keys = replica()
  await eventually('the secret', async () => (await redis.get('x:secret')) !== null)
  const before = readFirst(keys)
  keys.follow(() => Promise.reject(new Error('away')))
  await keys.renew()
  assert.is(readFirst(keys), before)
})

test.run()
