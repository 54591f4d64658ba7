import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { defineKind } from '../../../crds/define.ts'
import { list, object, objectName, Type } from '../../../crds/settings/schema.ts'
import { createObjectIndex } from '../../../operator/model/index.ts'
import type { KubernetesObject } from '../../../operator/model/view.ts'

const plain = { shortNames: [], description: '', columns: [], status: object('', {}) } as const
const box = defineKind({ ...plain, kind: 'Box', plural: 'boxes', role: 'group', spec: object('', {}) })
const thing = defineKind({
  ...plain,
  kind: 'Thing',
  plural: 'things',
  role: 'workload',
  spec: object('', {
    box: Type.Optional(objectName('operator', '', { refersTo: 'Box' })),
    others: Type.Optional(list('', objectName('operator', '', { refersTo: 'Thing' }))),
    secret: Type.Optional(objectName('operator', '', { refersTo: 'Secret' })),
  }),
})
const kinds = { Box: box, Thing: thing }

const make = (kind: string, name: string, spec: object = {}, namespace = 'a'): KubernetesObject => ({
  apiVersion: 'x/v1',
  kind,
  metadata: { name, namespace },
  spec,
})

test('referrers follow objects that are added, changed and deleted, also for a missing target', () => {
  const index = createObjectIndex(kinds)
  index.put(make('Thing', 'two', { box: 'left' }))
  index.put(make('Thing', 'one', { box: 'left', others: ['two'] }))
  assert.equal(index.referrers('Box', 'a', 'left'), [
    { kind: 'Thing', name: 'one' },
    { kind: 'Thing', name: 'two' },
  ])
  assert.is(index.get('Box', 'a', 'left'), undefined)

  index.put(make('Thing', 'one', { box: 'right' }))
  assert.equal(index.referrers('Box', 'a', 'left'), [{ kind: 'Thing', name: 'two' }])
  assert.equal(index.referrers('Box', 'a', 'right'), [{ kind: 'Thing', name: 'one' }])
  assert.equal(index.referrers('Thing', 'a', 'two'), [])

  index.delete('Thing', 'a', 'two')
  assert.equal(index.referrers('Box', 'a', 'left'), [])
  index.delete('Thing', 'a', 'two')
  assert.equal(
    index.list('Thing', 'a').map(({ metadata }) => metadata.name),
    ['one'],
  )
})

test('a repeated name in one object counts once', () => {
  const index = createObjectIndex(kinds)
  index.put(make('Thing', 'one', { others: ['two', 'two'] }))
  assert.equal(index.referrers('Thing', 'a', 'two'), [{ kind: 'Thing', name: 'one' }])
})

test('Secrets are referred to as well, so that their users can be woken', () => {
  const index = createObjectIndex(kinds)
  index.put(make('Thing', 'one', { box: 'left', secret: 'key' }))
  assert.equal(index.referrers('Secret', 'a', 'key'), [{ kind: 'Thing', name: 'one' }])
  assert.equal(index.references('Thing', 'a', 'one'), [
    { kind: 'Box', name: 'left' },
    { kind: 'Secret', name: 'key' },
  ])
})

test('references never leave a namespace', () => {
  const index = createObjectIndex(kinds)
  index.put(make('Thing', 'one', { box: 'left' }, 'b'))
  assert.equal(index.referrers('Box', 'a', 'left'), [])
  assert.equal(index.list('Thing', 'a'), [])
})

test('lists are in order of name, and of namespace and kind if all are requested', () => {
  const index = createObjectIndex(kinds)
  for (const [kind, name, namespace] of [
    ['Thing', 'b', 'n'],
    ['Thing', 'B', 'n'],
    ['Box', 'z', 'n'],
    ['Thing', 'a', 'n'],
    ['Thing', 'a', 'm'],
  ] as const)
    index.put(make(kind, name, {}, namespace))
  assert.equal(
    index.list('Thing', 'n').map(({ metadata }) => metadata.name),
    ['B', 'a', 'b'],
  )
  assert.equal(
    index.all().map(({ kind, metadata }) => `${metadata.namespace}/${kind}/${metadata.name}`),
    ['m/Thing/a', 'n/Box/z', 'n/Thing/B', 'n/Thing/a', 'n/Thing/b'],
  )
})

test('an object of a foreign kind is refused', () => {
  assert.throws(() => createObjectIndex(kinds).put(make('Pod', 'one')), /not a kind of ours: Pod/)
})

test.run()
