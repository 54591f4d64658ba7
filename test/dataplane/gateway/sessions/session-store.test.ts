/** Tests the contract of session stores with each of them, and what Redis guarantees beyond it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Relays } from '../../../../dataplane/gateway/sessions/relay/relays.ts'
import { Sessions } from '../../../../dataplane/gateway/sessions/sessions.ts'
import { createRedisBus } from '../../../../dataplane/gateway/sessions/store/bus.ts'
import { createRedisStore } from '../../../../dataplane/gateway/sessions/store/redis-store.ts'
import {
  createMemoryStore,
  type SessionRecord,
  type SessionStore,
} from '../../../../dataplane/gateway/sessions/store/store.ts'
import { Budget } from '../../../../dataplane/server/budget.ts'
import type { PublicError } from '../../../../dataplane/server/errors.ts'
import { connectRedis, type RedisConfig } from '../../../../dataplane/storage/redis.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { startCutProxy } from '../../../support/network/cut-proxy.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

let redis: RedisServer
let cluster: RedisServer
const cleanups: (() => unknown)[] = []
test.before(async () => {
  redis = await startRedis()
  cluster = await startRedis({
    settings: ['cluster-enabled yes', 'cluster-announce-ip 127.0.0.1', `cluster-port ${await freePort()}`],
  })
  const setUp = connectRedis({ mode: 'standalone', addresses: [cluster.address] }, recordLog().log)
  await setUp.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
  await eventually('the cluster is up', async () =>
    String(await setUp.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  )
  setUp.disconnect()
})
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
test.after(async () => {
  await Promise.all([redis.stop(), cluster.stop()])
})

/** For tests of expiry; in all others no session expires, however busy the machine is. */
const SHORT_TTL_MS = 3_000
const LONG_TTL_MS = 60_000
let stores = 0

interface ReplicaOptions extends Partial<Pick<RedisConfig, 'mode' | 'commandTimeoutMs'>> {
  readonly address?: string
  readonly ttlMs?: number
}

/** Returns a replica's store; those with the same prefix are replicas of one gateway. */
function replica(prefix: string, { ttlMs = LONG_TTL_MS, ...options }: ReplicaOptions = {}): SessionStore {
  const { mode = 'standalone', address = redis.address, commandTimeoutMs = 10_000 } = options
  const { log } = recordLog()
  const config = { mode, addresses: [address], commandTimeoutMs }
  const client = connectRedis(config, log)
  const bus = createRedisBus({ client, subscriber: connectRedis(config, log), prefix, log })
  const store = createRedisStore({ client, bus, prefix, ttlMs })
  cleanups.push(() => {
    store.close()
    bus.close()
    client.disconnect()
  })
  return store
}

const makers: Readonly<Record<string, (ttlMs?: number) => SessionStore>> = {
  memory(ttlMs = LONG_TTL_MS) {
    const store = createMemoryStore({ ttlMs })
    cleanups.push(() => store.close())
    return store
  },
  redis: (ttlMs = LONG_TTL_MS) => replica(`test:{${++stores}}:`, { ttlMs }),
  'redis cluster': (ttlMs = LONG_TTL_MS) =>
    replica(`test:{${++stores}}:`, { address: cluster.address, mode: 'cluster', ttlMs }),
}

const session = (id: string): SessionRecord => ({
  id,
  binding: 'https://idp\0alice',
  revision: '2025-11-25',
  capabilities: '{"elicitation":{}}',
})

