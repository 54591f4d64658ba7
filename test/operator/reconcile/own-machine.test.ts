/** Covers settings that only a cluster can apply: on a user's own machine they are left out or reported. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fillWorld } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { condition, configText, context, worldContent } from '../../support/operator/plans.ts'

const planOnMachine = (spec: string) => {
  const text = `kind: MCPServer\nmetadata: {name: it}\nspec: {image: x, transport: streamable-http, ${spec}}`
  return planAll(fillWorld(worldContent(text)).view, { ...context, isOwnMachine: true })[0]?.plan
}

test('a permission profile is not enforced, and a warning says so', () => {
  assert.match(
    condition(planOnMachine('permissionProfile: {name: none}'), 'PermissionProfileWarning') ?? '',
    /^True NotEnforced/,
  )
  assert.is(condition(planOnMachine('permissionProfile: {name: network}'), 'PermissionProfileWarning'), undefined)
  assert.is(condition(planOnMachine(''), 'PermissionProfileWarning'), undefined)
})

test('the URL of a workload is its own, without a Gateway', () => {
  const plan = planOnMachine('httpRoute: {parentRefs: [{name: public}], hostnames: [tools.example.com]}')
  assert.is(plan?.status['externalUrl'], undefined)
  const configs = plan?.children === 'hold' ? [] : (plan?.children ?? []).filter(({ kind }) => kind === 'ConfigMap')
  assert.is(configs.length, 1)
  assert.not.match(JSON.stringify(configs[0]?.['data']), /tools\.example\.com/)
})

test('an endpoint is shown under the host that its audience names', () => {
  const text = `
kind: MCPGroup
metadata: {name: g}
---
kind: MCPOIDCConfig
metadata: {name: o}
spec: {type: inline, inline: {issuer: "http://localhost:9000"}}
---
kind: VirtualMCPServer
metadata: {name: v}
spec: {groupRef: {name: g}, incomingAuth: {type: oidc, audience: "http://localhost:4483/mcp", oidcConfigRef: {name: o}}}
---
kind: MCPRemoteProxy
metadata: {name: p}
spec: {remoteUrl: "https://example.com/mcp", oidcConfigRef: {name: o, audience: "http://localhost:4483/mcp"}}
`
  const resolveAddress = () => 'http://127.0.0.1:4483'
  const plans = planAll(fillWorld(worldContent(text)).view, { ...context, isOwnMachine: true, resolveAddress })
  for (const kind of ['VirtualMCPServer', 'MCPRemoteProxy']) {
    const plan = plans.find(({ object }) => object.kind === kind)?.plan
    assert.is(plan?.status['url'], 'http://localhost:4483/mcp', kind)
    assert.is(configText(plan).match(/resourceUrl"?: "?([^",\n]*)/)?.[1], 'http://localhost:4483/mcp', kind)
  }
})

test.run()
