/** Checks that the data of one user, issuer or network in Redis is bounded and evicts no one else's. */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { createConsents } from '../../../../dataplane/authserver/login/consents.ts'
import { createGrants } from '../../../../dataplane/authserver/provider/grants.ts'
import { refreshTokens } from '../../../../dataplane/authserver/provider/refresh-tokens.ts'
import { Revocations } from '../../../../dataplane/authserver/provider/revocations.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import type { RecordStore } from '../../../../dataplane/authserver/store/record-store.ts'
import { createRedisStore } from '../../../../dataplane/authserver/store/redis-store.ts'
import { networkHolder } from '../../../../dataplane/server/network-of.ts'
import type { RedisClient } from '../../../../dataplane/storage/redis.ts'
import { createRedisTokenStore, type UpstreamTokenSet } from '../../../../dataplane/upstream-tokens/index.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { connectPatiently } from '../../../support/network/redis-client.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const TTL_S = 30 * 24 * 60 * 60
const MIB = 1024 * 1024

let redis: RedisServer
let client: RedisClient
let ofOther: RedisClient
test.before(async () => {
  redis = await startRedis()
  client = connectPatiently(redis.address)
  ofOther = connectPatiently(redis.address)
})
test.after(async () => {
  client.disconnect()
  ofOther.disconnect()
  await redis.stop()
})
// Each test counts the keys.
test.before.each(async () => void (await client.flushall()))

const randomText = (bytes: number) => randomBytes(bytes).toString('base64url')
const open = () => createRedisStore({ client, prefix: 'p:{gateway}:' })
const openTokens = () => createRedisTokenStore({ client, prefix: 'p:{gateway}:', secrets: () => ['s'.repeat(32)] })
const count = async (kind: string) => (await client.keys(`p:?gateway?:as:${kind}:*`)).length
const forEachIndex = async (length: number, run: (index: number) => Promise<unknown>) => {
  for (let from = 0; from < length; from += 500)
    await Promise.all(Array.from({ length: Math.min(500, length - from) }, (_, index) => run(from + index)))
}
const refusal = (pending: Promise<unknown>) =>
  pending.then(
    () => 'none',
    ({ code }) => code as string,
  )

test('consents of one user are limited; the newest stay, and so do those of others', async () => {
  const consents = createConsents(open(), () => keyedHash(['s'.repeat(32)]))
  const consent = { clientId: 'c', redirectUri: 'https://c.example/cb', resource: 'r', scopes: ['s'] }
  await consents.keep({ id: 'bobs' }, consent, 'bob')
  for (let index = 0; index < 1_100; index++) await consents.keep({ id: `browser-${index}` }, consent, 'mallory')
  // Bob has his consent and two marks.
  assert.ok((await count('consent')) <= 1_003, String(await count('consent')))
  assert.is(await consents.find({ id: 'bobs' }, consent), 'bob')
  // The marks that all of them need are used each time, so they stay.
  assert.is(await consents.find({ id: 'browser-1099' }, consent), 'mallory')
  assert.is(await consents.find({ id: 'browser-200' }, consent), 'mallory')
  assert.is(await consents.find({ id: 'browser-0' }, consent), undefined)
  for (const key of await client.keys('p:*')) assert.ok((await client.pttl(key)) > 0, `${key} stays for ever`)
  for (const key of await client.keys('p:*')) assert.not.match(key, /mallory|bob/)
})

test('consents have a limit in bytes', async () => {
  const store = open()
  await forEachIndex(300, (index) =>
    store.set('consent', `c${index}`, 'x'.repeat(10_000), { ttlS: TTL_S, by: ['mallory'] }),
  )
  const stored = await count('consent')
  assert.ok(stored * 10_000 <= MIB && stored > 90, String(stored))
  // A replaced record counts once.
  await forEachIndex(300, () => store.set('consent', 'same', 'x'.repeat(10_000), { ttlS: TTL_S, by: ['alice'] }))
  await store.set('consent', 'other', 'x', { ttlS: TTL_S, by: ['alice'] })
  assert.is(await store.get('consent', 'other'), 'x')
  assert.ok(await store.get('consent', 'same'))
})

