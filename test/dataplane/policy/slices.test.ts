/**
 * Checks that passing the engine only the applicable policies and the data that they read gives the same decision as
 * passing it all policies, attributes and parents.
 */
import type { AuthorizationCall, EntityJson } from '@cedar-policy/cedar-wasm/nodejs'
import { isAuthorized } from '@cedar-policy/cedar-wasm/nodejs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Policies, type Subject } from '../../../dataplane/policy/index.ts'
import { createNumbers } from '../../support/random.ts'

const SERVER = 'gw'
const ROUNDS = 600

const tool = (id: string, backend: string | undefined, hints: Record<string, boolean>): Subject => ({
  action: 'call_tool',
  type: 'Tool',
  id,
  backend,
  hints,
  key: JSON.stringify(['tool', id, backend, hints]),
})
const other = (type: 'Prompt' | 'Resource', id: string): Subject => ({
  action: type === 'Prompt' ? 'get_prompt' : 'read_resource',
  type,
  id,
  backend: 'b1',
  hints: {},
  key: JSON.stringify([type, id]),
})

const principals = ['principal', 'principal == Client::"ann"', 'principal in Group::"eng"', 'principal is Client']
const actions = ['action', 'action == Action::"call_tool"', 'action in [Action::"call_tool", Action::"get_prompt"]']
const resources = [
  'resource',
  'resource == Tool::"a"',
  'resource == Tool::"b"',
  'resource == Prompt::"a"',
  'resource == Resource::"a"',
  'resource in MCP::"gw"',
  'resource in Backend::"b1"',
  'resource is Tool',
  'resource in Shelf::"top"',
]
const conditions = [
  'true',
  'principal has claim_level && principal.claim_level > 3',
  'context has claim_level && context.claim_level > 3',
  'context.claim_level > 1',
  'context has arg_x && context.arg_x like "w*"',
  'resource has arg_x && resource.arg_x == "wx"',
  'resource.arg_y_present',
  'resource.name == "a"',
  'resource has readOnlyHint && resource.readOnlyHint',
  'resource has backend && resource.backend == "b2"',
  'resource.feature == "tool" && resource.operation == "call"',
  '(if principal has claim_level then principal else resource) has name',
  '(if resource has name then resource else principal).name == "b"',
  'principal has claim_org.team && principal.claim_org.team == "red"',
  'resource has owner && resource.owner.name == "a"',
  'resource has owner && resource.owner == principal',
  'principal in Group::"ops" || resource in Backend::"b2"',
  'principal has friend && principal.friend has name && principal.friend.name == "a"',
  'Client::"ann" has claim_level && Client::"ann".claim_level > 3',
  'Tool::"a" has name && Tool::"a".name == "a"',
  'Tool::"a" in MCP::"gw"',
]
const entities: readonly EntityJson[] = [
  { uid: { type: 'Tool', id: 'a' }, attrs: { owner: { __entity: { type: 'Tool', id: 'a' } } }, parents: [] },
  { uid: { type: 'Tool', id: 'b' }, attrs: {}, parents: [{ type: 'Shelf', id: 'top' }] },
  { uid: { type: 'Client', id: 'ann' }, attrs: { friend: { __entity: { type: 'Tool', id: 'a' } } }, parents: [] },
  { uid: { type: 'Group', id: 'eng' }, attrs: {}, parents: [{ type: 'Group', id: 'ops' }] },
]
const subjects = [
  tool('a', 'b1', {}),
  tool('b', 'b2', { readOnlyHint: true }),
  tool('c', undefined, {}),
  other('Prompt', 'a'),
  other('Resource', 'a'),
]
const callers = [
  { id: 'ann', claims: { level: 5, groups: ['eng'], org: { team: 'red' } } },
  { id: 'bob', claims: { level: 2, groups: ['ops', 'x'] } },
  { id: 'cat', claims: {} },
]
const givens = [{}, { x: 'wx' }, { x: 'no', y: [1] }, { z: 'not read' }]

const feature = { Tool: 'tool', Prompt: 'prompt', Resource: 'resource' }
const operation = { call_tool: 'call', get_prompt: 'get', read_resource: 'read' }
type Values = Record<string, unknown>
const prefixNames = (prefix: string, values: Values) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [prefix + name, value]))

