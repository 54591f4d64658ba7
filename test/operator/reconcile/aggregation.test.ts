import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { condition, configText, plansOfText } from '../../support/operator/plans.ts'

const buildPlan = (config: string) =>
  plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
  config: ${config}
`).get('VirtualMCPServer/gateway')

const buildConfig = (config: string) => parse(configText(buildPlan(config))) as GatewayConfig

test('priority, visibility and failure handling reach the gateway', () => {
  const { aggregation, failureHandling } = buildConfig(`
    aggregation:
      conflictResolution: priority
      conflictResolutionConfig: {priorityOrder: [b, a]}
      defaultToolVisibility: deny
      tools: [{workload: a}, {workload: b}]
    operational:
      failureHandling:
        healthCheckInterval: 10s
        healthCheckTimeout: 2s
        partialFailureMode: best_effort
        circuitBreaker: {enabled: true}`)
  assert.is(aggregation?.conflictResolution, 'priority')
  assert.equal(aggregation?.conflictResolutionConfig?.priorityOrder, ['b', 'a'])
  assert.is(aggregation?.defaultToolVisibility, 'deny')
  assert.equal(failureHandling, {
    healthCheckInterval: '10s',
    healthCheckTimeout: '2s',
    unhealthyThreshold: 3,
    partialFailureMode: 'best_effort',
    circuitBreaker: { enabled: true, failureThreshold: 5, timeout: '60s' },
  })
})

const clash = (strategy: string) =>
  buildPlan(`
    aggregation:
      conflictResolution: ${strategy}
      tools:
        - {workload: a, overrides: {x: {name: search}}}
        - {workload: b, overrides: {y: {name: search}}}`)

test('clashing names of overrides are a condition, and running pods stay', () => {
  const plan = clash('manual')
  assert.is(
    condition(plan, 'Ready'),
    'False AggregationConflict: /spec/config/aggregation: search is a tool of a and b',
  )
  assert.is(plan?.children, 'hold')
})

test('a clash that only backends report gets its own condition, and the gateway stays ready', () => {
  const plan = plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}
---
kind: Observation
metadata: {name: gateway}
observation: {kind: VirtualMCPServer, replicas: 1, readyReplicas: 1, clashes: [x is a tool of a and b]}
`).get('VirtualMCPServer/gateway')
  assert.match(condition(plan, 'AggregationConflict') ?? '', 'True AggregationConflict: x is a tool of a and b; ')
  assert.is(condition(plan, 'Ready'), 'True PodsReady: 1 of 1 pods are ready')
})

test('other strategies resolve it themselves', () => {
  assert.is(condition(clash('prefix'), 'Valid'), 'True ConfigValid')
})

test('a filtered tool clashes with nothing', () => {
  const plan = buildPlan(`
    aggregation:
      conflictResolution: manual
      tools:
        - {workload: a, overrides: {x: {name: search}}}
        - {workload: b, filter: [other], overrides: {y: {name: search}}}`)
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
})

test('a priority without an order is refused', () => {
  const plan = buildPlan('{aggregation: {conflictResolution: priority}}')
  assert.match(condition(plan, 'Valid') ?? '', 'priorityOrder is required')
})

test.run()