test('used assertions of one subject or issuer leave room for others, and none is forgotten', async () => {
  const store = open()
  const mark = (name: string, issuer: string, subject: string) =>
    store.add('assertion', name, '1', { ttlS: 300, by: [issuer, subject] })
  const lists = async () => (await client.keys('p:?gateway?:as:share:assertion:*')).sort()
  /** Adds this many marks, with this expiry, to every list. */
  const fill = async (times: number, until: number) => {
    for (const list of await lists())
      await client.eval(
        "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], ARGV[2], 'x' .. i) end",
        1,
        list,
        times,
        until,
      )
  }
  assert.ok(await mark('m0', 'a', 'mallory'))
  await fill(9_999, Date.now() + 300_000)
  assert.is(await refusal(mark('more', 'a', 'mallory')), 'unavailable')
  assert.is(await mark('m0', 'a', 'mallory'), false, 'it can be used again')
  assert.ok(await mark('b0', 'a', 'bob'), 'the subject has its bound, not the issuer')
  // The lists of mallory, of bob and of their issuer.
  assert.is((await lists()).length, 3)
  await fill(100_000, Date.now() + 300_000)
  assert.is(await refusal(mark('c0', 'a', 'carol')), 'unavailable')
  assert.ok(await mark('c0', 'b', 'carol'))
  assert.is(await mark('b0', 'a', 'bob'), false)
  // Expired marks make room and are removed step by step.
  await fill(100_000, Date.now() - 1)
  assert.ok(await mark('c1', 'a', 'carol'))
  assert.is(await mark('c1', 'a', 'carol'), false)
  assert.is(await mark('m0', 'a', 'mallory'), false)
})

test('seen client keys: a network has a limit, and a /48 four times as much', async () => {
  const store = open()
  const rememberSeen = (name: string, address: string) =>
    store.set('clientKeys', name, 'x'.repeat(200), { ttlS: TTL_S, by: networkHolder(address) })
  await rememberSeen('bobs', '198.51.100.1')
  await forEachIndex(1_200, (index) => rememberSeen(`m${index}`, '192.0.2.1'))
  assert.is(await count('clientKeys'), 1_001)
  await forEachIndex(4_400, (index) => rememberSeen(`w${index}`, `2001:db8:0:${(index % 1_000).toString(16)}::1`))
  assert.ok((await count('clientKeys')) <= 5_001, String(await count('clientKeys')))
  assert.ok(await store.get('clientKeys', 'bobs'))
})

const buildTokens = (owner: string, bytes: number): UpstreamTokenSet => ({
  owner,
  subject: owner,
  accessToken: randomText(bytes),
})
const SECONDS = { ttlMs: TTL_S * 1000 }

test('provider tokens of one user are limited; longer-lived keys and those of others stay', async () => {
  const tokens = openTokens()
  const put = (login: string, owner: string, provider = 'corp') =>
    tokens.put({ login, provider }, buildTokens(owner, 6_000), SECONDS)
  await put('bobs', 'bob')
  await tokens.put({ login: 'key', provider: 'own' }, buildTokens('mallory', 10), { ttlMs: 2 * TTL_S * 1000 })
  await forEachIndex(1_000, (index) => put(`m${index}`, 'mallory', index % 2 === 0 ? 'corp' : 'other'))
  const stored = (await client.keys('p:?gateway?:upstream:*')).length
  assert.ok(stored * 11_000 < 8 * MIB && stored > 500, String(stored))
  for (const place of [
    { login: 'bobs', provider: 'corp' },
    { login: 'key', provider: 'own' },
    { login: 'm999', provider: 'other' },
  ])
    assert.ok(await tokens.get(place), place.login)
  // A login with several providers counts once; a removed one no longer counts.
  await forEachIndex(1_000, (index) => tokens.removeLogin(`m${index}`))
  await tokens.remove({ login: 'key', provider: 'own' })
  assert.is((await client.keys('p:?gateway?:upstream-share:*')).length, 2, 'the list of bob, and its bytes')
  await forEachIndex(1_600, async (index) => {
    const place = { login: `n${index}`, provider: 'corp' }
    const version = await tokens.put(place, buildTokens('mallory', 10), SECONDS)
    await tokens.put({ ...place, provider: 'other' }, buildTokens('mallory', 10), SECONDS)
    await tokens.put(place, buildTokens('mallory', 20), { ...SECONDS, replaces: version })
  })
  assert.is((await client.keys('p:?gateway?:upstream:*')).length, 1_501)
})

