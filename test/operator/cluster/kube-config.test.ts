/** Connections to the API server are kept, and nothing is built for a request that goes over one of them. */
import { HttpMethod, RequestContext } from '@kubernetes/client-node'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PooledKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'

function setUp() {
  const config = new PooledKubeConfig()
  const cluster = (caData: string) => ({ name: 'c', server: 'https://127.0.0.1:1', caData, skipTLSVerify: false })
  const load = (ca: string) => config.loadFromClusterAndUser(cluster(btoa(ca)), { name: 'u', token: 't' })
  const dispatcher = async () => {
    const context = new RequestContext('https://127.0.0.1:1/api', HttpMethod.GET)
    await config.applySecurityAuthentication(context)
    assert.is(context.getHeaders()['Authorization'], 'Bearer t')
    return context.getDispatcher()
  }
  load('one')
  return { config, load, dispatcher }
}

test('all requests go over one pool, those that are the first together too', async () => {
  const { config, dispatcher } = setUp()
  const [first, second] = await Promise.all([dispatcher(), dispatcher()])
  assert.ok(first)
  assert.is(second, first)
  assert.is(await dispatcher(), first)
  await config.closePool()
})

test('a request that the pool will do for builds no dispatcher', async () => {
  const { config, dispatcher } = setUp()
  await dispatcher()
  const options = config.createDispatcherOptions(config.getCurrentCluster(), { ca: Buffer.from('one') })
  assert.is(options.type, 'none')
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

test.run()
