/** The clients that both stores keep: whoever registers many of them pushes out none that somebody has logged in with. */
import { randomBytes } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { type RecordStore, YOUNGEST_EVICTED_MS } from '../../../../dataplane/authserver/store/record-store.ts'
import { createRedisStore } from '../../../../dataplane/authserver/store/redis-store.ts'
import { connectRedis, type RedisClient } from '../../../../dataplane/storage/redis.ts'
import { keptLog } from '../../../support/kept-log.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const TTL_S = 30 * 24 * 60 * 60

let redis: RedisServer
let client: RedisClient
let now = 0
test.before(async () => {
  redis = await startRedis()
  client = connectRedis({ mode: 'standalone', addresses: [redis.address] }, keptLog().log)
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
const stores: Readonly<Record<string, () => RecordStore>> = {
  memory: () => createMemoryStore(bounds),
  redis: () => createRedisStore({ client, prefix: prefix(), ...bounds }),
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
  test(`${kind}: beyond the bound the oldest goes, but none that has just come`, async () => {
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

  test(`${kind}: one that has been used stays, whoever registers others`, async () => {
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

  test(`${kind}: one that is not there is not used`, async () => {
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

test('redis: what tells their age ends with them', async () => {
  const own = prefix()
  const store = createRedisStore({ client, prefix: own, ...bounds })
  await store.addClient('a', 'a', 60)
  const keys = await client.keys(`${own.replace(/[{}]/g, '?')}*`)
  assert.is(keys.length, 2)
  for (const key of keys) assert.ok((await client.ttl(key)) > 50)
  // Those that have ended count no more.
  now += 61_000
  for (const name of ['b', 'c', 'd']) await store.addClient(name, name, 60)
})

test.run()
