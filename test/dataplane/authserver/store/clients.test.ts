/** Tests how both stores keep clients: registering many evicts none that a user has logged in with. */
import { randomBytes } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { type RecordStore, YOUNGEST_EVICTED_MS } from '../../../../dataplane/authserver/store/record-store.ts'
import { createRedisStore } from '../../../../dataplane/authserver/store/redis-store.ts'
import { networkHolder } from '../../../../dataplane/server/network-of.ts'
import type { RedisClient } from '../../../../dataplane/storage/redis.ts'
import { connectPatiently } from '../../../support/network/redis-client.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const TTL_S = 30 * 24 * 60 * 60

let redis: RedisServer
let client: RedisClient
let now = 0
test.before(async () => {
  redis = await startRedis()
  client = connectPatiently(redis.address)
})
test.after(async () => {
  client.disconnect()
  await redis.stop()
})
test.before.each(() => {
  now = Date.now()
})

const bounds = { mostClients: 3, now: () => now }
const prefix = () => `p:{${randomBytes(6).toString('hex')}}:`
const stores: Readonly<
  Record<string, (more?: { readonly mostClients?: number; readonly newBytes?: number }) => RecordStore>
> = {
  memory: ({ newBytes: clients, ...more } = {}) =>
    createMemoryStore({ ...bounds, ...more, ...(clients !== undefined && { mostBytes: { clients } }) }),
  redis: (more) => ({ ...createRedisStore({ client, prefix: prefix(), ...bounds, ...more }), close: () => undefined }),
}
const isThere = async (store: RecordStore, name: string) =>
  (await store.get('client', name)) !== undefined || (await store.get('newClient', name)) !== undefined
const refusal = async (pending: Promise<unknown>) => {
  try {
    await pending
    return 'none'
  } catch (error) {
    return (error as { code: string }).code
  }
}

for (const [kind, open] of Object.entries(stores)) {
  test(`${kind}: over the limit the oldest client is evicted, but no new one`, async () => {
    const store = open()
    for (const name of ['a', 'b', 'c']) {
      await store.addClient(name, name, TTL_S)
      now += 1000
    }
    assert.is(await refusal(store.addClient('d', 'd', TTL_S)), 'unavailable')
    assert.not.ok(await isThere(store, 'd'))
    now += YOUNGEST_EVICTED_MS
    await store.addClient('d', 'd', TTL_S)
    assert.equal(await Promise.all(['a', 'b', 'c', 'd'].map((name) => isThere(store, name))), [false, true, true, true])
  })

  test(`${kind}: a client that has been used stays, however many others register`, async () => {
    const store = open()
    await store.addClient('used', 'used', TTL_S)
    await store.useClient('used', TTL_S)
    await store.useClient('used', TTL_S)
    assert.equal([await store.get('client', 'used'), await store.get('newClient', 'used')], ['used', undefined])
    for (let count = 0; count < 20; count++) {
      now += YOUNGEST_EVICTED_MS
      await store.addClient(`other-${count}`, 'x', TTL_S)
    }
    assert.ok(await isThere(store, 'used'))
    assert.ok(await isThere(store, 'other-19'))
    assert.not.ok(await isThere(store, 'other-0'))
  })

  test(`${kind}: the network with most registrations makes room: of IPv6 the /48, in it the /56, in that the /64`, async () => {
    const store = open({ mostClients: 12 })
    const add = (name: string, address: string) => {
      now += 1000
      return store.addClient(name, name, TTL_S, networkHolder(address))
    }
    const listLeft = async (names: readonly string[]) => {
      const there = await Promise.all(names.map((name) => isThere(store, name)))
      return names.filter((_, index) => there[index])
    }
    const many = [...Array(6).keys()].map((index) => `many-${index}`)
    for (const name of many) await add(name, '2001:db8:1:100::1')
    const wide = ['wide-0', 'wide-1']
    for (const [index, name] of wide.entries()) await add(name, `2001:db8:1:2${index}00::1`)
    for (const name of ['few-0', 'few-1', 'few-2']) await add(name, '192.0.2.1')
    await add('one', '2001:db8:2::1')
    // The store is full. Other networks get room at the cost of the largest one, which gets none at the cost of its own
    // newest clients.
    await add('other-0', '198.51.100.7')
    await add('other-1', '2001:db8:1:201::1')
    assert.equal(await listLeft(many), many.slice(2))
    assert.is(await refusal(add('more', '2001:db8:1:100::2')), 'unavailable')
    await add('near', '2001:db8:1:1ff::1')
    assert.equal(await listLeft(many), many.slice(3))
    assert.equal(await listLeft([...wide, 'few-0', 'few-1', 'few-2', 'one', 'other-0', 'other-1', 'near']), [
      ...wide,
      ...['few-0', 'few-1', 'few-2', 'one', 'other-0', 'other-1', 'near'],
    ])
    store.close()
  })

  test(`${kind}: a network has a limit in bytes, over which its own oldest client is evicted`, async () => {
    const store = open({ mostClients: 1_000, newBytes: 120_000 })
    const add = (name: string, address: string, bytes = 10) => {
      now += 1000
      return store.addClient(name, 'x'.repeat(bytes), TTL_S, networkHolder(address))
    }
    await add('others', '198.51.100.1')
    await add('neighbours', '2001:db8:0:1::1')
    for (let index = 0; index < 100; index++) {
      now += YOUNGEST_EVICTED_MS
      await add(`many-${index}`, '2001:db8:0:2::1', 3_000)
    }
    await add('late', '192.0.2.1')
    assert.not.ok(await isThere(store, 'many-0'))
    for (const name of ['others', 'neighbours', 'many-99', 'late']) assert.ok(await isThere(store, name), name)
    store.close()
  })

  test(`${kind}: an unknown client can’t be marked as used`, async () => {
    const store = open()
    await store.useClient('nobody', TTL_S)
    assert.not.ok(await isThere(store, 'nobody'))
  })
}

