/** What a cluster does for a workload and nobody does on somebody's own machine: it is told, or nothing is built on it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fillWorld } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { condition, context, worldContent } from '../../support/operator/plans.ts'

const planned = (spec: string) => {
  const text = `kind: MCPServer\nmetadata: {name: it}\nspec: {image: x, transport: streamable-http, ${spec}}`
  return planAll(fillWorld(worldContent(text)).view, { ...context, isOwnMachine: true })[0]?.plan
}

test('a profile that shuts a server in is not in force, and a warning says so', () => {
  assert.match(
    condition(planned('permissionProfile: {name: none}'), 'PermissionProfileWarning') ?? '',
    /^True NotEnforced/,
  )
  assert.is(condition(planned('permissionProfile: {name: network}'), 'PermissionProfileWarning'), undefined)
  assert.is(condition(planned(''), 'PermissionProfileWarning'), undefined)
})

test('no Gateway leads to a workload, so that its URL is its own', () => {
  const plan = planned('httpRoute: {parentRefs: [{name: public}], hostnames: [tools.example.com]}')
  assert.is(plan?.status['externalUrl'], undefined)
  const configs = plan?.children === 'hold' ? [] : (plan?.children ?? []).filter(({ kind }) => kind === 'ConfigMap')
  assert.is(configs.length, 1)
  assert.not.match(JSON.stringify(configs[0]?.['data']), /tools\.example\.com/)
})

test.run()
