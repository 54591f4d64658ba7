import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PRE_STOP } from '../../../../dataplane/server/listen/listen.ts'
import type { LivePodTemplate } from '../../../support/operator/live-object.ts'
import { findChild, plansOfText } from '../../../support/operator/plans.ts'

interface ContainerWithHooks {
  readonly args?: readonly string[]
  readonly lifecycle?: { readonly preStop: { readonly httpGet?: object; readonly exec?: object } }
}

function renderPod(kind: string, spec: string) {
  const plan = plansOfText(`kind: ${kind}\nmetadata: {name: w}\nspec:\n  ${spec}`).get(`${kind}/w`)
  const { template } = findChild(plan, 'Deployment')['spec'] as { template: LivePodTemplate }
  const { containers, initContainers = [] } = template.spec as unknown as Record<string, readonly ContainerWithHooks[]>
  return { server: containers?.[0] as ContainerWithHooks, proxy: initContainers[0] as ContainerWithHooks }
}

const SERVER = 'image: a:1\n  transport: streamable-http'
const template = (text: string) => `\n  podTemplateSpec: {spec: ${text}}`

test('a server ends after its proxy has drained, and the proxy also notices the end by itself', () => {
  const { server, proxy } = renderPod('MCPServer', SERVER)
  const admin = Number(proxy.args?.[proxy.args.indexOf('--admin-listen') + 1]?.slice(1))
  const hook = { preStop: { httpGet: { path: PRE_STOP, port: admin, scheme: 'HTTP' } } }
  assert.equal(server.lifecycle, hook)
  assert.equal(proxy.lifecycle, hook)
  assert.ok(proxy.args?.includes('--pre-stop'))
})

test('a hook of the pod template replaces that of the server; the proxy keeps its own', () => {
  const own = '{containers: [{name: mcp, lifecycle: {preStop: {exec: {command: [a]}}}}]}'
  const { server, proxy } = renderPod('MCPServer', SERVER + template(own))
  assert.equal(server.lifecycle, { preStop: { exec: { command: ['a'] } } })
  assert.ok(proxy.lifecycle?.preStop.httpGet)
})

test('a data plane in a pod of its own gets the signal itself, without a hook', () => {
  const { server } = renderPod('MCPRemoteProxy', 'remoteUrl: https://example.com/mcp')
  assert.is(server.lifecycle, undefined)
  assert.not(server.args?.includes('--pre-stop'))
})

for (const [kind, spec, which] of [
  ['MCPServer', SERVER, 'proxy'],
  ['MCPRemoteProxy', 'remoteUrl: https://example.com/mcp', 'server'],
] as const)
  test(`a ${kind} knows of another grace period`, () => {
    const readGrace = (text: string) => renderPod(kind, spec + text)[which].args?.slice(-2)
    assert.equal(readGrace(template('{terminationGracePeriodSeconds: 120}')), ['--grace', '120'])
    assert.not(readGrace('')?.includes('--grace'))
    assert.not(readGrace(template('{terminationGracePeriodSeconds: 30}'))?.includes('--grace'))
  })

test.run()
