/** Checks what is served from policies of each form, and what the status reports if they are missing or invalid. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { condition, configText, plansOfText } from '../../support/operator/plans.ts'

const POLICY = 'permit(principal in Team::"eng", action, resource);'
const BROKEN = 'permit(principal, action, resource)\\nwhenever { true };'

const group = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}'
const kinds = {
  MCPServer: (authz: string) => `kind: MCPServer
metadata: {name: it}
spec: {image: x, transport: streamable-http, ${authz}}`,
  MCPRemoteProxy: (authz: string) => `kind: MCPRemoteProxy
metadata: {name: it}
spec: {remoteUrl: "https://example.com/mcp", ${authz}}`,
  VirtualMCPServer: (authz: string) => `kind: VirtualMCPServer
metadata: {name: it}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous, ${authz}}}`,
}
const configMap = (data: object) =>
  `kind: ConfigMap\nmetadata: {name: policies}\ndata: {authz.json: ${JSON.stringify(JSON.stringify(data))}}`
const buildShared = (config: object, type = 'cedarv1') =>
  `kind: MCPAuthzConfig\nmetadata: {name: policies}\nspec: {type: ${type}, config: ${JSON.stringify(config)}}`

const inline = (policy: string, more = '') =>
  `authzConfig: {type: inline, inline: {policies: ["${policy.replaceAll('"', '\\"')}"]${more}}, groupEntityType: Team}`
const IN_CONFIG_MAP = 'authzConfig: {configMap: {name: policies}}'
const BY_REFERENCE = 'authzConfigRef: {name: policies}'

for (const [kind, manifest] of Object.entries(kinds)) {
  const buildPlan = (authz: string, ...others: string[]) =>
    plansOfText([group, manifest(authz), ...others].join('\n---\n')).get(`${kind}/it`)

  test(`${kind}: each form gives the data plane the same policies`, () => {
    const settings = { policies: [POLICY], groupEntityType: 'Team' }
    const wrapped = {
      version: '1.0',
      type: 'cedarv1',
      cedar: { policies: [POLICY], entities_json: '[]', group_entity_type: 'Team' },
    }
    const plans = [
      buildPlan(inline(POLICY)),
      buildPlan(IN_CONFIG_MAP, configMap(settings)),
      buildPlan(IN_CONFIG_MAP, configMap(wrapped)),
      buildPlan(BY_REFERENCE, buildShared(settings)),
    ]
    for (const plan of plans) assert.equal((parse(configText(plan)) as { authz: unknown }).authz, settings)
  })

  test(`${kind}: a missing ConfigMap, key or MCPAuthzConfig is named, and running pods stay`, () => {
    const cases: [ReturnType<typeof buildPlan>, string][] = [
      [buildPlan(IN_CONFIG_MAP), 'False ConfigMapNotFound: ConfigMap "policies" is missing'],
      [
        buildPlan(IN_CONFIG_MAP, 'kind: ConfigMap\nmetadata: {name: policies}\ndata: {other: a}'),
        'False ConfigMapKeyNotFound: ConfigMap "policies" has no key "authz.json"',
      ],
      [buildPlan(BY_REFERENCE), 'False ReferenceNotFound: MCPAuthzConfig "policies" is missing'],
    ]
    for (const [plan, says] of cases) {
      assert.is(plan?.children, 'hold')
      assert.is(condition(plan, 'ReferencesResolved'), says)
    }
  })

  test(`${kind}: broken policies hold running pods, with the parser's message and line`, () => {
    const broken = BROKEN.replace('\\n', '\n')
    const cases: [ReturnType<typeof buildPlan>, string][] = [
      [buildPlan(inline(BROKEN)), 'Valid'],
      [buildPlan(IN_CONFIG_MAP, configMap({ policies: [broken] })), 'ReferencesResolved'],
      [buildPlan(BY_REFERENCE, buildShared({ policies: [broken] })), 'ReferencesResolved'],
    ]
    for (const [plan, type] of cases) {
      assert.is(plan?.children, 'hold')
      assert.match(condition(plan, type) ?? '', /policies\/0: line 2, column 1: /)
    }
  })

  test(`${kind}: an invalid file never counts as "no policies"`, () => {
    const files = [
      'rubbish',
      '[]',
      '{}',
      '{"policies": []}',
      '{"policies": "permit(principal, action, resource);"}',
      '{"policies": [1]}',
      '{"policy": ["permit(principal, action, resource);"]}',
      '{"type": "httpv1", "cedar": {"policies": ["permit(principal, action, resource);"]}}',
      '{"type": "cedarv1"}',
      '{"policies": ["permit(principal, action, resource);"], "entitiesJson": "{"}',
      '{"policies": ["permit(principal, action, resource);"], "primaryUpstreamProvider": 1}',
    ]
    for (const text of files) {
      const plan = buildPlan(
        IN_CONFIG_MAP,
        `kind: ConfigMap\nmetadata: {name: policies}\ndata: {authz.json: ${JSON.stringify(text)}}`,
      )
      assert.is(plan?.children, 'hold', text)
      assert.match(condition(plan, 'ReferencesResolved') ?? '', /^False \w+: ConfigMap "policies", authz.json: /, text)
    }
  })

  test(`${kind}: a repeated key in a file is refused`, () => {
    const twice = `"policies": ["forbid(principal, action, resource);"], "policies": [${JSON.stringify(POLICY)}]`
    const entities = '[{"uid": {"type": "User", "id": "a"}, "attrs": {"a": 1, "a": 2}, "parents": []}]'
    for (const [text, says] of [
      [`{${twice}}`, '/policies is set twice'],
      [`{"policies": [], "polici\\u0065s": [${JSON.stringify(POLICY)}]}`, '/policies is set twice'],
      [`{"version": "1.0", "type": "cedarv1", "cedar": {${twice}}}`, '/cedar/policies is set twice'],
      [JSON.stringify({ policies: [POLICY], entitiesJson: entities }), '/entitiesJson says /0/attrs/a twice'],
    ] as const) {
      const file = `kind: ConfigMap\nmetadata: {name: policies}\ndata: {authz.json: ${JSON.stringify(text)}}`
      const plan = buildPlan(IN_CONFIG_MAP, file)
      assert.is(plan?.children, 'hold', text)
      const found = condition(plan, 'ReferencesResolved') ?? ''
      assert.match(found, `ConfigMap "policies", authz.json: ${says}`, text)
    }
  })

  test(`${kind}: claims of a provider need an authorization server that logs users in there`, () => {
    for (const plan of [
      buildPlan(inline(POLICY, ', primaryUpstreamProvider: github')),
      buildPlan(BY_REFERENCE, buildShared({ policies: [POLICY], primary_upstream_provider: 'github' })),
      buildPlan(IN_CONFIG_MAP, configMap({ policies: [POLICY], primaryUpstreamProvider: 'github' })),
    ]) {
      assert.is(plan?.children, 'hold')
      assert.match(
        condition(plan, 'Valid') ?? '',
        /^False UpstreamProviderUnknown: .*primaryUpstreamProvider: "github" needs an authorization server/,
      )
    }
  })

  test(`${kind}: policies on anonymous callers are served, with a warning`, () => {
    assert.match(condition(buildPlan(inline(POLICY)), 'AuthzWarning') ?? '', /^True AnonymousCallers/)
    assert.is(condition(buildPlan('allowedHosts: []'), 'AuthzWarning'), undefined)
  })
}

const config = (spec: object, type?: string) => plansOfText(buildShared(spec, type)).get('MCPAuthzConfig/policies')

test('MCPAuthzConfig: policies are compiled even if no workload refers to it', () => {
  assert.is(condition(config({ policies: [POLICY] }), 'Ready'), 'True Ready')
  const problems = {
    'policies must be a list': {},
    'policies/1: line 1, column': { policies: [POLICY, 'permit('] },
    'entitiesJson: ': { policies: [POLICY], entitiesJson: '[{}]' },
    'policy is not a setting': { policies: [POLICY], policy: 'x' },
    'repeats entitiesJson': { policies: [POLICY], entitiesJson: '[]', entities_json: '[]' },
    'groupEntityType: must be an entity type': { policies: [POLICY], groupEntityType: 'A::B' },
    'primaryUpstreamProvider must be a string': { policies: [POLICY], primaryUpstreamProvider: ['a'] },
  }
  for (const [text, spec] of Object.entries(problems)) {
    const message = condition(config(spec), 'Valid') ?? ''
    assert.match(message, /^False /, text)
    assert.ok(message.includes(text), message)
  }
})

test('MCPAuthzConfig: another engine is refused for the policies of a workload, too', () => {
  const plan = plansOfText([kinds.MCPServer(BY_REFERENCE), buildShared({}, 'httpv1')].join('\n---\n')).get(
    'MCPServer/it',
  )
  assert.is(plan?.children, 'hold')
  assert.match(condition(plan, 'ReferencesResolved') ?? '', /HTTP service is not supported/)
})

test.run()