test('logins without a known user count for their network, also when they are used', async () => {
  const tokens = openTokens()
  await forEachIndex(1_700, async (index) => {
    const place = { login: `n${index}`, provider: 'corp' }
    const started = await tokens.put(place, buildTokens('', 10), { ...SECONDS, holder: ['192.0.2.1'] })
    const own = { ...SECONDS, replaces: started, holder: ['192.0.2.1'] }
    const version = await tokens.put(place, buildTokens(`nobody-${index}`, 10), own)
    assert.ok(await tokens.put(place, buildTokens(`nobody-${index}`, 20), { ...SECONDS, replaces: version }))
  })
  assert.is((await client.keys('p:?gateway?:upstream:*')).length, 1_700, 'many people share a network')
  assert.is((await client.keys('p:?gateway?:upstream-share:*')).length, 2)
})

test('logins of an IPv6 /64 leave room for its neighbours, and those of a /48 for other networks', async () => {
  const tokens = openTokens()
  const put = (login: string, address: string) =>
    tokens.put({ login, provider: 'corp' }, buildTokens(`nobody-${login}`, 48_000), {
      ...SECONDS,
      holder: networkHolder(address),
    })
  await put('others', '198.51.100.1')
  await put('neighbours', '2001:db8:0:1::1')
  // A /64 may have 16 MiB, and each of these takes 85 KiB.
  await forEachIndex(300, (index) => put(`m${index}`, '2001:db8:0:2::1'))
  const stored = (await client.keys('p:?gateway?:upstream:*')).length
  assert.ok(stored > 100 && stored < 210, String(stored))
  for (const login of ['others', 'neighbours', 'm299'])
    assert.ok(await tokens.get({ login, provider: 'corp' }), `${login} is gone`)
  await forEachIndex(300, (index) => tokens.removeLogin(`m${index}`))
  for (const login of ['others', 'neighbours']) await tokens.removeLogin(login)
  assert.equal(await client.keys('p:*'), [], 'the counts are gone with them')
})

/** Stores what replicas keep for a login of a new user, by part. */
function logins(replicas: readonly RecordStore[]) {
  const { log } = recordLog()
  const providers = ['corp']
  const keyed = keyedHash(['s'.repeat(32)])
  const [times, tokens] = [{ ttlS: TTL_S, freshS: 600 }, openTokens()]
  const all = replicas.map((store) => {
    const revocations = new Revocations(store, 60, log)
    const grants = createGrants({ store, revocations, tokens, log: () => log, ...times, providers })
    return { store, revocations, grants, refresh: refreshTokens(store, keyed) }
  })
  let turn = 0
  const next = () => all[turn++ % all.length] as (typeof all)[number]
  return {
    async logIn(user: string, network: readonly string[] | undefined, letters = 0): Promise<string> {
      const grantId = randomText(32)
      const payload = { accountId: user, clientId: 'c', iat: 1, openid: { scope: 'x'.repeat(letters) } }
      await next().grants.describe(grantId, { user: {} }, network === undefined ? [user] : { network })
      await next().grants.keep(grantId, payload)
      const { refresh, grants } = next()
      await refresh.keep(refresh.make(grantId, 0), { ...payload, grantId }, TTL_S)
      await grants.renew(grantId, user)
      return grantId
    },
    async lives(grantId: string): Promise<boolean> {
      const { store } = next()
      const found = await Promise.all((['grant', 'refresh'] as const).map((kind) => store.get(kind, grantId)))
      if (found.includes(undefined) !== found.every((one) => one === undefined)) throw new Error('half of it is there')
      return !found.includes(undefined)
    },
    end: (grantId: string) => next().grants.end(grantId),
    close() {
      for (const { revocations } of all) revocations.close()
    },
  }
}

