/** Tests the contract of both stores of upstream tokens, and what is specific to each. */
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PublicError } from '../../../dataplane/server/errors.ts'
import { connectRedis, redisKeyPrefix } from '../../../dataplane/storage/redis.ts'
import {
  createMemoryTokenStore,
  createRedisTokenStore,
  loginOf,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from '../../../dataplane/upstream-tokens/index.ts'
import { eventually } from '../../support/eventually.ts'
import { recordLog } from '../../support/kept-log.ts'
import { connectPatiently } from '../../support/network/redis-client.ts'
import { type RedisServer, startRedis } from '../../support/network/redis-server.ts'

const SECRET = 'a secret that is longer than thirty-two bytes'
const LIFE = { ttlMs: 60_000 }
const PREFIX = redisKeyPrefix({ kind: 'gateway', namespace: 'team', name: 'demo' })

let redis: RedisServer
const clients: { disconnect(): void }[] = []
test.before(async () => {
  redis = await startRedis()
})
test.after(async () => {
  for (const client of clients) client.disconnect()
  await redis.stop()
})

const connect = () => {
  const client = connectPatiently(redis.address)
  clients.push(client)
  return client
}
const inRedis = (secrets = [SECRET], prefix = PREFIX) =>
  createRedisTokenStore({ client: connect(), prefix, secrets: () => secrets })
const stores: Readonly<Record<string, () => UpstreamTokenStore>> = {
  memory: () => createMemoryTokenStore(),
  redis: () => inRedis(),
}

let logins = 0
const place = (provider = 'github', login = `login-${++logins}`) => ({ login, provider })
const tokens = (more: Partial<UpstreamTokenSet> = {}): UpstreamTokenSet => ({
  owner: 'alice',
  subject: 'alice@github',
  accessToken: 'the-access-token-of-alice',
  refreshToken: 'the-refresh-token-of-alice',
  idToken: 'the-id-token-of-alice',
  expiresAt: 1_900_000_000_000,
  scopes: ['repo', 'read:user'],
  ...more,
})

for (const [name, open] of Object.entries(stores)) {
  test(`${name}: a token set is read unchanged, by its own login and provider alone`, async () => {
    const store = open()
    const at = place()
    const version = await store.put(at, tokens(), LIFE)
    assert.equal(await store.get(at), { ...tokens(), version })
    assert.is(await store.get({ ...at, provider: 'gitlab' }), undefined)
    assert.is(await store.get({ ...at, login: `${at.login}x` }), undefined)
    const least = { owner: 'bob', subject: 'b', accessToken: 't' }
    const other = place('gitlab')
    const stored = await store.put(other, least, LIFE)
    assert.equal(await store.get(other), { ...least, version: stored })
  })

  test(`${name}: of two concurrent replacements one succeeds, and a removed set does not come back`, async () => {
    const store = open()
    const at = place()
    const first = await store.put(at, tokens(), LIFE)
    const replace = (accessToken: string) => store.put(at, tokens({ accessToken }), { ...LIFE, replaces: first })
    const outcomes = await Promise.all([replace('one'), replace('another')])
    assert.is(outcomes.filter((version) => version !== undefined).length, 1)
    const won = outcomes[0] === undefined ? 'another' : 'one'
    assert.is((await store.get(at))?.accessToken, won)
    assert.is(await replace('late'), undefined)
    await store.removeLogin(at.login)
    assert.is(await store.put(at, tokens(), { ...LIFE, replaces: outcomes.find(Boolean) }), undefined)
    assert.is(await store.get(at), undefined)
    assert.ok(await store.put(at, tokens({ accessToken: 'anew' }), LIFE), 'a login writes over whatever is there')
    assert.ok(await store.put(at, tokens({ accessToken: 'again' }), LIFE))
    assert.is((await store.get(at))?.accessToken, 'again')
  })

  test(`${name}: removing one provider keeps the login’s others`, async () => {
    const store = open()
    const at = place('github')
    const version = await store.put(at, tokens(), LIFE)
    await store.put({ ...at, provider: 'gitlab' }, tokens({ accessToken: 'other' }), LIFE)
    await store.remove(at)
    await store.remove({ ...at, provider: 'nobody' })
    assert.is(await store.get(at), undefined)
    assert.is(await store.put(at, tokens(), { ...LIFE, replaces: version }), undefined, 'a late refresh')
    assert.is(await store.get(at), undefined)
    assert.is((await store.get({ ...at, provider: 'gitlab' }))?.accessToken, 'other')
    await store.remove({ ...at, provider: 'gitlab' })
    assert.is(await store.get({ ...at, provider: 'gitlab' }), undefined)
    await store.remove(place())
  })

  test(`${name}: removing a login removes all its providers, and no other login`, async () => {
    const store = open()
    const [one, other] = [place('github'), place('github')]
    await store.put(one, tokens(), LIFE)
    await store.put({ ...one, provider: 'gitlab' }, tokens(), LIFE)
    await store.put(other, tokens(), LIFE)
    await store.removeLogin(one.login)
    assert.is(await store.get(one), undefined)
    assert.is(await store.get({ ...one, provider: 'gitlab' }), undefined)
    assert.ok(await store.get(other))
  })

  test(`${name}: a login expires with its longest lifetime`, async () => {
    const store = open()
    const [short, long] = [place(), place()]
    await store.put(short, tokens(), { ttlMs: 50 })
    await store.put(long, tokens(), { ttlMs: 60_000 })
    await store.put({ ...long, provider: 'gitlab' }, tokens(), { ttlMs: 50 })
    await eventually('its end is seen', async () => (await store.get(short)) === undefined)
    assert.ok(await store.get(long))
  })

  test(`${name}: a lock has one holder at a time, until it is released or expires`, async () => {
    const store = open()
    const at = place()
    const mine = await store.lock(at, 60_000)
    assert.ok(mine)
    assert.is(await store.lock(at, 60_000), undefined)
    assert.ok(await store.lock({ ...at, provider: 'gitlab' }, 60_000))
    await mine?.release()
    const short = await store.lock(at, 50)
    assert.ok(short)
    let next: Awaited<ReturnType<typeof store.lock>>
    await eventually('its end is seen', async () => (next = await store.lock(at, 60_000)) !== undefined)
    await short?.release()
    assert.is(await store.lock(at, 60_000), undefined, 'a late holder does not release another’s lock')
    await next?.release()
    assert.ok(await store.lock(at, 10))
  })

  test(`${name}: a too large token set is not stored`, async () => {
    const store = open()
    const at = place()
    await store.put(at, tokens({ idToken: 'é'.repeat(40_000) }), LIFE)
    assert.ok(await store.get(at))
    try {
      await store.put(at, tokens({ accessToken: 'short', idToken: 'é'.repeat(60_000) }), LIFE)
      assert.unreachable()
    } catch (error) {
      assert.instance(error, RangeError)
      assert.not.match(String(error), 'é')
    }
    assert.is.not((await store.get(at))?.accessToken, 'short')
  })
}

test('memory is limited in all: the least recently used logins are evicted', async () => {
  const store = createMemoryTokenStore({ mostBytes: 100_000 })
  const used = place()
  await store.put(used, tokens(), LIFE)
  const others = Array.from({ length: 50 }, () => place())
  for (const other of others) {
    await store.put(other, tokens({ idToken: 'x'.repeat(5_000) }), LIFE)
    assert.ok(await store.get(used))
  }
  const stored = await Promise.all(others.map((other) => store.get(other)))
  assert.ok(stored.filter(Boolean).length < 10)
  assert.ok(stored.at(-1))
})

test('Redis sees no token and no login, and keys have one slot and an expiry', async () => {
  const client = connect()
  // Keys of other tests may expire meanwhile.
  const prefix = redisKeyPrefix({ kind: 'gateway', namespace: 'team', name: 'seen' })
  const store = inRedis([SECRET], prefix)
  const at = { login: 'login-that-redis-does-not-see', provider: 'github' }
  await store.put(at, tokens(), LIFE)
  const lock = await store.lock(at, 60_000)
  const keys = await client.keys(`${prefix}upstream:*`)
  assert.is(keys.length, 2)
  for (const key of keys) {
    assert.ok(key.startsWith('portico:{gateway/team/seen}:'))
    const end = await client.pttl(key)
    assert.ok(end > 0 && end <= 60_000, `${end}`)
    const stored = JSON.stringify([key, key.includes(':lock:') ? await client.get(key) : await client.hgetall(key)])
    for (const text of ['alice', 'the-access', 'the-refresh', 'the-id', 'login-that', 'repo'])
      assert.not.ok(stored.includes(text), text)
  }
  await lock?.release()
})

test('after a rotation the first secret writes, all read, and an unknown one opens nothing', async () => {
  const [old, next] = ['the old secret, of thirty-two bytes.', 'the next secret, of thirty-two bytes']
  let secrets = [old]
  const rotating = createRedisTokenStore({ client: connect(), prefix: PREFIX, secrets: () => secrets })
  const [before, after] = [place(), place()]
  await rotating.put(before, tokens(), LIFE)
  secrets = [next, old]
  assert.ok(await rotating.get(before), 'without a restart')
  await rotating.put(after, tokens(), LIFE)
  assert.ok(await inRedis([old, next]).get(after))
  assert.is(await inRedis([old]).get(after), undefined)
  assert.is(await inRedis([next]).get(before), undefined)
  assert.ok(await inRedis([next]).put(before, tokens(), LIFE), 'a login at which nothing can be read is written over')
  assert.ok(await inRedis([next]).get(before))
})

test('a set that was moved, altered or made up can’t be opened', async () => {
  const client = connect()
  const store = inRedis()
  const [mine, yours] = [place(), place()]
  await store.put(mine, tokens(), LIFE)
  await store.put(yours, tokens({ owner: 'bob', accessToken: 'of-bob' }), LIFE)
  const keys = (await client.keys(`${PREFIX}upstream:*`)).filter((key) => !key.includes(':lock:'))
  const sealed = new Map<string, string>()
  for (const key of keys) sealed.set(key, (await client.hget(key, 'github')) ?? '')
  const findKey = async (at: typeof mine) => {
    for (const [key, text] of sealed) {
      await client.hset(key, 'github', '')
      const isIt = (await store.get(at)) === undefined
      await client.hset(key, 'github', text)
      if (isIt) return key
    }
    throw new Error('no key')
  }
  const [own, other] = [await findKey(mine), await findKey(yours)]
  const text = sealed.get(own) ?? ''
  await client.hset(other, 'github', text)
  assert.is(await store.get(yours), undefined, 'of another login')
  await client.hset(own, 'gitlab', text)
  assert.is(await store.get({ ...mine, provider: 'gitlab' }), undefined, 'of another provider')
  const [nonce = '', id = '', body = ''] = text.split('.')
  const flipped = `${body.startsWith('A') ? 'B' : 'A'}${body.slice(1)}`
  const wrong = [
    ...['', '.', '..', 'x', `${nonce}.${id}`, `${nonce}.${id}.`, `${nonce}.${id}.AAAA`, `${nonce}.${id}.${flipped}`],
    ...[
      `${'A'.repeat(16)}.${id}.${body}`,
      `${nonce}.AAAAAAAAAAA.${body}`,
      `.${id}.${body}`,
      `${'!'.repeat(16)}.${id}.${body}`,
      '\0'.repeat(200_000),
    ],
  ]
  for (const one of wrong) {
    await client.hset(own, 'github', one)
    assert.is(await store.get(mine), undefined, one.slice(0, 80))
  }
  assert.is(await inRedis([SECRET], 'portico:{gateway/team/other}:').get(mine), undefined, 'of another gateway')
})

test('short or missing secrets are refused', async () => {
  for (const secrets of [['too short'], []]) {
    const refused = await inRedis(secrets)
      .put(place(), tokens(), LIFE)
      .catch((error: Error) => error)
    assert.match(String(refused), /secret/)
    assert.not.match(String(refused), /too short/)
  }
})

test('if Redis is down, requests fail at once with a temporary error', async () => {
  const own = await startRedis()
  const client = connectRedis({ mode: 'standalone', addresses: [own.address] }, recordLog().log)
  clients.push(client)
  const store = createRedisTokenStore({ client, prefix: PREFIX, secrets: () => [SECRET] })
  const at = place()
  await store.put(at, tokens(), LIFE)
  await own.stop()
  await eventually('the change is noticed', () => client.status !== 'ready')
  for (const ask of [
    () => store.get(at),
    () => store.put(at, tokens(), LIFE),
    () => store.removeLogin(at.login),
    () => store.lock(at, 1_000),
  ]) {
    const answer = await Promise.race([ask().catch((error: unknown) => error), sleep(20_000, 'late', { ref: false })])
    assert.instance(answer, PublicError)
    assert.is((answer as PublicError).code, 'unavailable')
  }
})

test('a login id is a short text in the claims', () => {
  assert.is(loginOf({ tsid: 'l-1' }), 'l-1')
  for (const tsid of [undefined, null, '', 1, true, ['l'], { l: 1 }, 'x'.repeat(129)])
    assert.is(loginOf({ tsid }), undefined)
})

test.run()
