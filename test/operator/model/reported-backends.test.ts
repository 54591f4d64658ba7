import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { reportedBackends } from '../../../operator/model/reported.ts'
import { gatewayReportIn } from '../../../operator/runtime/pods/status-observer.ts'
import { condition, plansOfText } from '../../support/operator/plans.ts'

const lastError = { code: 'unreachable', message: 'connect ECONNREFUSED', at: '2026-11-24T12:00:00.000Z' }
const backend = (name: string, rest: object = {}) => ({
  name,
  url: `http://${name}.default.svc/mcp`,
  health: 'healthy',
  revision: '2025-11-25',
  circuit: 'closed',
  lastError: null,
  tools: 3,
  latencyMs: 12,
  ...rest,
})
const statuses = (...answers: unknown[]) => reportedBackends(answers).map(({ name, status }) => `${name} ${status}`)

test('a report has no times, no counts, and no old failure of a healthy backend', () => {
  const merged = reportedBackends([
    [backend('b', { lastError }), backend('a', { health: 'unhealthy', lastError, circuit: 'open' })],
  ])
  assert.equal(merged, [
    {
      name: 'a',
      status: 'unavailable',
      mcpRevision: '2025-11-25',
      circuitBreakerState: 'open',
      message: 'unreachable: connect ECONNREFUSED',
    },
    { name: 'b', status: 'ready', mcpRevision: '2025-11-25', circuitBreakerState: 'closed' },
  ])
  const later = { latencyMs: 700, tools: 9, lastError: { ...lastError, at: 'later' } }
  assert.equal(
    reportedBackends([[backend('b', later), backend('a', { ...later, health: 'unhealthy', circuit: 'open' })]]),
    merged,
  )
})

test('of several pods the worst report counts, and a pod that has not checked yet does not count', () => {
  const withHealth = (health: string) => [backend('a', { health })]
  assert.equal(statuses(withHealth('healthy'), withHealth('unhealthy'), withHealth('degraded')), ['a unavailable'])
  assert.equal(statuses(withHealth('unauthenticated'), withHealth('healthy')), ['a unauthenticated'])
  assert.equal(statuses(withHealth('unknown'), withHealth('healthy')), ['a ready'])
  assert.equal(statuses(withHealth('unknown')), ['a unknown'])
})

test('invalid reports are ignored, and valid ones have limits', () => {
  const strange = [null, 7, 'a', {}, { name: 'a' }, { name: 7, health: 'healthy' }, { name: 'a', health: 'splendid' }]
  assert.equal(reportedBackends([undefined, null, {}, 'x', strange, [backend('n'.repeat(300))]]), [])
  const most = {
    health: 'degraded',
    revision: 'r'.repeat(9_000),
    lastError: { code: 'c', message: 'm\ud800'.repeat(9_000) },
  }
  const [merged] = reportedBackends([[backend('a', most)]])
  assert.equal([merged?.mcpRevision?.length, merged?.message?.length, merged?.message?.isWellFormed()], [32, 300, true])
  const [secret] = reportedBackends([
    [
      backend('a', {
        health: 'unhealthy',
        lastError: { code: 'c', message: 'https://x.example/?api_key=hunter2 fails' },
      }),
    ],
  ])
  assert.not.match(secret?.message ?? '', 'hunter2')
  const many = Array.from({ length: 20_000 }, (_, index) => backend(`b${index}`))
  assert.is(reportedBackends([many]).length, 10_000)
  assert.equal(gatewayReportIn([{ backends: strange }, {}]), {})
})

const manifests = (observation: string) => `
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPRemoteProxy
metadata: {name: one}
spec: {groupRef: {name: tools}, remoteUrl: "https://one.example/mcp"}
---
kind: MCPRemoteProxy
metadata: {name: two}
spec: {groupRef: {name: tools}, remoteUrl: "https://two.example/mcp"}
---
kind: VirtualMCPServer
metadata: {name: all}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}
---
kind: Observation
metadata: {name: all}
observation: {kind: VirtualMCPServer, replicas: 1, readyReplicas: 1${observation}}
`

const buildPlan = (observation: string) => plansOfText(manifests(observation)).get('VirtualMCPServer/all')

test('a ready gateway names its unavailable backends', () => {
  const plan = buildPlan(
    `, backends: [{name: gone, status: ready}, {name: one, status: ready, mcpRevision: "2026-07-28"}, {name: two, status: unavailable, message: "unreachable: ECONNREFUSED"}]`,
  )
  assert.is(
    condition(plan, 'BackendsHealthy'),
    'False BackendsUnavailable: these backends are unavailable: "two": unreachable: ECONNREFUSED',
  )
  assert.is(condition(plan, 'Ready'), 'True PodsReady: 1 of 1 pods are ready')
  assert.is(plan?.status['backendCount'], 1)
  const discoveredBackends = plan?.status['discoveredBackends'] as Record<string, unknown>[]
  assert.equal(
    discoveredBackends.map(({ name, kind, status, mcpRevision, message }) => [
      name,
      kind,
      status,
      mcpRevision,
      message,
    ]),
    [
      ['one', 'MCPRemoteProxy', 'ready', '2026-07-28', undefined],
      ['two', 'MCPRemoteProxy', 'unavailable', undefined, 'unreachable: ECONNREFUSED'],
    ],
  )
  assert.equal(
    plan?.events.map(({ reason }) => reason),
    ['PodsReady'],
  )
})

test('before pods have reported there is no health of backends', () => {
  const plan = buildPlan('')
  assert.is(condition(plan, 'BackendsHealthy'), undefined)
  assert.is(plan?.status['backendCount'], 2)
  assert.is(
    condition(buildPlan(', backends: [{name: one, status: unknown}]'), 'BackendsHealthy'),
    'True NoneUnavailable',
  )
})

test.run()
