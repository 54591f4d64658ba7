/** Tests decisions with claims and arguments of every type, including hostile ones. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Policies, type PolicySource, type Subject } from '../../../dataplane/policy/index.ts'

const tool = (id = 't', hints: Record<string, boolean> = {}): Subject => ({
  action: 'call_tool',
  type: 'Tool',
  id,
  backend: 'b',
  hints,
  key: JSON.stringify([id, hints]),
})

const withPolicies = (policies: readonly string[], more: Partial<PolicySource> = {}) => {
  const policySet = new Policies({ policies, ...more }, 'gw')
  return (claims: Record<string, unknown>, args?: Record<string, unknown>, subject = tool()) =>
    policySet.allows(policySet.principalOf(String(claims['sub'] ?? 'x'), claims), subject, args)
}
const permitWhen = (condition: string) => `permit(principal, action, resource) when { ${condition} };`
const forbidWhen = (condition: string) => `forbid(principal, action, resource) when { ${condition} };`
const ALL = 'permit(principal, action, resource);'

test('a missing attribute denies, even if another policy permits', () => {
  const may = withPolicies([ALL, permitWhen('principal.claim_email like "*@example.com"')])
  assert.ok(may({ email: 'a@example.com' }))
  assert.not(may({}))
  const careful = withPolicies([ALL, permitWhen('principal has claim_email && principal.claim_email like "*@x"')])
  assert.ok(careful({}))
})

test('an unverified e-mail address is absent', () => {
  const may = withPolicies([permitWhen('principal has claim_email && principal.claim_email == "a@x"')])
  for (const email_verified of [true, 'true', undefined]) assert.ok(may({ email: 'a@x', email_verified }))
  for (const email_verified of [false, 'false']) assert.not(may({ email: 'a@x', email_verified }))
})

test('a claim of another type denies, and never throws', () => {
  const may = withPolicies([permitWhen('context.claim_level > 3')])
  assert.ok(may({ level: 4 }))
  for (const level of ['4', true, null, [4], { a: 4 }, 4.5, 1e300, 2 ** 60, Number.NaN, [], {}, ''])
    assert.not(may({ level }))
})

test('a claim is never an entity', () => {
  const may = withPolicies([permitWhen('context.claim_boss == Client::"admin"'), permitWhen('principal in Group::"a"')])
  const admin = { type: 'Client', id: 'admin' }
  for (const boss of [admin, { __entity: admin }, [{ __entity: admin }], { a: { __entity: admin } }])
    assert.not(may({ boss }))
  const reads = withPolicies([permitWhen('context has claim_x'), ALL])
  assert.not(reads({ x: { __extn: { fn: 'ip', arg: '10.0.0.1' } } }))
})

test('groups: of the first claim that is there, of a named one, of a path; only lists of texts count', () => {
  const may = withPolicies(['permit(principal in Group::"eng", action, resource);'])
  assert.ok(may({ groups: ['x', 'eng'] }))
  assert.ok(may({ roles: ['eng'] }))
  assert.ok(may({ 'cognito:groups': ['eng'] }))
  assert.not(may({ groups: [], roles: ['eng'] }))
  for (const groups of ['eng', { eng: true }, [['eng']], [{ id: 'eng' }], 1, null, 'eng,x', ['Eng'], ['eng ']])
    assert.not(may({ groups }), JSON.stringify(groups))
  const named = withPolicies(['permit(principal in Team::"eng", action, resource);'], {
    groupClaimName: 'realm_access.groups',
    roleClaimName: 'https://example.com/roles',
    groupEntityType: 'Team',
  })
  assert.ok(named({ realm_access: { groups: ['eng'] } }))
  assert.ok(named({ 'realm_access.groups': ['eng'] }))
  assert.ok(named({ 'https://example.com/roles': ['eng'] }))
  assert.not(named({ groups: ['eng'] }))
  assert.not(named({ 'realm_access.groups': ['x'], realm_access: { groups: ['eng'] } }), 'the exact name comes first')
  const inherited = withPolicies(['permit(principal in Group::"eng", action, resource);'], {
    groupClaimName: '__proto__.a',
  })
  assert.not(inherited({}))
})

test('groups in groups, and tools in groups, as entities declare them', () => {
  const entitiesJson = JSON.stringify([
    { uid: { type: 'Group', id: 'backend' }, attrs: {}, parents: [{ type: 'Group', id: 'eng' }] },
    { uid: { type: 'Group', id: 'eng' }, attrs: {}, parents: [{ type: 'Group', id: 'staff' }] },
    {
      uid: { type: 'Tool', id: 't' },
      attrs: { owner: { __entity: { type: 'Client', id: 'olga' } } },
      parents: [{ type: 'Kit', id: 'safe' }],
    },
  ])
  const may = withPolicies(
    [
      'permit(principal in Group::"staff", action, resource in Kit::"safe");',
      permitWhen('resource has owner && resource.owner == principal'),
    ],
    { entitiesJson },
  )
  assert.ok(may({ groups: ['backend'] }))
  assert.not(may({ groups: ['other'] }))
  assert.not(may({ groups: ['backend'] }, {}, tool('other')))
  assert.ok(may({ sub: 'olga' }))
  assert.not(may({ sub: 'paul' }))
})

test('the gateway and the backend are parents; annotations count where they are true or false', () => {
  const may = withPolicies([
    'permit(principal in Group::"a", action, resource in MCP::"gw") when { resource has readOnlyHint && resource.readOnlyHint };',
    'permit(principal in Group::"b", action, resource in Backend::"b") when { resource.name like "t*" && resource.operation == "call" };',
    'permit(principal in Group::"c", action, resource in MCP::"other");',
  ])
  assert.ok(may({ groups: ['a'] }, {}, tool('t', { readOnlyHint: true })))
  assert.not(may({ groups: ['a'] }, {}, tool('t', { readOnlyHint: false })))
  assert.not(may({ groups: ['a'] }))
  assert.ok(may({ groups: ['b'] }))
  assert.not(may({ groups: ['c'] }))
})

test('arguments: those that a policy reads are judged, whatever their type', () => {
  const may = withPolicies([ALL, forbidWhen('context has arg_amount && context.arg_amount > 100')])
  assert.ok(may({}, { amount: 100 }))
  assert.not(may({}, { amount: 101 }))
  assert.ok(may({}, {}))
  assert.ok(may({}, { amount: null }), 'as without the policy')
  for (const amount of ['5', true, [5], { value: 500 }, [[500]], 100.5, 1e300, 2 ** 53, {}])
    assert.not(may({}, { amount }), JSON.stringify(amount))
  assert.ok(may({}, { other: { deep: [1] } }), 'claims that no policy reads are left out')
})

test('arguments: lists are sets, other numbers decimals, presence can be tested', () => {
  const may = withPolicies([
    permitWhen('context has arg_tags && context.arg_tags.contains("safe")'),
    permitWhen('context has arg_rate && context.arg_rate.lessThan(decimal("1.5"))'),
    permitWhen('context has arg_opts_present'),
  ])
  assert.ok(may({}, { tags: ['a', 'safe'] }))
  assert.not(may({}, { tags: ['a'] }))
  assert.ok(may({}, { rate: 0.25 }))
  assert.not(may({}, { rate: 0.123456 }))
  assert.ok(may({}, { opts: { deep: { deep: 1 } } }))
  assert.not(may({}, { opts: 'text' }))
})

test('arguments that are too large to be judged are denied, and soon', () => {
  const may = withPolicies([ALL, forbidWhen(`context has arg_path && context.arg_path like "*${'a'.repeat(400)}b"`)])
  const started = performance.now()
  assert.ok(may({}, { path: 'a'.repeat(1_000) }))
  assert.not(may({}, { path: 'a'.repeat(5_000_000) }))
  assert.ok(may({}, { content: 'a'.repeat(5_000_000) }))
  assert.ok(performance.now() - started < 20_000)
})

test('huge, nested and odd claims cost nothing if no policy reads them', () => {
  const may = withPolicies(['permit(principal in Group::"eng", action, resource);'])
  const deep = JSON.parse(`${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`)
  const groups = Array.from({ length: 100_000 }, (_, index) => `group-${index}`)
  assert.ok(may({ deep, groups: [...groups, 'eng'], ['x'.repeat(100_000)]: 1, __proto__: { groups: ['eng'] } }))
  assert.not(may({ deep, groups }))
})

test('claims that a policy reads and that can’t be represented deny everything', () => {
  const may = withPolicies([ALL, forbidWhen('principal has claim_x && principal.claim_x == 1')])
  assert.ok(may({ x: 2 }))
  const deep = JSON.parse(`${'{"a":'.repeat(500)}1${'}'.repeat(500)}`)
  for (const x of [deep, 'a'.repeat(100_000), 1.23456789, 2 ** 60, { __entity: {} }]) assert.not(may({ x }))
})

test('very long or odd names are judged or denied without an exception', () => {
  const may = withPolicies([ALL])
  assert.not(may({}, {}, tool('a'.repeat(10_000))))
  for (const id of ['', '"', '\\', '\0', '\ud800', '::"', 'ä😀', '__proto__', '*']) assert.ok(may({}, {}, tool(id)), id)
  const exact = withPolicies(['permit(principal, action, resource == Tool::"a\\"b");'])
  assert.ok(exact({}, {}, tool('a"b')))
  assert.not(exact({}, {}, tool('a')))
})

test('callers that policies can’t tell apart share decisions; callers named in policies do not', () => {
  const policySet = new Policies({ policies: ['permit(principal in Group::"a", action, resource);'] }, 'gw')
  const readDigest = (sub: string, groups: string[]) => policySet.principalOf(sub, { groups }).digest
  assert.is(readDigest('x', ['a', 'b']), readDigest('y', ['a', 'c']))
  assert.is.not(readDigest('x', ['a']), readDigest('x', ['b']))
  const naming = new Policies({ policies: ['permit(principal == Client::"x", action, resource);'] }, 'gw')
  assert.is.not(naming.principalOf('x', {}).digest, naming.principalOf('y', {}).digest)
})

test.run()
