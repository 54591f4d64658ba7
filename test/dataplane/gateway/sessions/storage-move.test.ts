/** Changes the session storage: the new one is used once it works, and until then the old one. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Relays } from '../../../../dataplane/gateway/sessions/relay/relays.ts'
import { Sessions } from '../../../../dataplane/gateway/sessions/sessions.ts'
import type { SessionBus } from '../../../../dataplane/gateway/sessions/store/bus.ts'
import type { SessionStorage } from '../../../../dataplane/gateway/sessions/store/storage.ts'
import { createMemoryStore } from '../../../../dataplane/gateway/sessions/store/store.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { startCutProxy } from '../../../support/network/cut-proxy.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

let backend: McpTestServer
const stage = new RedisStage(test, () => backend.url)
const { cleanups } = stage
test.before(async () => {
  backend = await startMcpServer({ name: 'b', mode: 'sessions' })
})
test.after(() => backend.close())

const redisAt = (address: string): TestConfig['sessionStorage'] => ({
  redis: { addresses: [address], dialTimeout: '2s', readTimeout: '2s', writeTimeout: '2s' },
})
const readProblem = async (gateway: GatewayUnderTest) => {
  const { problems } = (await gateway.status()) as unknown as { problems: { code: string }[] }
  return problems.some(({ code }) => code === 'SessionStorageUnavailable')
}
const readStorage = async (gateway: GatewayUnderTest) =>
  ((await gateway.status()) as unknown as { sessionStorage: string }).sessionStorage
const pingStatus = async (gateway: GatewayUnderTest, session: Record<string, string>) =>
  (await post(gateway.url, rpc('ping'), session)).status

test('sessions stay in their Redis while a newly configured one can’t be reached, and move once it can', async () => {
  const proxy = await startCutProxy({ host: '127.0.0.1', port: stage.redis.port })
  const config = stage.config()
  const gateway = await startGateway(config)
  cleanups.push(
    () => gateway.close(),
    () => proxy.close(),
  )
  const session = await openSession(gateway.url)
  for (const failure of ['refuse', 'freeze'] as const) {
    proxy[failure]()
    await gateway.configure({ ...config, sessionStorage: redisAt(`127.0.0.1:${proxy.port}`) })
    await eventually('the problem', () => readProblem(gateway))
    assert.is(await pingStatus(gateway, session), 200)
    assert.is(await pingStatus(gateway, await openSession(gateway.url)), 200)
    assert.ok(gateway.lines.some(({ msg }) => /does not work/.test(String(msg))))
    if (failure === 'refuse') {
      // The earlier configuration equals what is in use, so nothing is wrong any more.
      await gateway.configure(config)
      await eventually('no problem', async () => !(await readProblem(gateway)))
    }
  }
  proxy.thaw()
  await eventually('no problem', async () => !(await readProblem(gateway)))
  assert.is(await pingStatus(gateway, session), 200)
  proxy.refuse()
  await eventually('the new one to be in use', async () => (await pingStatus(gateway, session)) === 503)
})

test('a newer configuration replaces a storage that was never reached', async () => {
  const { sessionStorage, ...memory } = stage.config()
  const gateway = await startGateway(memory)
  cleanups.push(() => gateway.close())
  const session = await openSession(gateway.url)
  await gateway.configure({ ...memory, sessionStorage: redisAt(`127.0.0.1:${await freePort()}`) })
  await eventually('the problem', () => readProblem(gateway))
  assert.is(await readStorage(gateway), 'memory')
  assert.is(await pingStatus(gateway, session), 200)
  await gateway.configure({ ...memory, ...(sessionStorage && { sessionStorage }) })
  await eventually('Redis', async () => (await readStorage(gateway)) === 'redis')
  assert.not.ok(await readProblem(gateway))
  assert.is(await pingStatus(gateway, session), 200)
})

/** Returns a storage in this process that stands for one shared by replicas. */
function sharedStorage(replica: string, add?: () => void): SessionStorage {
  const store = createMemoryStore({ ttlMs: 60_000 })
  const bus: SessionBus = { replica, send: async () => true, notify: () => {}, on: () => {}, close: () => {} }
  const taking: SessionStorage['store'] = Object.assign(Object.create(store), {
    add: async (record: Parameters<typeof store.add>[0]) => {
      add?.()
      await store.add(record)
    },
  })
  return {
    store: taking,
    bus,
    buckets: undefined,
    agreeOnSecret: undefined,
    useProof: undefined,
    usageRows: undefined,
    check: async () => {},
    close: () => store.close(),
  }
}

const sessionsIn = (storage: SessionStorage) =>
  new Sessions({
    relays: new Relays(() => {}),
    storage,
    findBackend: () => undefined,
    watch: () => undefined,
    onServerMessage: () => {},
    onEnded: () => {},
    onCancelled: () => {},
    onFault: (error) => assert.unreachable(String(error)),
  })

test('a storage that refuses the sessions is not used', async () => {
  const sessions = sessionsIn(sharedStorage('one'))
  const { record } = await sessions.open({ binding: 'b', revision: '2025-11-25', capabilities: '{}' })
  let attempts = 0
  const refusing = sharedStorage('two', () => {
    attempts++
    throw new Error('it is full')
  })
  try {
    await sessions.moveTo(refusing)
    assert.unreachable()
  } catch (error) {
    assert.match(String(error), 'it is full')
  }
  assert.is(attempts, 1)
  assert.is((await sessions.find(record.id, 'b')).record.id, record.id)
  sessions.close()
})

test('a question from before the move can be answered after it', async () => {
  const sessions = sessionsIn(sharedStorage('one'))
  const session = await sessions.open({ binding: 'b', revision: '2025-11-25', capabilities: '{}' })
  let question = ''
  const answer = sessions.request(session, 'roots/list', '{}', {
    timeoutMs: 60_000,
    send: (message) => {
      question = message
    },
  })
  await sessions.moveTo(sharedStorage('two'))
  const id = JSON.stringify(JSON.parse(question).id)
  sessions.responded(session, id, 'yes')
  assert.is(await answer, 'yes')
  sessions.close()
})

test('a session that ends during the move does not come back, and a watched resource stays watched', async () => {
  const sessions = sessionsIn(sharedStorage('one'))
  const fields = { binding: 'b', revision: '2025-11-25', capabilities: '{}' }
  const [ending, staying] = [await sessions.open(fields), await sessions.open(fields)]
  await sessions.note(staying, 'watch:file:///a', 'one')
  let ended: Promise<void> | undefined
  const next = sharedStorage('two', () => {
    ended ??= sessions.end(ending)
  })
  await sessions.moveTo(next)
  await ended
  assert.is(await next.store.find(ending.record.id), undefined)
  assert.is((await next.store.find(staying.record.id))?.notes?.['watch:file:///a'], 'two')
  sessions.close()
})

test.run()