test('a replica caches only sessions that it serves, and no huge ones', async () => {
  const prefix = `test:{${++stores}}:`
  const [one, two] = [replica(prefix), replica(prefix)]
  for (const id of ['a', 'b', 'c']) await one.add(session(id))
  const sessions = new Sessions({
    relays: new Relays(() => {}),
    storage: {
      store: two,
      bus: undefined,
      buckets: undefined,
      agreeOnSecret: undefined,
      useProof: undefined,
      usageRows: undefined,
      check: async () => {},
      close: () => {},
    },
    findBackend: () => undefined,
    watch: () => undefined,
    onServerMessage: () => {},
    onFault: () => {},
    onCancelled: () => {},
    onEnded: () => {},
  })
  const readCode = async (id: string, binding: string, total: number) => {
    const share = new Budget({ total, share: total, reserve: 0 }).shareOf('caller')
    try {
      await sessions.find(id, binding, share)
    } catch (error) {
      return (error as PublicError).code
    }
    return 'served'
  }
  const { binding } = session('a')
  assert.is(await readCode('a', 'somebody else', 10_000), 'session_unknown')
  assert.is(await readCode('b', binding, 10), 'too_large')
  assert.is(two.size, 0)
  assert.is(await readCode('c', binding, 10_000), 'served')
  assert.is(two.size, 1)
  await one.note('a', 'x', 'y'.repeat(9 * 1024 * 1024))
  assert.is(await two.find('a'), undefined)
  assert.is(two.size, 1)
  sessions.close()
})

for (const [name, make] of Object.entries(makers)) {
  test(`${name}: an entry is found until it is removed`, async () => {
    const store = make()
    await store.add(session('a'))
    await store.add(session('b'))
    assert.equal(await store.find('a'), session('a'))
    assert.is(store.size, 2)
    await store.remove('a')
    assert.is(await store.find('a'), undefined)
    assert.equal(await store.find('b'), session('b'))
    assert.is(await store.find('never'), undefined)
  })

  test(`${name}: notes are kept, changed and taken away`, async () => {
    const store = make()
    await store.add(session('a'))
    await store.note('a', 'log', 'debug')
    await store.note('a', 'other', 'x')
    await store.note('a', 'log', 'error')
    assert.equal((await store.find('a'))?.notes, { log: 'error', other: 'x' })
    await store.note('a', 'log', undefined)
    assert.equal((await store.find('a'))?.notes, { other: 'x' })
  })

  test(`${name}: the first claim holds, and only a caller who knows it can replace it`, async () => {
    const store = make()
    await store.add(session('a'))
    assert.is(await store.claim('a', 'link:b', undefined, 'one'), 'one')
    assert.is(await store.claim('a', 'link:b', undefined, 'two'), 'one')
    assert.is(await store.claim('a', 'link:b', 'wrong', 'two'), 'one')
    assert.is(await store.claim('a', 'link:b', 'one', 'two'), 'two')
    assert.is((await store.find('a'))?.notes?.['link:b'], 'two')
  })

  test(`${name}: an ended session does not come back`, async () => {
    const store = make()
    await store.add(session('a'))
    await store.remove('a')
    await store.note('a', 'log', 'debug')
    assert.is(await store.claim('a', 'link:b', undefined, 'one'), undefined)
    assert.is(await store.find('a'), undefined)
  })

  test(`${name}: a session expires, and each use postpones that`, async () => {
    const store = make(SHORT_TTL_MS)
    const gone: [string, boolean][] = []
    store.onGone = (id, expired) => gone.push([id, expired])
    await store.add(session('used'))
    await store.add(session('idle'))
    const started = performance.now()
    await eventually('the idle one to end', async () => {
      assert.ok(await store.find('used'))
      return gone.length > 0
    })
    assert.equal(gone, [['idle', true]])
    assert.ok(performance.now() - started > SHORT_TTL_MS * 0.9)
    assert.is(await store.find('idle'), undefined)
    assert.is(store.size, 1)
  })
}

test('sessions and notes of one replica are seen by the others at once', async () => {
  const [one, two] = [replica('shared:'), replica('shared:')]
  await one.add(session('a'))
  assert.equal(await two.find('a'), session('a'))
  await eventually('both replicas receive messages', async () => {
    await one.note('a', 'log', `level-${performance.now()}`)
    const level = (await one.find('a'))?.notes?.['log']
    return (await two.find('a'))?.notes?.['log'] === level
  })
})

