import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import type { KubernetesObject } from '../../../operator/model/view.ts'
import { Reflector, type ReflectorOptions, Semaphore } from '../../../operator/runtime/watch/reflector.ts'
import { startCutProxy } from '../../support/network/cut-proxy.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { eventually } from '../support/operator-process.ts'

const CONFIG_MAPS = { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' }
const log = pino({ level: 'silent' })

const cluster = newCluster()
let plane: ControlPlane
let proxy: Awaited<ReturnType<typeof startCutProxy>>
let api: ApiServer
const reflectors: Reflector[] = []

/** A store that records its events, for any test to read. */
function startReflector(options: Partial<ReflectorOptions> = {}) {
  const objects = new Map<string, KubernetesObject>()
  const removed: string[] = []
  const reflector = new Reflector({
    api,
    resource: CONFIG_MAPS,
    namespace: 'default',
    pages: new Semaphore(1),
    log,
    store: {
      put: (object) => void objects.set(object.metadata.name, object),
      remove: (object) => {
        objects.delete(object.metadata.name)
        removed.push(object.metadata.name)
      },
      replace(all) {
        objects.clear()
        for (const object of all) objects.set(object.metadata.name, object)
      },
    },
    ...options,
  })
  reflectors.push(reflector)
  reflector.start()
  return { reflector, objects, removed }
}

const create = (name: string, value = '1') =>
  plane.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels: { test: 'yes' } }, data: { value } })
const remove = (name: string) => plane.remove('configmap', name)

test.before(async () => {
  plane = await cluster.bare()
  proxy = await startCutProxy({ host: '127.0.0.1', port: Number(new URL(plane.server).port) })
  const kubeconfig = plane.kubeconfigFor('proxied', 'administrator', `https://127.0.0.1:${proxy.port}`)
  api = new ApiServer(loadKubeConfig(kubeconfig), 'test')
})

test.after.each(async () => {
  proxy.thaw()
  for (const reflector of reflectors.splice(0)) await reflector.stop()
})

test.after(async () => {
  await proxy?.close()
  await cluster.stop()
})

test('a reflector lists in pages, then follows additions, changes and deletions', async () => {
  for (let count = 0; count < 7; count++) create(`page-${count}`)
  const { reflector, objects } = startReflector({ pageSize: 3, labelSelector: 'test=yes' })
  await reflector.synced
  assert.equal(
    [...objects.keys()].sort(),
    [0, 1, 2, 3, 4, 5, 6].map((count) => `page-${count}`),
  )
  assert.is(objects.get('page-0')?.kind, 'ConfigMap')
  create('later')
  await eventually(() => objects.has('later'), 'a created object is seen')
  create('later', '2')
  await eventually(() => (objects.get('later') as LiveObject | undefined)?.data['value'] === '2', 'a change is seen')
  remove('later')
  await eventually(() => !objects.has('later'), 'a deletion is seen')
  assert.is(reflector.metrics.lists, 1)
})

test('a watch that ends is resumed without a new list', async () => {
  const { reflector, objects } = startReflector({ watchSeconds: 1 })
  await reflector.synced
  await eventually(() => reflector.metrics.watches >= 3, 'the server ends watches')
  create('across')
  await eventually(() => objects.has('across'), 'events are seen across watches')
  assert.is(reflector.metrics.lists, 1)
  assert.is(reflector.metrics.failures, 0)
})

test('no deletion is lost when the connection is cut', async () => {
  create('doomed')
  const { reflector, objects, removed } = startReflector()
  await reflector.synced
  proxy.refuse()
  remove('doomed')
  create('meanwhile')
  await eventually(() => reflector.metrics.failures > 0, 'the connection is cut')
  assert.ok(objects.has('doomed'))
  proxy.thaw()
  await eventually(() => !objects.has('doomed') && objects.has('meanwhile'), 'the missed events are caught up')
  assert.equal(removed, ['doomed'])
  assert.is(reflector.metrics.lists, 1)
})

test('a silent connection is given up', async () => {
  const { reflector, objects } = startReflector({ idleLimit: 3000 })
  await reflector.synced
  proxy.freeze()
  create('unheard')
  await eventually(() => reflector.metrics.failures > 0, 'the silent connection is noticed')
  proxy.thaw()
  await eventually(() => objects.has('unheard'), 'the object is seen on a new connection')
})

test('an expired resource version causes a new list, which drops objects that were deleted meanwhile', async () => {
  create('forgotten')
  const { reflector, objects } = startReflector()
  await reflector.synced
  proxy.refuse()
  remove('forgotten')
  create('since')
  // A restarted API server has no history before its own start: 410 Gone.
  await plane.stopApiServer('SIGKILL')
  await plane.startApiServer()
  for (let count = 0; count < 3; count++) create(`after-${count}`)
  proxy.thaw()
  await eventually(
    () => objects.has('since') && objects.has('after-2') && !objects.has('forgotten'),
    'the store is right again',
  )
  assert.ok(reflector.metrics.lists >= 2)
})

test('only metadata is requested where that is enough', async () => {
  create('slim', 'not to be seen')
  const { reflector, objects } = startReflector({ metadataOnly: true })
  await reflector.synced
  const object = unwrap(objects.get('slim'))
  assert.is(object.kind, 'ConfigMap')
  assert.not('data' in object)
  create('slim-later')
  await eventually(() => objects.has('slim-later'), 'the watch gives metadata too')
  assert.not('data' in unwrap(objects.get('slim-later')))
})

test('an empty list of metadata is a list', async () => {
  const { reflector, objects } = startReflector({ metadataOnly: true, labelSelector: 'test=nothing-has-this' })
  await reflector.synced
  assert.is(objects.size, 0)
  assert.is(reflector.metrics.failures, 0)
})

test('two hundred requests share a few connections', async () => {
  const before = (await connections()).length
  for (let count = 0; count < 200; count++) await api.get(CONFIG_MAPS, 'default', 'slim')
  assert.ok((await connections()).length - before <= 4)
})

async function connections(): Promise<unknown[]> {
  return process.getActiveResourcesInfo().filter((name) => name.includes('TCP'))
}

test.run()
