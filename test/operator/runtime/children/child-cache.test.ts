/** Answers to our own writes and events of watches arrive in any order; the cache must show the cluster's state. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { atOnce } from '../../../../crds/settings/stepwise.ts'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import { ChildCache } from '../../../../operator/runtime/children/child-cache.ts'
import type { ReflectedStore } from '../../../../operator/runtime/watch/reflector.ts'

const child = (resourceVersion: number, { uid = 'a', name = 'one' } = {}): KubernetesObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'team', name, uid, resourceVersion: String(resourceVersion) },
})

/** Stores the result of a list. */
function replace(store: ReflectedStore, objects: readonly KubernetesObject[], version: string): void {
  const steps = store.replace(objects, version)
  if (steps) atOnce(steps)
}

function setUp(namespace?: string) {
  const changed: string[] = []
  const cache = new ChildCache(({ metadata }) => changed.push(metadata.name))
  const version = () => cache.get('Deployment', 'team', 'one')?.metadata.resourceVersion
  return { cache, changed, version, store: cache.store('Deployment', namespace) }
}

for (const namespace of [undefined, 'team']) {
  const where = namespace ? 'one namespace' : 'all namespaces'

  test(`${where}: a write is visible before the watch delivers it, and stays then`, () => {
    const { cache, changed, store, version } = setUp(namespace)
    replace(store, [], '5')
    cache.written(child(10))
    assert.is(version(), '10')
    assert.equal(changed, ['one'])
    store.put(child(10))
    assert.is(version(), '10')
  })

  test(`${where}: the late answer of a write does not bring back an object that was deleted meanwhile`, () => {
    const { cache, changed, store, version } = setUp(namespace)
    replace(store, [], '5')
    store.put(child(10))
    store.remove(child(12))
    changed.length = 0
    cache.written(child(10))
    assert.is(version(), undefined)
    assert.equal(changed, ['one'], 'its owner is due again')
  })

  test(`${where}: nor does it if the watch broke meanwhile and a list shows that it is gone`, () => {
    const { cache, store, version } = setUp(namespace)
    replace(store, [], '5')
    replace(store, [child(7, { name: 'another' })], '20')
    cache.written(child(10))
    assert.is(version(), undefined)
  })

  test(`${where}: nor does it hide a later state, or another object that has the name by now`, () => {
    const { cache, store, version } = setUp(namespace)
    replace(store, [], '5')
    store.put(child(14))
    cache.written(child(10))
    assert.is(version(), '14')
    store.remove(child(15))
    store.put(child(16, { uid: 'b' }))
    cache.written(child(12))
    assert.is(version(), '16')
  })

  test(`${where}: versions that start again after a list count from that list`, () => {
    const { cache, store, version } = setUp(namespace)
    replace(store, [child(900)], '1000')
    replace(store, [], '3')
    cache.written(child(4))
    assert.is(version(), '4')
  })
}

test('the version of one namespace means nothing in another', () => {
  const { cache, version } = setUp('team')
  replace(cache.store('Deployment', 'others'), [], '100')
  cache.written(child(10))
  assert.is(version(), '10')
})

test.run()
