import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { SharedObjects, Worlds } from '../../console/places/worlds.ts'

const object = (uid?: string, resourceVersion?: string, spec: object = {}) => ({
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPServer',
  metadata: { name: 'clock', namespace: 'a', ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
  spec,
})

test('equal objects of two lists are stored once, and others stay as they are', () => {
  const objects = new SharedObjects()
  const first = object('u', '1')
  assert.is(objects.share(first, 100), first)
  assert.is(objects.share(object('u', '1'), 100), first)
  for (const [other, size] of [
    [object('u', '2'), 100],
    [object('v', '1'), 100],
    [object('u', '1', { image: 'other' }), 120],
    [object('u'), 100],
    [object(undefined, '1'), 100],
  ] as const)
    assert.is(objects.share(other, size), other)
})

test('objects that arrive after their reading has failed take no memory', () => {
  const worlds = new Worlds(1_000)
  for (let count = 0; count < 20; count++) {
    const failed = worlds.reserve()
    assert.ok(failed.add(200))
    failed.release()
    assert.not(failed.add(200))
  }
  assert.ok(worlds.reserve().add(200))
})

test.run()
