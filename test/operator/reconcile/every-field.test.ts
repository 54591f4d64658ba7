/**
 * Checks that no field is ignored: changing any field that is read changes the plan by more than its hash. The corpus
 * must set every such field, so a new field that it lacks fails here too.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type KindName, kinds, unsupportedFields } from '../../../crds/index.ts'
import { isObject } from '../../../crds/settings/json.ts'
import type { SchemaNode } from '../../../crds/walk.ts'
import { fillWorld, type KubernetesObject } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { fieldCorpus } from '../../support/operator/field-corpus.ts'
import {
  another,
  type Leaf,
  planToText,
  readersAmong,
  set,
  walkFields,
  walkLeaves,
} from '../../support/operator/fields.ts'
import { addDefaults, ChangedWorld, context, formatName, worldContent } from '../../support/operator/plans.ts'

const content = worldContent(fieldCorpus)
const objects = [...content.objects]
/** An optional ConfigMap differs from a required one only if it is missing. */
const without = { ...content, configMaps: [] }
const worlds = [content, without].map((one) => {
  const world = new ChangedWorld(one)
  const before = new Map(objects.map((object) => [formatName(object), planToText(object, world.view)]))
  return { world, before, readers: readersAmong(objects, world.view) }
})

/**
 * Tells whether another form of an object changes the plan of any object. The object itself comes first, since it
 * usually changes.
 */
function changesPlans(changed: KubernetesObject): boolean {
  const name = formatName(changed)
  return worlds.some(({ world, before, readers }) => {
    const view = world.with(changed)
    const affected = [changed, ...(readers.get(name) ?? [])]
    return affected.some((object) => planToText(object, view) !== before.get(formatName(object)))
  })
}

/** Fields with one value: only people read them, or the other value is not supported yet. */
const single = (leaf: Leaf) => another(leaf) === undefined

test('the whole corpus is served, except one entry whose credential is missing', () => {
  for (const { object, plan } of planAll(fillWorld(content).view, context)) {
    if (object.metadata.name === 'secured') continue
    const bad = plan.status.conditions.filter(({ type, status }) => status === 'False' && type !== 'BackendsReady')
    assert.equal(bad, [], `${object.kind} ${object.metadata.name}`)
    assert.equal(unsupportedFields(kinds[object.kind as KindName], object as { spec?: unknown }), [])
  }
})

/** Returns the value with the keys of every object reversed; lists keep their order. */
function backward(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(backward)
  if (!isObject(value)) return value
  const entries = Object.entries(value).map(([key, inner]): [string, unknown] => [key, backward(inner)])
  return Object.fromEntries(entries.reverse())
}

test('the order of keys in a manifest does not change the plan', () => {
  const plans = (all: readonly KubernetesObject[]) =>
    planAll(fillWorld({ ...content, objects: all }).view, context).map(({ object, plan }) => ({
      name: formatName(object),
      plan: JSON.stringify(plan),
    }))
  const written = plans(objects)
  const turned = plans(objects.map((object) => backward(object) as KubernetesObject))
  for (const [at, { name, plan }] of written.entries()) assert.is(turned[at]?.plan, plan, name)
})

for (const kind of Object.keys(kinds) as KindName[]) {
  const own = objects.filter((object) => object.kind === kind)
  const schema = kinds[kind].spec as SchemaNode
  const leaves = own.flatMap((object) =>
    [...walkLeaves(schema, object['spec'], '/spec', '')].map((leaf) => ({ object, leaf })),
  )

  test(`${kind}: every field that somebody reads is in the corpus`, () => {
    const present = new Set(leaves.map(({ leaf }) => leaf.field))
    const absent = [...walkFields(schema, '')].filter((field) => !present.has(field))
    assert.equal(absent, [])
  })

  test(`${kind}: every field that is set changes the plan`, () => {
    const read = new Map<string, boolean>()
    for (const { object, leaf } of leaves) {
      if (single(leaf) || read.get(leaf.field)) continue
      const changed = addDefaults(set(object, leaf.pointer, another(leaf)) as KubernetesObject)
      read.set(leaf.field, changesPlans(changed))
    }
    const ignored = [...read].filter(([, isRead]) => !isRead).map(([field]) => field)
    assert.equal(ignored, [], 'accepted and ignored')
  })
}

test.run()
