/**
 * Compares decisions without the engine with the engine's: random policies, well-typed and ill-typed, with random
 * callers, tools and arguments. `allows` decides without the engine if it can; `explain` always asks it.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { atOnce } from '../../../crds/settings/stepwise.ts'
import { DecisionRequest, decide } from '../../../dataplane/policy/evaluate.ts'
import { Policies, type Subject } from '../../../dataplane/policy/index.ts'
import { readingPolicies } from '../../../dataplane/policy/policy-text.ts'
import { buildAttributes } from '../../../dataplane/policy/request.ts'
import { createNumbers } from '../../support/random.ts'

const SERVER = 'gw'
const ROUNDS = 1_500

const random = createNumbers(20261124)
const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T
const quote = (text: string) => JSON.stringify(text)

const texts = ['', 'a', 'ab', 'ba', 'aab', 'w*', 'é😀', '*', 'a\\b']
const ENTITIES = [
  'Client::"ann"',
  'Client::"bob"',
  'Group::"eng"',
  'Group::"ops"',
  'Tool::"a"',
  'Prompt::"a"',
  'MCP::"gw"',
  'MCP::"other"',
  'Backend::"b1"',
  'Action::"call_tool"',
]
const ATTRIBUTES = ['claim_level', 'claim_org', 'claim_list', 'claim_name', 'claim_on', 'claim_rate']
const ARGUMENTS = ['arg_x', 'arg_n', 'arg_on', 'arg_list', 'arg_list_present', 'arg_rate']
const OWN = ['name', 'backend', 'feature', 'readOnlyHint', 'uri', ...ARGUMENTS]

const pattern = () => Array.from({ length: random(7) }, () => pick(['a', 'a', 'b', '*', '*', '\\*', '😀'])).join('')

const kinds = ['boolean', 'long', 'text', 'set', 'entity', 'record'] as const
type Kind = (typeof kinds)[number]

/** Returns an expression that reads an existing value of any type. */
const read = () =>
  pick([
    () => `principal.${pick(ATTRIBUTES)}`,
    () => `context.${pick([...ATTRIBUTES, ...ARGUMENTS])}`,
    () => `resource.${pick(OWN)}`,
    () => `principal.claim_org.${pick(['team', 'size', 'none'])}`,
    () => `${pick(ENTITIES)}.${pick([...ATTRIBUTES, 'name'])}`,
  ])()

const buildGuarded = () => {
  const [of, name] = pick([
    ['principal', pick(ATTRIBUTES)],
    ['context', pick([...ATTRIBUTES, ...ARGUMENTS])],
    ['resource', pick(OWN)],
    ['principal.claim_org', pick(['team', 'none'])],
    [pick(ENTITIES), pick(ATTRIBUTES)],
  ] as const)
  return `(${of} has ${name})`
}

/** Returns an expression of a type or, one time in twenty, of another. */
function expression(kind: Kind, depth: number): string {
  const wanted = random(20) === 0 ? pick(kinds) : kind
  if (depth === 0 || random(6) === 0) return leaf(wanted)
  if (random(8) === 0)
    return `(if ${expression('boolean', depth - 1)} then ${expression(wanted, depth - 1)} else ${expression(wanted, depth - 1)})`
  const buildPart = (of: Kind) => expression(of, depth - 1)
  if (wanted !== 'boolean') return leaf(wanted)
  return `(${pick([
    () => `${buildPart('boolean')} && ${buildPart('boolean')}`,
    () => `${buildPart('boolean')} || ${buildPart('boolean')}`,
    () => `!${buildPart('boolean')}`,
    () => `${buildPart('long')} ${pick(['<', '<=', '>', '>=', '==', '!='])} ${buildPart('long')}`,
    () => `${buildPart('text')} ${pick(['==', '!='])} ${buildPart('text')}`,
    () => `${buildPart('text')} like "${pattern()}"`,
    () =>
      `${buildPart('set')}.${pick(['contains', 'contains', 'containsAll', 'containsAny'])}(${buildPart(pick(['text', 'long', 'set', 'entity']))})`,
    () => `${buildPart('set')}.isEmpty()`,
    () => `${buildPart('entity')} in ${buildPart(pick(['entity', 'set']))}`,
    () => `${buildPart('entity')} == ${buildPart('entity')}`,
    () => `${buildPart('entity')} is ${pick(['Tool', 'Client', 'Group'])}${pick(['', ` in ${pick(ENTITIES)}`])}`,
    () => `${buildPart(pick(kinds))} == ${buildPart(pick(kinds))}`,
    () => `${buildPart('long')} + ${buildPart('long')} < 9`,
    () => `decimal("1.5").lessThan(${read()})`,
    buildGuarded,
  ])()})`
}

