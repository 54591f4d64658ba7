/** Checks which objects become due when a watch reports a change. */
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createWorld } from '../../../../operator/model/index.ts'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import { kindStore } from '../../../../operator/runtime/watch/kind-store.ts'

const OTHERS = ['MCPGroup/team/g', 'MCPGroup/team/*']

const before: KubernetesObject = {
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPGroup',
  metadata: { name: 'g', namespace: 'team', uid: 'u', generation: 1, resourceVersion: '1', labels: { a: '1' } },
  spec: {},
}

/** Returns a store with one group, and the events since the group was added. */
function store(isEcho = false) {
  const told: string[] = []
  const world = createWorld()
  const reflected = kindStore({
    world,
    kind: 'MCPGroup',
    log: pino({ level: 'silent' }),
    isEcho: () => isEcho,
    onChange: (dependency) => void told.push(dependency),
    onObject: (type) => void told.push(type),
  })
  reflected.put(structuredClone(before))
  told.length = 0
  const known = () => world.objects.get('MCPGroup', 'team', 'g')
  return { put: (object: KubernetesObject) => reflected.put(object), told, known }
}

/** Returns the group as changed by somebody else. */
const changed = (metadata: object, more: object = {}): KubernetesObject => ({
  ...before,
  ...more,
  metadata: { ...before.metadata, resourceVersion: '2', ...metadata },
})

const status = { conditions: [], observedGeneration: 1 }
const ofOthers: Readonly<Record<string, KubernetesObject>> = {
  'a new spec': changed({ generation: 2 }, { spec: { description: 'x' } }),
  'another label': changed({ labels: { a: '2' } }),
  'an annotation': changed({ annotations: { b: '1' } }),
  'a deletion': changed({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
  'another object of the name': changed({ uid: 'v' }),
  'no generation, which would tell of a new spec': changed({ generation: undefined }, { status }),
}
for (const [what, object] of Object.entries(ofOthers))
  for (const isEcho of [false, true])
    test(`objects that read it are due: ${what}${isEcho ? ', with a status of ours' : ''}`, () => {
      const { put, told, known } = store(isEcho)
      put(object)
      assert.equal(told, [...OTHERS, 'MODIFIED'])
      assert.is(known(), object)
    })

test('a change of status or finalizers makes no other object due', () => {
  for (const object of [changed({}, { status }), changed({ finalizers: ['x/y'] }), changed({}, {})]) {
    const { put, told, known } = store()
    put(object)
    assert.equal(told, ['MODIFIED'])
    assert.is(known(), object)
  }
})

test('the echo of a written status makes nothing due, unless something else has changed', () => {
  const { put, told, known } = store(true)
  const written = changed({}, { status })
  put(written)
  assert.equal(told, [])
  assert.is(known(), written)
  put(changed({ resourceVersion: '3', finalizers: ['x/y'] }, { status }))
  assert.equal(told, ['MODIFIED'])
})

test.run()