/** Returns the engine's decision with everything. */
function withEverything(
  policies: readonly string[],
  declared: readonly EntityJson[],
  { id, claims }: (typeof callers)[number],
  subject: Subject,
  values: Values,
): boolean {
  const args = prefixNames('arg_', values)
  const context = {
    ...prefixNames('claim_', claims),
    ...args,
    ...('y' in values ? { arg_y_present: true } : {}),
  }
  const principal = { type: 'Client', id }
  const resource = { type: subject.type, id: subject.id }
  const { groups = [] } = claims as { groups?: readonly string[] }
  const own = [
    {
      uid: principal,
      attrs: prefixNames('claim_', claims),
      parents: groups.map((name) => ({ type: 'Group', id: name })),
    },
    {
      uid: resource,
      attrs: {
        ...subject.hints,
        ...args,
        ...('y' in values ? { arg_y_present: true } : {}),
        name: subject.id,
        ...(subject.type === 'Resource' ? { uri: subject.id } : {}),
        ...(subject.backend === undefined ? {} : { backend: subject.backend }),
        feature: feature[subject.type],
        operation: operation[subject.action],
      },
      parents: [
        { type: 'MCP', id: SERVER },
        ...(subject.backend === undefined ? [] : [{ type: 'Backend', id: subject.backend }]),
      ],
    },
  ]
  const isSame = (one: unknown, two: unknown) => JSON.stringify(one) === JSON.stringify(two)
  const merged = own.map((entity) => {
    const found = declared.find(({ uid }) => isSame(uid, entity.uid))
    if (found === undefined) return entity
    return {
      ...entity,
      attrs: { ...found.attrs, ...entity.attrs },
      parents: [...entity.parents, ...found.parents],
    }
  })
  const rest = declared.filter(({ uid }) => !own.some((entity) => isSame(uid, entity.uid)))
  const answer = isAuthorized({
    principal,
    action: { type: 'Action', id: subject.action },
    resource,
    context: context as AuthorizationCall['context'],
    policies: { staticPolicies: Object.fromEntries(policies.map((text, index) => [`p${index}`, text])) },
    entities: [...merged, ...rest] as EntityJson[],
  })
  if (answer.type === 'failure') throw new Error(answer.errors.map(({ message }) => message).join())
  return answer.response.decision === 'allow' && answer.response.diagnostics.errors.length === 0
}

test('leaving policies out of a slice changes no decision', () => {
  const random = createNumbers(20261123)
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T
  const seen = { true: 0, false: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    const policies = Array.from({ length: 1 + random(5) }, () => {
      const effect = random(4) === 0 ? 'forbid' : 'permit'
      const kind = random(4) === 0 ? 'unless' : 'when'
      return `${effect}(${pick(principals)}, ${pick(actions)}, ${pick(resources)}) ${kind} { ${pick(conditions)} };`
    })
    const declared = random(2) === 0 ? [] : entities
    const policySet = new Policies({ policies, entitiesJson: JSON.stringify(declared) }, SERVER)
    for (const subject of subjects) {
      const caller = pick(callers)
      const values = subject.type === 'Resource' ? {} : pick(givens)
      const allowed = policySet.allows(policySet.principalOf(caller.id, caller.claims), subject, values)
      const expected = withEverything(policies, declared, caller, subject, values)
      assert.is(allowed, expected, JSON.stringify({ policies, declared, caller, subject, given: values }, undefined, 1))
      seen[`${allowed}`]++
    }
  }
  assert.ok(Math.min(seen.true, seen.false) > ROUNDS / 4, JSON.stringify(seen))
})

test('a decision depends on the arguments that policies of this very tool read', () => {
  const policySet = new Policies(
    {
      policies: [
        'permit(principal, action, resource == Tool::"a") when { context.arg_x == "1" };',
        'permit(principal, action, resource == Tool::"b");',
        'forbid(principal, action, resource) when { context has arg_y };',
      ],
    },
    SERVER,
  )
  const names = (subject: Subject) => [...policySet.argumentsOf(subject).names]
  assert.equal(names(tool('a', 'b1', {})), ['x', 'y'])
  assert.equal(names(tool('b', 'b1', {})), ['y'])
  assert.equal(names(other('Prompt', 'a')), ['y'])
  const caller = policySet.principalOf('ann', {})
  assert.ok(policySet.allows(caller, tool('b', 'b1', {}), { x: { deep: 'and read by nobody here' } }))
  assert.not(policySet.allows(caller, tool('b', 'b1', {}), { y: 1 }))
  assert.not(policySet.allows(caller, tool('a', 'b1', {}), { x: { deep: 1 } }))
})

test('many policies for many tools stay one set in the engine', () => {
  const buildOwn = (index: number) =>
    `permit(principal, action, resource == Tool::"t${index}") when { context.arg_x == "1" };`
  const buildShared = (index: number) => `forbid(principal, action, resource) when { context has arg_n${index} };`
  const policies = [
    ...Array.from({ length: 500 }, (_, index) => buildOwn(index)),
    ...Array.from({ length: 500 }, (_, index) => buildShared(index)),
  ]
  const policySet = new Policies({ policies }, SERVER)
  const caller = policySet.principalOf('ann', {})
  assert.ok(policySet.allows(caller, tool('t7', 'b1', {}), { x: '1' }))
  assert.not(policySet.allows(caller, tool('t7', 'b1', {}), { x: '1', n3: 1 }))
  assert.not(policySet.allows(caller, tool('u', 'b1', {}), { x: '1' }))
  const names = (id: string) => policySet.argumentsOf(tool(id, 'b1', {})).names.size
  assert.is(names('t7'), names('t8'))
})

test.run()