function leaf(kind: Kind): string {
  switch (kind) {
    case 'boolean':
      return pick(['true', 'false', buildGuarded(), buildGuarded(), 'principal.claim_on', 'context.arg_on'])
    case 'long':
      return pick(['0', '1', '(-2)', '7', '9007199254740993', 'principal.claim_level', 'context.arg_n', read()])
    case 'text':
      return pick([quote(pick(texts)), quote(pick(texts)), 'context.arg_x', 'resource.name', read()])
    case 'set':
      return pick([
        '[]',
        '["a", "ab"]',
        '[1, "a", 7]',
        `[${ENTITIES.slice(0, 6).join(', ')}]`,
        'principal.claim_list',
        'context.arg_list',
        read(),
      ])
    case 'entity':
      return pick(['principal', 'resource', 'action', pick(ENTITIES)])
    case 'record':
      return pick(['principal.claim_org', '{a: 1}', read()])
  }
}

const scopes = {
  principal: ['', '', ' == Client::"ann"', ' in Group::"eng"', ' is Client', ' is Client in Group::"ops"'],
  action: [
    '',
    ' == Action::"call_tool"',
    ' in [Action::"call_tool", Action::"get_prompt"]',
    ' in Action::"get_prompt"',
  ],
  resource: [
    '',
    '',
    ' == Tool::"a"',
    ' == Tool::"b"',
    ' in MCP::"gw"',
    ' in Backend::"b1"',
    ' is Tool',
    ' is Tool in MCP::"gw"',
  ],
}

function policy(): string {
  const effect = random(4) === 0 ? 'forbid' : 'permit'
  const scope = `principal${pick(scopes.principal)}, action${pick(scopes.action)}, resource${pick(scopes.resource)}`
  const conditions = Array.from({ length: random(3) }, () => {
    // Usually `has` precedes the access, as people write it.
    const first = random(2) === 0 ? `${buildGuarded()} && ` : ''
    return ` ${pick(['when', 'when', 'unless'])} { ${first}${expression('boolean', 3)} }`
  })
  return `${effect}(${scope})${conditions.join('')};`
}

const tool = (id: string, backend: string | undefined, hints: Record<string, boolean>): Subject => ({
  action: 'call_tool',
  type: 'Tool',
  id,
  backend,
  hints,
  key: JSON.stringify([id, backend, hints]),
})
const prompt: Subject = { ...tool('a', 'b1', {}), action: 'get_prompt', type: 'Prompt', key: 'prompt' }
const subjects = [
  prompt,
  tool('a', 'b1', {}),
  tool('b', 'b2', { readOnlyHint: true }),
  tool('*', undefined, { arg_x: true }),
]
const callers = [
  { id: 'ann', claims: { level: 7, on: true, groups: ['eng'], org: { team: 'ab', size: 3 }, list: ['a', 7, ['b']] } },
  { id: 'bob', claims: { level: -2, on: false, groups: ['ops', 'x'], name: 'aab', list: [], rate: 1.5 } },
  { id: 'Client', claims: { level: 'a', org: 'ab', list: { a: 1 }, name: ['a'], groups: 'eng' } },
  { id: 'cat', claims: {} },
]
const givens = [
  {},
  { x: 'aab', n: 7, on: true, list: ['a', 'ab'], rate: 1.5 },
  { x: 'é😀', n: 0, on: false, list: [] },
  { x: 7, n: 'w*', on: 'true', list: 'a' },
  { x: null, list: [1, true, 2.5] },
]

test('random policies are decided as the engine decides them', () => {
  const seen = { allowed: 0, denied: 0, here: 0, engine: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    const policies = Array.from({ length: 1 + random(3) }, policy)
    const policySet = new Policies({ policies }, SERVER)
    const evaluated = policies.flatMap((text) => {
      const found = atOnce(readingPolicies(text, '0'))
      return typeof found === 'string' ? [] : found.flatMap((one) => one.evaluated ?? [])
    })
    for (let times = 0; times < 3; times++) {
      const { id, claims } = pick(callers)
      const [subject, args, principal] = [pick(subjects), pick(givens), policySet.principalOf(id, claims)]
      const allowed = policySet.allows(principal, subject, args)
      const expected = policySet.explain(principal, subject, args)
      const details = JSON.stringify({ policies, id, claims, subject, given: args, expected }, undefined, 1)
      assert.is(allowed, expected.allowed, details)
      seen[allowed ? 'allowed' : 'denied']++
      const request = { principal, subject, given: {}, server: SERVER, groupEntityType: 'Group' }
      const isHere =
        evaluated.length === policies.length &&
        decide(evaluated, new DecisionRequest(request, buildAttributes(subject))) !== undefined
      seen[isHere ? 'here' : 'engine']++
    }
  }
  console.log(JSON.stringify(seen))
  for (const [what, times] of Object.entries(seen)) assert.ok(times > ROUNDS / 4, `${what}: ${JSON.stringify(seen)}`)
})

