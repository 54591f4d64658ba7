/** Follows warnings of pods from their `/status` to the condition of their workload. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { ReportedStatus } from '../../../../dataplane/config/status.ts'
import type { KubernetesObject } from '../../../../operator/model/index.ts'
import { problemsIn } from '../../../../operator/model/reported.ts'
import {
  hasMuchToReport,
  type PodReports,
  reportReader,
  seldom,
} from '../../../../operator/runtime/pods/status-observer.ts'
import { condition, plansOfText } from '../../../support/operator/plans.ts'

const problem = (code: string, message: string) => ({ severity: 'warning', code, message })
const full = problem('AuditLogUnavailable', '/var/log/audit.jsonl can’t be written: ENOSPC')

test('only known problems are read from answers, up to the size of a status', () => {
  const clash = problem('AggregationConflict', 'x is a tool of a and b')
  const status = { problems: [clash, 7, full, problem('Other', 'x'), null] }
  assert.equal(problemsIn([status, status]), { clashes: [clash.message], auditLog: [full.message] })
  for (const strange of [undefined, null, 7, {}, { problems: {} }, { problems: [null, { code: full.code }] }])
    assert.equal(problemsIn([strange]), {})
  const many = Array.from({ length: 1_000 }, (_, index) => problem(full.code, `${index} ${'x'.repeat(100_000)}`))
  const { auditLog = [], clashes } = problemsIn([{ problems: many }, { problems: [full] }])
  assert.equal([clashes, auditLog.length, Math.max(...auditLog.map(({ length }) => length))], [undefined, 16, 300])
})

test('the worst report on a catalog gate counts, without times', () => {
  const gate = (registry: object, ...members: object[]) => ({
    problems: [],
    catalogGate: {
      mode: 'enforce',
      registries: [{ name: 'house', state: 'current', problem: null, ageSeconds: 3, ...registry }],
      members: members.map((member) => ({ name: 'm', reason: null, detail: null, deprecated: false, ...member })),
    },
  })
  const findGate = (...pods: object[]) => problemsIn(pods).gate
  assert.equal(findGate(gate({}, {})), { reason: 'AllApproved', message: '' })
  assert.equal(findGate(gate({}, { deprecated: true })), { reason: 'AllApproved', message: 'deprecated: "m"' })
  const withheld = gate({}, { reason: 'LocationMismatch' })
  assert.equal(findGate(gate({}, {}), withheld), {
    reason: 'MembersWithheld',
    message: '1 not approved: "m": LocationMismatch',
  })
  const unreachable = gate({ state: 'unavailable', problem: 'it answers 403 (forbidden_role)' }, {})
  assert.equal(findGate(withheld, unreachable), {
    reason: 'CatalogUnavailable',
    message: 'registry house: it answers 403 (forbidden_role)',
  })
  const stale = gate({ state: 'stale' }, {})
  assert.is(findGate(stale, unreachable, withheld)?.reason, 'CatalogStale')
  assert.is(findGate(gate({ state: 'waiting' }, {})), undefined)
  const odd = { problems: [], catalogGate: { mode: 'enforce', registries: 'x', members: [] } }
  assert.is(findGate(odd), undefined)
  assert.equal(findGate({ ...withheld, catalogGate: { ...withheld.catalogGate, mode: 'report' } })?.reason, 'Reported')
})

test('definitions of backends are read with the names that the pod’s problem gives, and the worst pod counts', () => {
  const backend = (name: string, counts: object | null) => ({
    name,
    definitions: counts && { approved: 1, withheld: 0, reported: 0, missing: 0, ...counts },
  })
  const text = 'far: 3 definitions are withheld: instructions; tools "a\\"b", "c\\u200b"; resource templates "x"'
  const ill = { backends: [backend('far', { withheld: 3 })], problems: [problem('DefinitionWithheld', text)] }
  const well = {
    backends: [backend('far', {}), backend('near', null), { name: 'far', definitions: { approved: 'x' } }],
  }
  assert.equal(problemsIn([well, ill, 7, { backends: [null] }]), {
    definitions: [
      {
        name: 'far',
        approved: 1,
        withheld: 3,
        reported: 0,
        missing: 0,
        names: ['instructions', 'tools "a\\"b"', 'tools "c\\u200b"', 'resource templates "x"'],
      },
    ],
  })
  const many = Array.from({ length: 1_000 }, (_, index) => `"\u202e${index}${'x'.repeat(300)}"`).join(', ')
  const strange = {
    ...ill,
    problems: [problem('DefinitionWithheld', `far: 9 definitions are withheld: tools ${many}`)],
  }
  const names = problemsIn([strange]).definitions?.[0]?.names ?? []
  assert.ok(names.length <= 10 && names.every((name) => name.length <= 128 && /^[\x20-\x7e]*$/.test(name)))
})

test('a change is reported once: when it begins, when it ends, and when the workload is no longer polled', () => {
  const known: PodReports = new Map()
  const changed: string[] = []
  const reader = reportReader('MCPServer', known, (kind, namespace, name) =>
    changed.push(`${kind} ${namespace}/${name}`),
  )
  const take = (...answers: readonly ReportedStatus[]) => reader.take('default', 'it', answers)
  assert.is(take(), undefined)
  assert.is(known.size, 0)
  for (let index = 0; index < 3; index++) assert.is(take({ problems: [] }), 'complete')
  assert.equal([...known], [['MCPServer/default/it', { reported: true }]])
  assert.equal(changed.splice(0), ['MCPServer default/it'])
  for (let index = 0; index < 3; index++) take({ problems: [full] }, {})
  assert.equal(changed, ['MCPServer default/it'])
  assert.equal([...known], [['MCPServer/default/it', { auditLog: [full.message], reported: true }]])
  // If no pod answers, the earlier result stays.
  take()
  assert.is(changed.length, 1)
  take({ problems: [] }, {})
  assert.equal([[...known.values()], changed.length], [[{ reported: true }], 2])
  take({ problems: [full] })
  reader.forget('default', 'it')
  reader.forget('default', 'it')
  assert.equal([known.size, changed.length], [0, 4])
})

test('all workloads are polled, proxies without an audit log less often', () => {
  const { isSeldom } = seldom(
    reportReader('MCPServer', new Map(), () => undefined),
    hasMuchToReport,
  )
  const read = (spec: object) => isSeldom?.({ spec } as unknown as KubernetesObject)
  assert.equal([{}, { audit: {} }, { audit: { enabled: false } }, { audit: { enabled: true } }].map(read), [
    true,
    true,
    true,
    false,
  ])
})

for (const [kind, spec] of Object.entries({
  MCPServer: '{image: x, transport: streamable-http}',
  MCPRemoteProxy: '{remoteUrl: "https://mcp.example/mcp"}',
  VirtualMCPServer: '{groupRef: {name: tools}, incomingAuth: {type: anonymous}}',
  MCPRegistry: '{configYAML: "sources: []\\nregistries: []\\nauth: {mode: anonymous}"}',
}))
  test(`an audit log of a ${kind} that can't be written is a condition and an event, and the workload is ready`, () => {
    const buildPlan = (auditLog: string) =>
      plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: ${kind}
metadata: {name: it}
spec: ${spec}
---
kind: Observation
metadata: {name: it}
observation: {kind: ${kind}, replicas: 1, readyReplicas: 1${auditLog}}
`).get(`${kind}/it`)
    const plan = buildPlan(`, auditLog: ["${full.message}", "it is slow"]`)
    const text = `calls are served, but their audit lines may be lost: ${full.message}; it is slow`
    assert.is(condition(plan, 'AuditLogUnavailable'), `True AuditLogNotWritten: ${text}`)
    assert.is(condition(plan, 'Ready'), 'True PodsReady: 1 of 1 pods are ready')
    assert.equal(
      plan?.events.filter(({ reason }) => reason === 'AuditLogNotWritten'),
      [{ type: 'Warning', reason: 'AuditLogNotWritten', message: text }],
    )
    assert.is(condition(buildPlan(''), 'AuditLogUnavailable'), undefined)
  })

test('a condition reports trusted issuers with unreachable keys or another name until that is fixed', () => {
  const buildPlan = (observation: string, issuer = 'https://login.example', more = '') =>
    plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPOIDCConfig
metadata: {name: own}
spec: {type: inline, inline: {issuer: "https://tools.example"}}
---
kind: VirtualMCPServer
metadata: {name: it}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: oidc, audience: a, oidcConfigRef: {name: own}}
  authServerConfig:
    issuer: https://tools.example
    trustedIssuers: [{name: corp, issuerUrl: "${issuer}"}]
    inboundGrants:
      jwtBearer:
        issuerPolicies:
          - {issuerRef: corp, maxAssertionAge: 5m, subjectRules: [{name: a, matcher: "true", allowedResources: [x]}]${more}}
---
kind: Observation
metadata: {name: it}
observation: {kind: VirtualMCPServer, replicas: 1, readyReplicas: 1, reported: true${observation}}
`).get('VirtualMCPServer/it')
  const readCondition = (...of: Parameters<typeof buildPlan>) => condition(buildPlan(...of), 'TrustedIssuersReady')
  assert.is(readCondition(''), 'True IssuersReady')
  assert.is(
    readCondition(', issuerKeys: ["https://login.example: away"]'),
    'False KeysUnreachable: https://login.example: away',
  )
  assert.is(
    readCondition(', issuerNames: ["https://login.example: x"]'),
    'False IssuerNameMismatch: https://login.example: x',
  )
  for (const shared of ['https://accounts.google.com', 'https://login.microsoftonline.com/common/v2.0']) {
    assert.is(
      readCondition('', shared),
      `False MultiTenantIssuer: ${shared} issues for many organizations: set tenants`,
    )
    assert.is(readCondition('', shared, ', tenants: {claim: hd, allowed: [corp.example]}'), 'True IssuersReady')
  }
  assert.is(condition(buildPlan(', issuerKeys: [x]'), 'Ready'), 'True PodsReady: 1 of 1 pods are ready')
  const codes = ['KeysUnreachable', 'IssuerNameMismatch'].map((code) => problem(code, 'x'))
  assert.equal(problemsIn([{ problems: codes }]), { issuerKeys: ['x'], issuerNames: ['x'] })
})

test('reports to one operator stay valid for the next until pods report again', () => {
  const types = ['AggregationConflict', 'AuditLogUnavailable', 'BackendsHealthy', 'EntriesValid']
  const since = '2026-01-01T00:00:00Z'
  const before = types.map((type) => ({
    type,
    status: 'True',
    reason: 'X',
    message: 'x',
    observedGeneration: 1,
    lastTransitionTime: since,
  }))
  for (const [kind, spec] of [
    ['MCPServer', '{image: x, transport: streamable-http}'],
    ['VirtualMCPServer', '{groupRef: {name: tools}, incomingAuth: {type: anonymous}}'],
  ]) {
    const conditionsAfter = (observation: string) => {
      const plan = plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: ${kind}
metadata: {name: it}
spec: ${spec}
status: {conditions: ${JSON.stringify(before)}}
---
kind: Observation
metadata: {name: it}
observation: {kind: ${kind}, replicas: 1, readyReplicas: 1${observation}}
`).get(`${kind}/it`)
      return plan?.status.conditions.filter(({ type }) => types.includes(type))
    }
    assert.equal(conditionsAfter(''), before, kind)
    assert.equal(conditionsAfter(', reported: true'), [], kind)
  }
})

test.run()
