/** Tests the sets of both record stores: their members, lifetimes and bounds. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createGrants } from '../../../../dataplane/authserver/provider/grants.ts'
import { Revocations } from '../../../../dataplane/authserver/provider/revocations.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { MOST_MEMBERS, type RecordStore } from '../../../../dataplane/authserver/store/record-store.ts'
import { createRedisStore } from '../../../../dataplane/authserver/store/redis-store.ts'
import type { RedisClient } from '../../../../dataplane/storage/redis.ts'
import { createMemoryTokenStore } from '../../../../dataplane/upstream-tokens/index.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { connectPatiently } from '../../../support/network/redis-client.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

let redis: RedisServer
let client: RedisClient
test.before(async () => {
  redis = await startRedis()
  client = connectPatiently(redis.address)
})
test.after(async () => {
  client.disconnect()
  await redis.stop()
})

const stores: Readonly<Record<string, () => RecordStore>> = {
  memory: () => createMemoryStore(),
  redis: () => createRedisStore({ client, prefix: `p:{${randomBytes(6).toString('hex')}}:` }),
}
const names = async (store: RecordStore, name: string) =>
  (await store.members('user', name)).map(({ member }) => member)

for (const [kind, open] of Object.entries(stores)) {
  test(`${kind}: members of a set are listed once each, in the order of their expiry`, async () => {
    const store = open()
    await store.addMember('user', 'alice', 'long', 300)
    await store.addMember('user', 'alice', 'short', 100)
    await store.addMember('user', 'bob', 'his', 100)
    assert.equal(await names(store, 'alice'), ['long', 'short'])
    const before = Date.now()
    await store.addMember('user', 'alice', 'short', 400)
    const [first] = await store.members('user', 'alice')
    assert.equal(await names(store, 'alice'), ['short', 'long'])
    assert.ok(Math.abs((first?.endsAt ?? 0) - before - 400_000) < 60_000)
    await store.removeMember('user', 'alice', 'short')
    await store.removeMember('user', 'alice', 'nobody')
    assert.equal(await names(store, 'alice'), ['long'])
    assert.equal(await names(store, 'bob'), ['his'])
    assert.equal(await names(store, 'nobody'), [])
  })

  test(`${kind}: among members that expire at about the same time, the newest comes first`, async () => {
    const store = open()
    for (const member of ['first', 'second', 'third']) {
      await store.addMember('user', 'alice', member, 100)
      await delay(2)
    }
    assert.equal(await names(store, 'alice'), ['third', 'second', 'first'])
  })

  test(`${kind}: members that are added concurrently are all there`, async () => {
    const store = open()
    const added = Array.from({ length: 50 }, (_, index) => `m${index}`)
    await Promise.all(added.map((member) => store.addMember('user', 'alice', member, 100)))
    assert.equal((await names(store, 'alice')).toSorted(), added.toSorted())
  })

  test(`${kind}: over the limit, the members that expire first are evicted`, async () => {
    const store = open()
    for (let index = 0; index < MOST_MEMBERS + 5; index++)
      await store.addMember('user', 'alice', `m${index}`, 1_000 + index * 10)
    const found = await names(store, 'alice')
    assert.is(found.length, MOST_MEMBERS)
    assert.is(found[0], `m${MOST_MEMBERS + 4}`)
    assert.is(found.at(-1), 'm5')
  })

  test(`${kind}: an expired member is gone, and the others stay`, async () => {
    const store = open()
    await store.addMember('user', 'alice', 'stays', 100)
    await store.addMember('user', 'alice', 'ends', 50)
    assert.equal(await names(store, 'alice'), ['stays', 'ends'])
    await store.addMember('user', 'alice', 'ends', 1)
    await eventually('it ends', async () => (await names(store, 'alice')).join() === 'stays')
  })
}

test('redis: a set expires with its last member', async () => {
  const prefix = `p:{${randomBytes(6).toString('hex')}}:`
  const store = createRedisStore({ client, prefix })
  const keys = () => client.keys(`${prefix}*`)
  await store.addMember('user', 'alice', 'long', 100)
  await store.addMember('user', 'alice', 'short', 10)
  const [key = ''] = await keys()
  const left = await client.pttl(key)
  assert.ok(left > 90_000 && left <= 100_000, String(left))
  for (const member of ['long', 'short']) await store.removeMember('user', 'alice', member)
  assert.equal(await keys(), [])
  await store.addMember('user', 'bob', 'one', 1)
  await eventually('nothing is left', async () => (await keys()).length === 0)
})

test('redis: a user’s endless logins and clients evict only that user’s own', async () => {
  const prefix = `p:{${randomBytes(6).toString('hex')}}:`
  let clock = Date.now()
  const store = createRedisStore({ client, prefix, mostMembers: 5, mostUsed: 3, now: () => clock++ })
  const { log } = recordLog()
  const revocations = new Revocations(store, 60, log)
  const [tokens, providers] = [createMemoryTokenStore(), ['corp']]
  const grants = createGrants({ store, revocations, tokens, log: () => log, ttlS: 600, freshS: 60, providers })
  const logIn = async (user: string, id: string, ageS = 100) => {
    const iat = Math.floor(Date.now() / 1000) - ageS
    await tokens.put(
      { login: id, provider: 'corp' },
      { owner: user, subject: 'x', accessToken: 'a' },
      { ttlMs: 600_000 },
    )
    await grants.keep(id, { accountId: user, clientId: 'c', iat })
    await grants.renew(id, user)
    await store.addClient(`client-of-${id}`, '{}', 600, ['net'])
    await store.useClient(`client-of-${id}`, 600, { grant: id })
  }
  await logIn('ada', 'hers')
  for (let index = 0; index < 9; index++) {
    await logIn('mallory', `his-${index}`)
    if (index === 0) await store.useClient('client-of-hers', 600, { grant: 'his-0' })
  }
  const listLeft = async (user: string, ids: readonly string[], clients: boolean) => {
    const found = await Promise.all(
      ids.map((id) => (clients ? store.get('client', `client-of-${id}`) : grants.find(id))),
    )
    return `${user} ${ids.filter((_, index) => found[index] !== undefined).join()}`
  }
  const his = Array.from({ length: 9 }, (_, index) => `his-${index}`)
  assert.is(await listLeft('mallory', his, false), 'mallory his-4,his-5,his-6,his-7,his-8')
  assert.is(await listLeft('mallory', his, true), 'mallory his-6,his-7,his-8')
  assert.is(await listLeft('ada', ['hers'], false), 'ada hers')
  assert.is(await listLeft('ada', ['hers'], true), 'ada hers')
  assert.is(await tokens.get({ login: 'his-0', provider: 'corp' }), undefined)
  assert.ok(revocations.has('his-0'))
  // Ending one login does not end another that is in progress.
  await grants.keep('begun', { accountId: 'mallory', clientId: 'c', iat: Math.floor(Date.now() / 1000) })
  await logIn('mallory', 'his-9')
  assert.ok(await grants.find('begun'))
  revocations.close()
})

test('memory: a set counts with the bytes that it takes', async () => {
  const store = createMemoryStore({ mostBytes: { grants: 20_000 } })
  for (let user = 0; user < 100; user++)
    for (let login = 0; login < 5; login++) await store.addMember('user', `user-${user}`, 'x'.repeat(43), 100)
  const sets = await Promise.all(Array.from({ length: 100 }, (_, user) => names(store, `user-${user}`)))
  const count = sets.filter(({ length }) => length > 0).length
  assert.ok(count > 20 && count < 80, String(count))
  assert.is(sets.at(-1)?.length, 1)
})

test.run()