const smallStores: Readonly<Record<string, () => readonly RecordStore[]>> = {
  memory: () => [createMemoryStore({ mostBytes: { grants: 150_000 } })],
  'two replicas with Redis': () =>
    [client, ofOther].map((one) =>
      createRedisStore({ client: one, prefix: 'p:{gateway}:', ofNetwork: { count: 200, bytes: 100_000 } }),
    ),
}
for (const [kind, open] of Object.entries(smallStores))
  test(`${kind}: logins of unknown users evict those of their own network, first of their own /64`, async () => {
    const stores = open()
    const { logIn, lives, close } = logins(stores)
    const others = [
      await logIn('alice', undefined),
      await logIn('nobody-1', networkHolder('198.51.100.1')),
      await logIn('nobody-2', networkHolder('2001:db8:0:1::1')),
    ]
    const theirs: string[] = []
    for (let count = 0; count < 200; count++)
      theirs.push(await logIn(`mallory-${count}`, networkHolder('2001:db8:0:2::1'), 200))
    assert.not.ok(await lives(theirs[0] as string), 'nothing had to go: the test needs more logins')
    assert.ok(await lives(theirs.at(-1) as string))
    const late = [await logIn('bob', undefined), await logIn('nobody-3', networkHolder('192.0.2.7'))]
    for (const [index, grant] of [...others, ...late].entries()) assert.ok(await lives(grant), String(index))
    close()
  })

test('the count of a network matches its records, and expires with them', async () => {
  const store = (one: RedisClient, most: number) =>
    createRedisStore({ client: one, prefix: 'p:{gateway}:', ofNetwork: { count: most, bytes: MIB } })
  const { logIn, lives, end, close } = logins([store(client, 8), store(ofOther, 8)])
  const buildAddress = (count: number) =>
    networkHolder(count % 2 === 0 ? '192.0.2.1' : `2001:db8:0:${(256 * count).toString(16)}::1`)
  const all: string[] = []
  for (let count = 0; count < 40; count++) {
    all.push(await logIn(`n-${count}`, buildAddress(count)))
    // The oldest login ends first, by the clock, which has milliseconds and may be set back a little.
    for (const end = Date.now(); Date.now() <= end; ) await setTimeout(1)
  }
  const left: string[] = []
  for (const grant of all) if (await lives(grant)) left.push(grant)
  assert.is(left.length, 16, 'eight of the address, eight of the /48')
  assert.equal(left, all.slice(-16))
  for (const one of ['grant', 'refresh', 'shares', 'user']) assert.is(await count(one), 16, one)
  for (const key of await client.keys('p:*')) {
    assert.ok((await client.pttl(key)) > 0, `${key} stays for ever`)
    assert.not.match(key, /192\.0\.2|2001:db8/)
  }
  for (const grant of left) await end(grant)
  assert.equal(await client.keys('p:*'), ['p:{gateway}:as:revoked'])
  close()
})

test('clients that were first used by an unknown user count for that user’s network', async () => {
  const bounds = { ofNetwork: { count: 20, bytes: MIB } }
  const store = createRedisStore({ client, prefix: 'p:{gateway}:', ...bounds })
  const use = async (name: string, by: readonly string[] | { readonly network: readonly string[] }) => {
    await store.addClient(name, 'x', TTL_S, networkHolder('203.0.113.1'))
    const grant = JSON.stringify({ payload: { accountId: `user-of-${name}` } })
    await store.set('grant', `of-${name}`, grant, { ttlS: TTL_S, by })
    await store.useClient(name, TTL_S, { grant: `of-${name}` })
  }
  await use('alices', ['alice'])
  await use('others', { network: networkHolder('198.51.100.1') })
  await use('neighbours', { network: networkHolder('2001:db8:0:1::1') })
  for (let index = 0; index < 30; index++) await use(`m${index}`, { network: networkHolder('2001:db8:0:2::1') })
  assert.is(await count('client'), 3 + 5, 'a quarter of the limit of the /48')
  for (const name of ['alices', 'others', 'neighbours', 'm29']) assert.ok(await store.get('client', name), name)
})

test('clients that one user was the first to use have a limit in bytes', async () => {
  const store = open()
  const use = async (name: string, user: string) => {
    await store.addClient(name, 'x'.repeat(15_000), TTL_S, networkHolder('192.0.2.1'))
    await store.set('grant', user, JSON.stringify({ payload: { accountId: user } }), TTL_S)
    await store.useClient(name, TTL_S, { grant: user })
  }
  await use('bobs', 'bob')
  await use('first', 'mallory')
  for (let index = 0; index < 400; index++) {
    await use(`m${index}`, 'mallory')
    await store.useClient('first', TTL_S)
  }
  const stored = await count('client')
  assert.ok(stored * 15_000 <= 5 * MIB && stored > 200, String(stored))
  for (const name of ['bobs', 'first', 'm399']) assert.ok(await store.get('client', name), name)
  assert.is(await store.get('client', 'm0'), undefined)
})

test.run()
