import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conditionProblems } from '../../../../operator/reconcile/outcome/plan.ts'
import { accountUses, baselineViolations } from '../../../../operator/render/pod/pod-security.ts'
import type { PodTemplate } from '../../../../operator/render/pod/pod-template.ts'
import { buildWorld, condition, context, plansOfText, planWorld } from '../../../support/operator/plans.ts'
import { allowed, forbidden } from '../../../support/operator/pod-security-corpus.ts'

const buildTemplate = ({ metadata = {}, spec }: { metadata?: object; spec: object }) =>
  ({ metadata, spec }) as PodTemplate

for (const one of forbidden)
  test(`${one.name} is found`, () => assert.ok(baselineViolations(buildTemplate(one)).length > 0))
for (const one of allowed)
  test(`${one.name} is allowed`, () => assert.equal(baselineViolations(buildTemplate(one)), []))

// Without a user namespace the API server refuses it, before Pod Security is evaluated.
test('procMount is found', () => {
  const containers = [{ name: 'mcp', securityContext: { procMount: 'Unmasked' } }]
  assert.is(baselineViolations(buildTemplate({ spec: { containers } })).length, 1)
})

test('ephemeral containers are checked, too, and values of any shape do no harm', () => {
  const debug = { ephemeralContainers: [{ name: 'debug', securityContext: { privileged: true } }] }
  assert.equal(baselineViolations(buildTemplate({ spec: debug })), [
    { pointer: '/spec/ephemeralContainers', message: 'container "debug": securityContext.privileged' },
  ])
  for (const value of [null, 0, 'a', true, [], [null], [[1]], {}, { a: 1 }]) {
    const names = ['containers', 'initContainers', 'volumes', 'securityContext', 'ephemeralContainers']
    const spec = Object.fromEntries(names.map((name) => [name, value]))
    const container = { securityContext: value, ports: value, livenessProbe: value, lifecycle: value }
    assert.equal(baselineViolations(buildTemplate({ metadata: { annotations: value }, spec })), [])
    assert.equal(baselineViolations(buildTemplate({ spec: { containers: [container] } })), [])
    assert.equal(accountUses({ spec: value }), [])
    assert.equal(accountUses(value), [])
  }
})

const buildPatched = (kind: string, rest: string, patch: string) => `
kind: MCPGroup
metadata: {name: g}
---
kind: ${kind}
metadata: {name: w}
spec:
  ${rest}
  podTemplateSpec: ${patch}
`
const workloads: readonly [kind: string, rest: string][] = [
  ['MCPServer', 'image: a:1'],
  ['MCPRemoteProxy', 'remoteUrl: https://mcp.example/mcp'],
  ['VirtualMCPServer', '{groupRef: {name: g}, incomingAuth: {type: anonymous}}'],
  [
    'MCPRegistry',
    'sources: [{name: a, managed: {}}]\n  registries: [{name: m, sources: [a]}]\n  auth: {mode: anonymous}',
  ],
]
const inBlock = (rest: string) =>
  rest.startsWith('{') ? 'groupRef: {name: g}\n  incomingAuth: {type: anonymous}' : rest

for (const [kind, rest] of workloads) {
  test(`${kind}: a template that takes over the node is refused, except with --pod-template=any`, () => {
    const text = buildPatched(kind, inBlock(rest), '{spec: {hostPID: true}}')
    const plan = plansOfText(text).get(`${kind}/w`)
    assert.is(plan?.children, 'hold')
    assert.match(
      condition(plan, 'PodTemplateValid') ?? '',
      'False PodSecurityViolation: /spec/podTemplateSpec/spec/hostPID: hostPID is forbidden by Pod Security “baseline”',
    )
    const any = planWorld(buildWorld(text), { ...context, podTemplate: 'any' }).get(`${kind}/w`)
    assert.not.equal(any?.children, 'hold')
  })

  test(`${kind}: a ServiceAccount in a template is a warning that names it`, () => {
    const patch = '{spec: {serviceAccountName: admin, automountServiceAccountToken: true}}'
    const plan = plansOfText(buildPatched(kind, inBlock(rest), patch)).get(`${kind}/w`)
    assert.not.equal(plan?.children, 'hold')
    assert.is(
      condition(plan, 'PodTemplateWarning'),
      'True ServiceAccountInTemplate: /spec/podTemplateSpec/spec/serviceAccountName: the pods run as ServiceAccount "admin", with its rights; /spec/podTemplateSpec/spec/automountServiceAccountToken: every container gets the token of the pods’ ServiceAccount',
    )
    assert.ok(plan && conditionProblems(plan).some(({ severity }) => severity === 'warning'), 'validate reports it')
  })
}

test('the metadata of pods can’t turn AppArmor off either', () => {
  const text = `
kind: MCPServer
metadata: {name: w}
spec:
  image: a:1
  resourceOverrides:
    proxyDeployment:
      podTemplateMetadataOverrides:
        annotations: {container.apparmor.security.beta.kubernetes.io/mcp: unconfined}
`
  assert.match(condition(plansOfText(text).get('MCPServer/w'), 'PodTemplateValid') ?? '', 'apparmor')
})

test('a volume with a token is a ServiceAccount’s too', () => {
  const volumes = [{ name: 't', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }]
  assert.equal(accountUses({ spec: { volumes } }), [
    '/spec/volumes: volume "t" holds a token of the pods’ ServiceAccount',
  ])
  assert.match(accountUses({ spec: { serviceAccount: 'old' } })[0] ?? '', '"old"')
})

test.run()
