import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fillWorld, type World } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { canonicalYaml } from '../../../operator/render/object/canonical.ts'
import { context, worldContent } from '../../support/operator/plans.ts'

/** `UPDATE_GOLDEN=1` writes the files again; read the difference before you commit it. */
const update = process.env['UPDATE_GOLDEN'] === '1'
const folder = new URL('../golden/', import.meta.url)
const cases = readdirSync(folder)
  .filter((name) => name.endsWith('.in.yaml'))
  .map((name) => name.replace('.in.yaml', ''))
  .sort()

const planWorld = (world: World) =>
  canonicalYaml(
    planAll(world.view, context).map(({ object, plan }) => ({
      object: `${object.kind} ${object.metadata.namespace}/${object.metadata.name}`,
      ...plan,
    })),
  )

for (const name of cases) {
  const content = () => worldContent(readFileSync(new URL(`${name}.in.yaml`, folder), 'utf8'))

  test(`${name} gives the plans of its golden file`, () => {
    const file = new URL(`${name}.out.yaml`, folder)
    const plans = planWorld(fillWorld(content()))
    if (update) writeFileSync(file, plans)
    assert.ok(existsSync(file), `${name}.out.yaml is missing: run this test with UPDATE_GOLDEN=1`)
    assert.fixture(plans, readFileSync(file, 'utf8'))
  })

  test(`${name} gives the same bytes again, in whatever order its objects come`, () => {
    const { objects, secrets, configMaps, observations, sources } = content()
    const backward = <T>(list: Iterable<T>) => [...list].reverse()
    const shuffled = fillWorld({
      objects: backward(objects).map((object) => reorder(object) as typeof object),
      secrets: backward(secrets),
      configMaps: backward(configMaps),
      observations,
      sources,
    })
    assert.is(planWorld(shuffled), planWorld(fillWorld(content())))
  })
}

/** Returns the value with the keys of every object reversed. */
function reorder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reorder)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, reorder(inner)]),
  )
}

test.run()
