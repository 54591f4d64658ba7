/** Compiles valid and hostile policies: each is compiled within bounds or refused with a reason. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { engine } from '../../../dataplane/policy/engine.ts'
import { Policies, policyProblems } from '../../../dataplane/policy/index.ts'

const permitWhen = (body: string) => `permit(principal, action, resource) when { ${body} };`
const findProblems = (policies: readonly string[], more: object = {}) =>
  policyProblems({ policies, ...more }).map(({ pointer, message }) => `${pointer}: ${message}`)

const fine: Readonly<Record<string, string>> = {
  'several in one text': 'permit(principal, action, resource);\nforbid(principal, action, resource in Backend::"a");',
  'attributes and tests for them': permitWhen(
    'context has claim_a.b && context.arg_x like "a*" && principal["claim_x-y"] == 1',
  ),
  'extension types': permitWhen('context has arg_ip && ip(context.arg_ip).isInRange(ip("10.0.0.0/8"))'),
  'permits of lists, as the widely used gateway needs them':
    'permit(principal, action == Action::"list_tools", resource);',
  'an id': '@id("reads") permit(principal, action, resource);',
  'an annotation in a comment and a text': `// @requireApproval("a")\n${permitWhen('context.arg_x == "@requireApproval(a)"')}`,
  'brackets in texts and comments': `${permitWhen(`context.arg_x == "${'('.repeat(100)}"`)} // ${'['.repeat(100)}`,
}
for (const [what, policy] of Object.entries(fine))
  test(`compiled: ${what}`, () => assert.equal(findProblems([policy]), []))

const wrong: Readonly<Record<string, readonly [policy: string, says: RegExp]>> = {
  'a syntax error': ['permit(principal, action, resource)\n  whatever;', /^\/policies\/0: line 2, column 11: /],
  'an error behind characters of several bytes': ['// ä€😀\npermit(', /line 2, column \d+: /],
  'an unknown variable': [permitWhen('user.name == "a"'), /policies\/0: line 1, column \d+: invalid/],
  'an unknown function': [permitWhen('shell("ls")'), /^\/policies\/0: /],
  'a template': ['permit(principal == ?principal, action, resource);', /template/],
  nothing: ['// permit', /holds no policy/],
  'two policies of which one is broken': ['permit(principal, action, resource); permit(x', /^\/policies\/0: line 1/],
  'an annotation that holds calls up elsewhere': [
    '@requireApproval("boss") permit(principal, action, resource);',
    /^\/policies\/0: has the annotation @requireApproval, which has no effect here; only @id is supported$/,
  ],
  'an annotation without a value': ['@advice permit(principal, action, resource);', /annotation @advice/],
  'an annotation of the second policy, beside an id': [
    'permit(principal, action, resource);\n@id("a")\n@ID("b")\nforbid(principal, action, resource in Backend::"a");',
    /annotation @ID/,
  ],
  'context as a whole': [permitWhen('context == {}'), /uses context as a whole/],
  'a forbid of a list': ['forbid(principal, action == Action::"list_tools", resource);', /lists are always answered/],
  'a forbid of no action': ['forbid(principal, action == Action::"calltool", resource);', /not an action/],
  'a forbid of no action in a condition': [
    'forbid(principal, action, resource) when { action in [Action::"call_tool", Action::"delete"] };',
    /not an action/,
  ],
  'brackets in one another': [permitWhen(`${'('.repeat(40)}true${')'.repeat(40)}`), /more than 32 brackets/],
  'brackets without end': ['('.repeat(60_000), /more than 32 brackets/],
  'a chain of operators': [permitWhen(`false${' || false'.repeat(150)}`), /nested too deep|too large/],
  'a chain that overflows the engine': [permitWhen(`false${'|| false'.repeat(6_000)}`), /too deep or too large/],
  'a chain of members': [permitWhen(`context${'.a'.repeat(5_000)} == 1`), /too deep/],
  'a long pattern': [permitWhen(`context.arg_x like "${'*a'.repeat(300)}"`), /pattern of more than 512/],
  'a text without end': [`// ${'x'.repeat(300_000)}`, /more than 262144 characters/],
  'a long policy': [permitWhen(`[${'1,'.repeat(33_000)}1].contains(1)`), /more than 65536 characters in one policy/],
  'a long policy among others': [
    `${permitWhen('true')}${permitWhen(`[${'1,'.repeat(33_000)}1].contains(1)`)}`,
    /in one policy/,
  ],
  'an error behind other policies': [
    `${permitWhen('true')}\n${permitWhen('true')}\n permit(`,
    /^\/policies\/0: line 3, column 9: /,
  ],
  'NUL and other rubbish': ['\0\u{ffff}permit', /policies\/0: /],
}
for (const [what, [policy, says]] of Object.entries(wrong))
  test(`refused: ${what}`, () => {
    const problems = findProblems([policy])
    assert.match(problems.join('\n'), says)
    assert.ok(problems.join().length < 2_000, 'a message of bounded length')
  })

test('each invalid policy is reported at its place', () => {
  const problems = findProblems(['permit(', 'permit(principal, action, resource);', 'forbid('])
  assert.equal(
    problems.map((text) => text.slice(0, 11)),
    ['/policies/0', '/policies/2'],
  )
})

test('thousands of policies are refused, and soon', () => {
  const started = performance.now()
  const text = 'permit(principal, action, resource);'
  assert.match(findProblems([text.repeat(3_000)]).join(), /more than 1000 policies/)
  assert.ok(performance.now() - started < 20_000)
})

test('unclosed quotes are read in linear time', () => {
  const measureTime = (policy: string) => {
    const started = performance.now()
    assert.match(findProblems([policy]).join(), /^\/policies\/0: line 1, column 1: /)
    return performance.now() - started
  }
  const escaped = '\\"'.repeat(32_000)
  const closed = Math.max(measureTime(`"${escaped}"`), measureTime(`"${escaped}" `), 10)
  // Scanning on from each of them would take thousands of times as long.
  assert.ok(measureTime(`"${escaped}`) < 100 * closed)
})

test('too many texts are refused as a whole, whatever is in them', () => {
  for (const text of ['', 'x', 'permit(principal, action, resource);'])
    assert.match(
      findProblems(Array(text.length > 1 ? 5_000 : 260_000).fill(text)).join('\n'),
      /^\/policies: hold more than 1000 policies$/,
    )
})

test('an engine that has overflowed is replaced: policies in force stay', () => {
  const policies = new Policies({ policies: ['permit(principal == Client::"a", action, resource);'] }, 'gw')
  const ask = (id: string) =>
    policies.explain(policies.principalOf(id, {}), {
      action: 'call_tool',
      type: 'Tool',
      id: 't',
      backend: undefined,
      hints: {},
      key: 't',
    }).allowed
  assert.ok(ask('a'))
  for (const depth of [2_000, 4_000])
    assert.match(findProblems([permitWhen(`false${'|| false'.repeat(depth)}`)]).join(), /too deep/)
  assert.ok(ask('a'))
  assert.not(ask('b'))
})

const group = (id: number, parents: readonly number[]) => ({
  uid: { type: 'Group', id: String(id) },
  attrs: {},
  parents: parents.map((parent) => ({ __entity: { type: 'Group', id: String(parent) } })),
})
const groups = (count: number, listParents: (id: number) => readonly number[]) =>
  JSON.stringify(
    Array.from({ length: count }, (_, id) =>
      group(
        id,
        listParents(id).filter((one) => one < count),
      ),
    ),
  )

const entities: Readonly<Record<string, readonly [json: string, says: RegExp]>> = {
  'no JSON': ['{', /is not valid JSON/],
  'no array': ['{}', /must be a JSON array/],
  'no entity': ['[1]', /^\/entitiesJson: entity 1 must be/],
  'lists where Cedar writes objects': [
    JSON.stringify([{ uid: ['Group', 'a'], attrs: {}, parents: [['Group', 'b']] }]),
    /entity 1 must be an object whose uid and parents are/,
  ],
  'a circle': [
    JSON.stringify(
      ['a', 'b'].map((id) => ({
        uid: { type: 'Group', id },
        attrs: {},
        parents: [{ type: 'Group', id: id === 'a' ? 'b' : 'a' }],
      })),
    ),
    /cycle/,
  ],
  'one of them twice': [
    JSON.stringify([1, 2].map((value) => ({ uid: { type: 'A', id: 'x' }, attrs: { value }, parents: [] }))),
    /duplicate/,
  ],
  'nested without end': [`${'['.repeat(50_000)}${']'.repeat(50_000)}`, /nested deeper|is not valid JSON/],
  'a long one': [
    JSON.stringify([{ uid: { type: 'A', id: 'x' }, attrs: { a: 'a'.repeat(140_000) }, parents: [] }]),
    /entity of more than 131072 characters/,
  ],
  'one of them far from the same': [
    JSON.stringify(
      [...Array(300).keys(), 0].map((id) => ({ uid: { type: 'A', id: `${id}` }, attrs: {}, parents: [] })),
    ),
    /duplicate: A::"0"/,
  ],
  'a long chain': [groups(4_000, (id) => [id + 1]), /more than 100000 pairs/],
  'a long chain, from its end': [groups(4_000, (id) => (id === 0 ? [] : [id - 1])), /more than 100000 pairs/],
  'a long circle': [groups(4_000, (id) => [(id + 1) % 4_000]), /more than 100000 pairs|cycle/],
  'many ways to the same': [groups(200, (id) => Array.from({ length: 200 - id }, (_, step) => id + step + 1)), /ways/],
  'too many': [`[${'{},'.repeat(10_001)}{}]`, /more than 10000/],
}
for (const [what, [json, says]] of Object.entries(entities))
  test(`entities: ${what}`, () =>
    assert.match(findProblems(['permit(principal, action, resource);'], { entitiesJson: json }).join(), says))

test('the nested groups of a large organisation', () => {
  const policies = ['permit(principal, action, resource);']
  // Ten thousand entities in five levels, and a chain just within the bound.
  const tree = groups(10_000, (id) => (id === 0 ? [] : [Math.floor((id - 1) / 8)]))
  assert.equal(findProblems(policies, { entitiesJson: tree }), [])
  assert.equal(findProblems(policies, { entitiesJson: groups(440, (id) => [id + 1]) }), [])
})

test('policies of one text are named in their order, whatever their content', () => {
  const policies = [...Array(12).keys()].map((id) => `permit(principal, action, resource == Tool::"${id};") // ;\n;`)
  const policySet = new Policies({ policies: [`// All of them;\n${policies.join('\n')} // the end`] }, 's')
  const subject = { action: 'call_tool', type: 'Tool', id: '2;', key: '', backend: '', attributes: {} }
  const explanation = policySet.explain(policySet.principalOf('a', {}), subject as never)
  assert.equal(
    explanation.policies.map(({ policy }) => policy),
    ['policies/0.3'],
  )
})

test('a group type that means something else is refused', () => {
  for (const groupEntityType of ['Client', 'Tool', 'A::B', '', '1a'])
    assert.match(findProblems(['permit(principal, action, resource);'], { groupEntityType }).join(), /groupEntityType/)
})

test('checked policies take effect once, without being compiled again', () => {
  const source = { policies: [fine['attributes and tests for them'] as string] }
  assert.equal(policyProblems(source), [])
  const { run } = engine
  let calls = 0
  const countRun: typeof run = (use) => {
    calls++
    return run.call(engine, use) as ReturnType<typeof use>
  }
  Object.assign(engine, { run: countRun })
  try {
    assert.ok(new Policies(source, 's'))
    assert.is(calls, 0)
    assert.ok(new Policies({ ...source }, 's'))
    assert.ok(calls > 0)
  } finally {
    Object.assign(engine, { run })
  }
})

test.run()
