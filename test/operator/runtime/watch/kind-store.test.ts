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
  const changes: string[] = []
  const world = createWorld()
  const reflected = kindStore({
    world,
    kind: 'MCPGroup',
    log: pino({ level: 'silent' }),
    isEcho: () => isEcho,
    onChange: (dependency) => void changes.push(dependency),
    onObject: (type) => void changes.push(type),
  })
  reflected.put(structuredClone(before))
  changes.length = 0
  const readKnown = () => world.objects.get('MCPGroup', 'team', 'g')
  return { put: (object: KubernetesObject) => reflected.put(object), changes, readKnown }
}

/** Returns the group as changed by somebody else. */
const buildChanged = (metadata: object, more: object = {}): KubernetesObject => ({
  ...before,
  ...more,
  metadata: { ...before.metadata, resourceVersion: '2', ...metadata },
})

const status = { conditions: [], observedGeneration: 1 }
const ofOthers: Readonly<Record<string, KubernetesObject>> = {
  'a new spec': buildChanged({ generation: 2 }, { spec: { description: 'x' } }),
  'another label': buildChanged({ labels: { a: '2' } }),
  'an annotation': buildChanged({ annotations: { b: '1' } }),
  'a deletion': buildChanged({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
  'another object of the name': buildChanged({ uid: 'v' }),
  'no generation, which would tell of a new spec': buildChanged({ generation: undefined }, { status }),
}
for (const [what, object] of Object.entries(ofOthers))
  for (const isEcho of [false, true])
    test(`objects that read it are due: ${what}${isEcho ? ', with a status of ours' : ''}`, () => {
      const { put, changes, readKnown } = store(isEcho)
      put(object)
      assert.equal(changes, [...OTHERS, 'MODIFIED'])
      assert.is(readKnown(), object)
    })

test('a change of status or finalizers makes no other object due', () => {
  for (const object of [buildChanged({}, { status }), buildChanged({ finalizers: ['x/y'] }), buildChanged({}, {})]) {
    const { put, changes, readKnown } = store()
    put(object)
    assert.equal(changes, ['MODIFIED'])
    assert.is(readKnown(), object)
  }
})

test('the echo of a written status makes nothing due, unless something else has changed', () => {
  const { put, changes, readKnown } = store(true)
  const written = buildChanged({}, { status })
  put(written)
  assert.equal(changes, [])
  assert.is(readKnown(), written)
  put(buildChanged({ resourceVersion: '3', finalizers: ['x/y'] }, { status }))
  assert.equal(changes, ['MODIFIED'])
})

test.run()
