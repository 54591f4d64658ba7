import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { SharedObjects } from '../../console/places/worlds.ts'

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

test.run()
