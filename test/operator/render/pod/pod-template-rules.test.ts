import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { findChild, plansOfText } from '../../../support/operator/plans.ts'
import { refusedTemplates, takenTemplates } from '../../../support/operator/refused-templates.ts'

const buildPlan = (podTemplateSpec: object) =>
  plansOfText(
    `kind: MCPServer\nmetadata: {name: w}\nspec: ${JSON.stringify({ image: 'a:1', transport: 'streamable-http', podTemplateSpec })}`,
  ).get('MCPServer/w')
const findCondition = (template: object) =>
  buildPlan(template)?.status.conditions.find(({ type }) => type === 'PodTemplateValid')

test('mistakes in a pod template that the API server would refuse are reported first', () => {
  for (const [what, template] of refusedTemplates) {
    const { status, message } = findCondition(template) ?? {}
    assert.is(status, 'False', JSON.stringify(template))
    assert.match(message ?? '', what)
    assert.is(buildPlan(template)?.children, 'hold')
  }
})

test('valid pod templates are rendered', () => {
  for (const template of takenTemplates)
    assert.is(findCondition(template)?.status, 'True', findCondition(template)?.message)
})

test('a probe or hook that calls a port by a name that its container does not have never succeeds', () => {
  for (const container of [
    { livenessProbe: { httpGet: { path: '/health', port: 'http' } } },
    { readinessProbe: { tcpSocket: { port: 'mcp' } } },
    { startupProbe: { httpGet: { port: 'admin' } } },
    { lifecycle: { preStop: { httpGet: { port: 'http' } } } },
  ]) {
    const { status, message = '' } = findCondition({ spec: { containers: [{ name: 'mcp', ...container }] } }) ?? {}
    assert.is(status, 'False')
    assert.match(message, /container mcp has no port "(http|mcp|admin)"; its ports are server/)
  }
  const own = { ports: [{ name: 'web', containerPort: 9000 }], livenessProbe: { httpGet: { port: 'web' } } }
  assert.is(findCondition({ spec: { containers: [{ name: 'mcp', ...own }] } })?.status, 'True')
})

test('variables that tell a server where to listen are not set where the manifest sets them', () => {
  const variables = (spec: object) => {
    const fields = { image: 'a:1', transport: 'streamable-http', mcpPort: 9000, ...spec }
    const plan = plansOfText(`kind: MCPServer\nmetadata: {name: w}\nspec: ${JSON.stringify(fields)}`).get('MCPServer/w')
    const { template } = findChild(plan, 'Deployment')['spec'] as {
      template: { spec: { containers: { env: object[] }[] } }
    }
    return template.spec.containers[0]?.env
  }
  const ours = ['PORT', 'MCP_PORT', 'HOST'].map((name) => ({ name, value: name === 'HOST' ? '127.0.0.1' : '9000' }))
  const [port, mcpPort, host] = ours
  assert.equal(variables({}), ours)
  const one = { name: 'PORT', value: '1' }
  assert.equal(variables({ env: [one] }), [one, mcpPort, host])
  const fromPod = { name: 'HOST', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }
  const template = { spec: { containers: [{ name: 'mcp', env: [one, fromPod] }] } }
  assert.equal(variables({ podTemplateSpec: template }), [one, mcpPort, fromPod])
  const plain = { spec: { containers: [{ name: 'mcp', env: [{ name: 'HOST', value: '0.0.0.0' }] }] } }
  assert.equal(variables({ podTemplateSpec: plain }), [port, mcpPort, { name: 'HOST', value: '0.0.0.0' }])
})

test.run()