test('memory: clients have one bound in bytes, used or not', async () => {
  const store = createMemoryStore({ now: () => now, mostBytes: { clients: 10_000, newClients: 10_000 } })
  for (let count = 0; count < 5; count++) {
    await store.addClient(`used-${count}`, 'x'.repeat(1_000), TTL_S)
    await store.useClient(`used-${count}`, TTL_S)
  }
  for (let count = 0; count < 20; count++) {
    now += YOUNGEST_EVICTED_MS
    await store.addClient(`new-${count}`, 'x'.repeat(1_000), TTL_S)
  }
  const names = [...Array(20).keys()].flatMap((count) => [`used-${count}`, `new-${count}`])
  const left: string[] = []
  for (const name of names) if (await isThere(store, name)) left.push(name)
  assert.equal(left.filter((name) => name.startsWith('used')).length, 5)
  assert.is(left.filter((name) => name.startsWith('new')).length, 3)
  store.close()
})

test('redis: clients that an older version stored without a holder are evicted when they are the oldest', async () => {
  const own = prefix()
  const fresh = `${own}as:newClient:`
  const store = createRedisStore({ client, prefix: own, ...bounds })
  for (const [index, name] of ['a', 'b', 'c'].entries()) {
    await client.set(fresh + name, name, 'EX', TTL_S)
    await client.zadd(`${fresh}by-age`, now - YOUNGEST_EVICTED_MS - 10 + index, name)
  }
  for (const name of ['d', 'e', 'f']) await store.addClient(name, name, TTL_S, networkHolder('192.0.2.1'))
  const there = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => isThere(store, name)))
  assert.equal(there, [false, false, false, true, true, true])
  assert.is(await refusal(store.addClient('g', 'g', TTL_S, networkHolder('192.0.2.1'))), 'unavailable')
  await store.addClient('g', 'g', TTL_S, networkHolder('192.0.2.2'))
})

test('redis: the counts match the stored clients, whatever happened before', async () => {
  const own = prefix()
  const fresh = `${own}as:newClient:`
  const store = createRedisStore({ client, prefix: own, mostClients: 20, now: () => now })
  const addresses = [
    '192.0.2.1',
    '192.0.2.2',
    '',
    '2001:db8::1',
    '2001:db8:0:1::1',
    '2001:db8:0:100::1',
    '2001:db8:1::1',
  ]
  let random = 1
  const next = (most: number) => {
    random = (random * 48_271) % 2_147_483_647
    return random % most
  }
  for (let round = 0; round < 300; round++) {
    now += next(2 * 60 * 60_000)
    const holder = networkHolder(addresses[Math.min(next(10), next(addresses.length))])
    if (next(4) === 0) await store.useClient(`c-${next(round + 1)}`, 24 * 60 * 60)
    else await refusal(store.addClient(`c-${round}`, 'x', 24 * 60 * 60, holder))
  }
  const [names, holders] = [await client.zrange(`${fresh}by-age`, '0', '-1'), await client.hgetall(`${fresh}holders`)]
  assert.ok(names.length > 5 && names.length <= 20)
  assert.equal(Object.keys(holders).sort(), [...names].sort())
  const expected = new Map<string, number>()
  for (const path of Object.values(holders))
    path.split(' ').forEach((part, index, parts) => {
      const key = `${parts.slice(0, index).join(' ')}|${part}`
      expected.set(key, (expected.get(key) ?? 0) + 1)
    })
  for (const key of await client.keys(`${fresh.replace(/[{}]/g, '?')}held:*`)) {
    const found = await client.zrange(key, '0', '-1', 'WITHSCORES')
    for (let index = 0; index < found.length; index += 2) {
      const name = `${key.slice(key.indexOf('held:') + 5)}|${found[index]}`
      assert.is(Number(found[index + 1]), expected.get(name), name)
      expected.delete(name)
    }
  }
  assert.is(expected.size, 0)
})

test('redis: the records of their age expire with the clients', async () => {
  const own = prefix()
  const store = createRedisStore({ client, prefix: own, ...bounds })
  await store.addClient('a', 'a', 60)
  const keys = await client.keys(`${own.replace(/[{}]/g, '?')}*`)
  assert.is(keys.length, 7)
  for (const key of keys) assert.ok((await client.ttl(key)) > 50)
  // Expired clients no longer count.
  now += 61_000
  for (const name of ['b', 'c', 'd']) await store.addClient(name, name, 60)
  assert.is(await client.hlen(`${own}as:newClient:holders`), 3)
  assert.equal(await client.zrange(`${own}as:newClient:held:`, '0', '-1', 'WITHSCORES'), ['-', '3'])
  for (const name of ['b', 'c', 'd']) await store.useClient(name, 60)
  const names = await client.keys(`${own.replace(/[{}]/g, '?')}as:newClient:*`)
  assert.equal(names, [`${own}as:newClient:a`], 'of those that are used nothing is counted any more')
})

test.run()