test('the latest state of a session has what another replica has just written, before it has told', async () => {
  const prefix = `latest-${stores++}:`
  const [mine, other] = [
    replica(prefix),
    connectRedis({ mode: 'standalone', addresses: [redis.address] }, recordLog().log),
  ]
  cleanups.push(() => other.disconnect())
  await mine.add(session('latest'))
  const [key] = await other.keys(`${prefix}session:*`)
  // Nobody tells of this change.
  await other.hset(key as string, 'n:stream', 'elsewhere')
  assert.equal((await mine.latest('latest'))?.notes, { stream: 'elsewhere' })
  assert.equal((await mine.find('latest'))?.notes, { stream: 'elsewhere' })
})

test('a session that one replica ends has ended at all', async () => {
  const [one, two] = [replica('ended:'), replica('ended:')]
  const gone: [string, boolean][] = []
  two.onGone = (id, expired) => gone.push([id, expired])
  await one.add(session('a'))
  assert.ok(await two.find('a'))
  await one.remove('a')
  await eventually('it to be known', async () => (await two.find('a')) === undefined)
  assert.is(gone.length, 1)
  assert.is(gone[0]?.[0], 'a')
})

test('a message on the channel that no replica sent is ignored', async () => {
  const [one, two] = [replica('odd:'), replica('odd:')]
  await one.add(session('a'))
  assert.ok(await two.find('a'))
  const stranger = connectRedis({ mode: 'standalone', addresses: [redis.address] }, recordLog().log)
  cleanups.push(() => stranger.disconnect())
  await eventually('both replicas listen', async () => (await stranger.publish('odd:replicas', 'not JSON')) === 2)
  for (const text of ['null', '[]', '["x"]', '["x",{"kind":"constructor"}]', '["x",null]'])
    await stranger.publish('odd:replicas', text)
  await one.remove('a')
  await eventually('the next message arrives', async () => two.size === 0)
})

test('if two replicas claim at once one wins, and both know which', async () => {
  const [one, two] = [replica('race:'), replica('race:')]
  for (let round = 0; round < 20; round++) {
    await one.add(session(`s${round}`))
    const results = await Promise.all([
      one.claim(`s${round}`, 'link:b', undefined, 'one'),
      two.claim(`s${round}`, 'link:b', undefined, 'two'),
    ])
    assert.is(results[0], results[1])
  }
})

test('a replica that used a session last does not end what another one still uses', async () => {
  const [one, two] = [replica('idle:', { ttlMs: SHORT_TTL_MS }), replica('idle:', { ttlMs: SHORT_TTL_MS })]
  const gone: [string, boolean][] = []
  one.onGone = (id, expired) => gone.push([id, expired])
  await one.add(session('a'))
  await eventually('the first one to release it', async () => {
    assert.ok(await two.find('a'))
    return gone.length > 0
  })
  assert.equal(gone, [['a', false]])
})

test('if Redis is down requests fail at once, if it is silent soon; both recover', async () => {
  const proxy = await startCutProxy({ host: '127.0.0.1', port: redis.port })
  cleanups.push(() => proxy.close())
  const store = replica('away:', { address: `127.0.0.1:${proxy.port}`, commandTimeoutMs: 300 })
  const isRefused = async () => {
    try {
      await store.find('a')
      return false
    } catch (error) {
      assert.is((error as { code: string }).code, 'unavailable')
      return true
    }
  }
  const isFound = async () => {
    await Promise.resolve(store.add(session('a'))).catch(() => {})
    return !(await isRefused())
  }
  await eventually('it to be found', isFound)
  for (const failure of ['refuse', 'freeze'] as const) {
    proxy[failure]()
    await eventually(`${failure} to be noticed`, isRefused)
    const started = performance.now()
    for (let round = 0; round < 100; round++) await isRefused()
    assert.ok(performance.now() - started < 15_000, `${failure}: 100 refusals one after another`)
    proxy.thaw()
    await eventually('it to be found again', async () => {
      if (failure === 'freeze') proxy.thaw()
      return isFound()
    })
  }
})

test.run()
