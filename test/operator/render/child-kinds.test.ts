import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { childKinds } from '../../../operator/cluster/kubernetes/resource.ts'
import { fillWorld } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { context, worldContent } from '../../support/operator/plans.ts'

const folder = new URL('../golden/', import.meta.url)

/** Returns the kinds of all children in the golden files. Together the files use every field that adds a child. */
function renderedKinds(): string[] {
  const kinds = new Set<string>()
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.in.yaml'))) {
    const world = fillWorld(worldContent(readFileSync(new URL(name, folder), 'utf8')))
    for (const { plan } of planAll(world.view, context))
      for (const { kind } of plan.children === 'hold' ? [] : plan.children) kinds.add(kind)
  }
  return [...kinds].sort()
}

test('the operator may write the kinds that it makes, and no other', () => {
  assert.equal(childKinds.map(({ kind }) => kind).sort(), renderedKinds())
})

test.run()
