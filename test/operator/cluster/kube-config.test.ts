/** Checks that connections to the API server are reused, and that no dispatcher is built for a request that reuses one. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { RequestOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { type Cluster, HttpMethod, RequestContext, type User } from '@kubernetes/client-node'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { PooledKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'

/** Counts the dispatchers that are built. */
class CountedKubeConfig extends PooledKubeConfig {
  built = 0

  override createDispatcherOptions(...args: Parameters<PooledKubeConfig['createDispatcherOptions']>) {
    this.built++
    return super.createDispatcherOptions(...args)
  }
}

/** A request that waits for its credential. */
interface PendingLoad {
  /** Lets the request continue, with a client certificate if one is named. */
  go(cert?: string): void
}

/** Returns a kubeconfig whose CA `load` changes. While `waits` is true, new requests are held. */
function setUp(settings: Partial<Cluster> = {}) {
  const config = new CountedKubeConfig()
  const pending: PendingLoad[] = []
  const state = { waits: false, cert: 'first' }
  config.addAuthenticator({
    isAuthProvider: () => true,
    async applyAuthentication(_user: User, options: RequestOptions) {
      options.cert = state.cert
      if (!state.waits) return
      const { promise, resolve } = Promise.withResolvers<string>()
      pending.push({ go: (cert = state.cert) => resolve(cert) })
      options.cert = await promise
    },
  })
  const cluster = (caData: string): Cluster => ({
    name: 'c',
    server: 'https://127.0.0.1:1',
    caData,
    skipTLSVerify: false,
    ...settings,
  })
  const load = (ca: string) => config.loadFromClusterAndUser(cluster(btoa(ca)), { name: 'u', token: 't' })
  const dispatcher = async () => {
    const context = new RequestContext('https://127.0.0.1:1/api', HttpMethod.GET)
    await config.applySecurityAuthentication(context)
    assert.is(context.getHeaders()['Authorization'], 'Bearer t')
    return context.getDispatcher()
  }
  load('one')
  return { config, load, dispatcher, pending, state }
}

test('all requests go over one pool, those that are the first together too', async () => {
  const { config, dispatcher } = setUp()
  const [first, second] = await Promise.all([dispatcher(), dispatcher()])
  assert.ok(first)
  assert.is(second, first)
  assert.is(await dispatcher(), first)
  await config.closePool()
})

test('a request that can use the pool builds no dispatcher', async () => {
  const { config, dispatcher } = setUp()
  await dispatcher()
  assert.is(config.built, 1)
  await Promise.all([dispatcher(), dispatcher()])
  assert.is(config.built, 1)
  await config.closePool()
})

test('another CA has a pool of its own', async () => {
  const { config, load, dispatcher } = setUp()
  const first = await dispatcher()
  load('two')
  const second = await dispatcher()
  assert.ok(second)
  assert.is.not(second, first)
  assert.is(await dispatcher(), second)
  await config.closePool()
})

/** Returns every order of the given items. */
function listOrders<T>(things: readonly T[]): readonly (readonly T[])[] {
  if (things.length < 2) return [things]
  return things.flatMap((one, index) => listOrders(things.toSpliced(index, 1)).map((rest) => [one, ...rest]))
}

const ORDERS = listOrders([0, 1, 2, 3])

for (const [how, between] of [
  ['together', () => Promise.resolve()],
  ['one behind the other', () => setImmediate()],
] as const) {
  test(`a CA that changes while requests start, which continue ${how}, in any order: each has a pool`, async () => {
    for (const order of ORDERS) {
      const { config, load, dispatcher, pending, state } = setUp()
      const old = await dispatcher()
      state.waits = true
      const starting = [dispatcher(), dispatcher()]
      load('two')
      starting.push(dispatcher(), dispatcher())
      assert.is(pending.length, 4)
      for (const index of order) {
        pending[index]?.go()
        await between()
      }
      const [before, beforeToo, after, afterToo] = await Promise.all(starting)
      assert.ok(before && beforeToo && after, `${order}`)
      assert.is.not(after, old, `${order}`)
      assert.is(afterToo, after, `${order}`)
      // A request that read the CA before the change must not overwrite what a later one has read.
      state.waits = false
      assert.is(await dispatcher(), after, `${order}`)
      await config.closePool()
    }
  })
}

test('of two requests the first gets the newer client certificate: both have a pool', async () => {
  for (const order of [
    [0, 1],
    [1, 0],
  ]) {
    const { config, dispatcher, pending, state } = setUp()
    const old = await dispatcher()
    state.waits = true
    const starting = [dispatcher(), dispatcher()]
    for (const index of order) pending[index]?.go(index === 0 ? 'second' : 'first')
    const [newer, older] = await Promise.all(starting)
    assert.ok(newer)
    assert.is.not(newer, old)
    assert.is(older, old)
    await config.closePool()
  }
})

test('a request that got a pool just before its replacement is answered', async () => {
  const server = createServer((_, response) => response.end('{}')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const { port } = server.address() as AddressInfo
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      // Without verification a server may speak plain HTTP; a change of its CA still counts.
      const { config, load, pending, state } = setUp({ server: `http://127.0.0.1:${port}`, skipTLSVerify: true })
      const api = new ApiServer(config, 'test')
      await api.request('GET', '/api')
      state.waits = true
      const before = api.request('GET', '/api')
      load('two')
      const after = api.request('GET', '/api')
      for (const index of order) pending[index]?.go()
      assert.equal(await Promise.all([before, after]), [{}, {}])
      await config.closePool()
    }
  } finally {
    server.close()
  }
})

test.run()