/** Conditions that are rarely generated. */
const corners = [
  'resource.arg_x == "aab"',
  'resource.arg_x == true',
  'context.arg_x != "aab"',
  'principal.claim_rate has fn',
  'principal.claim_rate has __extn',
  'principal.claim_rate == 1',
  'principal.claim_rate == decimal("1.5")',
  'context.arg_rate != context.arg_x',
  'principal.claim_org has team && principal.claim_org.team == "ab"',
  'principal.claim_org has toString',
  'principal has toString || context has constructor || resource has hasOwnProperty',
  'principal.claim_list.contains(7) && !principal.claim_list.contains("7")',
  'principal.claim_list.contains(["b"])',
  'principal.claim_list.containsAny([["b"]])',
  'principal.claim_list == ["a", 7, ["b"]]',
  '["a", "a"] == ["a"]',
  '["a"].containsAll([]) && [].isEmpty()',
  '[1, "a"].containsAny([2, principal])',
  'principal in [Group::"eng", 1]',
  'principal in []',
  'principal in "eng"',
  'Client::"ann" in Group::"eng"',
  'resource in resource && principal in principal',
  'resource in MCP::"other"',
  'resource in Backend::"b2"',
  'resource is Tool',
  'resource is Tool in Backend::"b1"',
  'principal is Tool in Group::"eng"',
  '1 is Tool',
  'Client::"ann".claim_level == 7',
  'Client::"nobody" has claim_level',
  'Client::"nobody".claim_level == 7',
  'false && 1',
  'true && 1',
  'true || 1',
  '!(1)',
  'if 1 then true else false',
  'if true then true else 1 < "a"',
  '"a" < "b"',
  '1 == true || "1" == 1 || true == "true"',
  'principal == resource',
  'principal == "ann"',
  'principal.claim_level <= 9007199254740993',
  'resource.name like "*" && resource.feature like "t*l"',
  'principal.claim_level like "*"',
  'context == {}',
]

test('corners are decided as the engine decides them, in either effect', () => {
  for (const condition of corners)
    for (const effect of ['permit', 'forbid'])
      for (const kind of ['when', 'unless']) {
        const buildPolicy = (what: string) => `${what}(principal, action, resource) ${kind} { ${condition} };`
        const policies =
          effect === 'permit'
            ? [buildPolicy('permit')]
            : ['permit(principal, action, resource);', buildPolicy('forbid')]
        if (condition === 'context == {}') {
          assert.throws(() => new Policies({ policies }, SERVER), /context as a whole/)
          continue
        }
        const policySet = new Policies({ policies }, SERVER)
        for (const { id, claims } of callers)
          for (const subject of subjects)
            for (const args of givens) {
              const principal = policySet.principalOf(id, claims)
              const expected = policySet.explain(principal, subject, args)
              const details = JSON.stringify({ policies, id, claims, subject, given: args, expected }, undefined, 1)
              assert.is(policySet.allows(principal, subject, args), expected.allowed, details)
            }
      }
})

test('patterns match as the engine matches them', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const like = pattern()
    const policySet = new Policies(
      { policies: [`permit(principal, action, resource) when { context.arg_x like "${like}" };`] },
      SERVER,
    )
    const x = Array.from({ length: random(6) }, () => pick(['a', 'a', 'b', '*', '😀'])).join('')
    const caller = policySet.principalOf('ann', {})
    const subject = pick(subjects)
    const allowed = policySet.allows(caller, subject, { x })
    assert.is(allowed, policySet.explain(caller, subject, { x }).allowed, JSON.stringify({ like, x }))
  }
})

test('a chain of operators that is too long for the stack is refused as such', () => {
  const chain = Array.from({ length: 10_000 }, () => 'true').join('&&')
  assert.throws(
    () => new Policies({ policies: [`permit(principal, action, resource) when { ${chain} };`] }, SERVER),
    /too deep|chains too many|can’t take this/,
  )
})

test.run()
