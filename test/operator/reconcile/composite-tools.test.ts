import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { reconcile } from '../../../operator/reconcile/index.ts'
import { type Dependency, onObject, trackedView } from '../../../operator/runtime/watch/dependencies.ts'
import { buildWorld, condition, configText, context, plansOfText } from '../../support/operator/plans.ts'

const KIND = 'VirtualMCPCompositeToolDefinition'

const flow = (name: string, tool = 'docs.search') => `{name: ${name}, steps: [{id: one, tool: ${tool}}]}`
const definition = (name: string, spec: string) => `kind: ${KIND}\nmetadata: {name: ${name}}\nspec: ${spec}`
const refs = (...names: string[]) => `compositeToolRefs: [${names.map((name) => `{name: ${name}}`).join(', ')}]`

const manifests = (config: string, ...others: string[]) =>
  [
    'kind: MCPGroup\nmetadata: {name: tools}',
    'kind: MCPServerEntry\nmetadata: {name: docs}\nspec: {remoteUrl: https://docs.example.com/mcp, transport: streamable-http, groupRef: {name: tools}}',
    `kind: VirtualMCPServer\nmetadata: {name: all}\nspec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}, config: {${config}}}`,
    'kind: Observation\nmetadata: {name: all}\nobservation: {kind: VirtualMCPServer, replicas: 1, readyReplicas: 1}',
    ...others,
  ].join('\n---\n')

const buildPlan = (config: string, ...others: string[]) =>
  plansOfText(manifests(config, ...others)).get('VirtualMCPServer/all')

type GatewayPlan = ReturnType<typeof buildPlan>
const listOffered = (plan: GatewayPlan) =>
  (parse(configText(plan)) as GatewayConfig).compositeTools?.map(({ name }) => name)

test('a gateway offers its own workflows and those that it names, in whatever order they are written', () => {
  const all = [definition('x', flow('b')), definition('y', flow('d'))]
  const plan = buildPlan(`compositeTools: [${flow('c')}, ${flow('a')}], ${refs('x', 'y')}`, ...all)
  assert.equal(listOffered(plan), ['a', 'b', 'c', 'd'])
  assert.is(condition(plan, 'CompositeToolsReady'), 'True AllServed')
  assert.is(condition(plan, 'CompositeToolWarning'), undefined)
  const turned = buildPlan(`${refs('y', 'x')}, compositeTools: [${flow('a')}, ${flow('c')}]`, ...all)
  assert.is(configText(turned), configText(plan))
})

test('a gateway without workflows has no condition about them', () => {
  const plan = buildPlan('')
  assert.is(listOffered(plan), undefined)
  assert.is(condition(plan, 'CompositeToolsReady'), undefined)
})

const leftOut: readonly { what: string; config: string; specs: readonly string[]; says: string; offers: string[] }[] = [
  { what: 'is missing', config: '', specs: [], says: 'it is missing', offers: ['good'] },
  {
    what: 'is invalid',
    config: '',
    specs: ['{name: bad, timeout: 31m, steps: [{id: one, tool: docs.a, dependsOn: [none]}]}'],
    says: '/spec/timeout: must be more than zero and at most 30m (and 1 more)',
    offers: ['good'],
  },
  {
    what: 'has the name of one of the gateway’s own',
    config: `compositeTools: [${flow('same')}], `,
    specs: [flow('same')],
    says: '/spec/name: another composite tool has the name "same"',
    offers: ['good', 'same'],
  },
  {
    what: 'has the name of another',
    config: '',
    specs: [flow('good')],
    says: '/spec/name: another composite tool has the name "good"',
    offers: ['good'],
  },
  {
    what: 'calls another',
    config: '',
    specs: [flow('bad', 'good')],
    says: '/spec/steps/0/tool: is a composite tool: composite tools can’t call each other',
    offers: ['good'],
  },
  {
    what: 'takes the name of a tool that another calls',
    config: `compositeTools: [${flow('own', 'docs_search')}], `,
    specs: [flow('docs_search')],
    says: '/spec/name: another composite tool calls "docs_search", and composite tools can’t call each other',
    offers: ['good', 'own'],
  },
]

for (const { what, config, specs, says, offers } of leftOut)
  test(`a definition that ${what} is left out, and the gateway offers the others`, () => {
    const others = [definition('a-good-one', flow('good')), ...specs.map((spec) => definition('other', spec))]
    const plan = buildPlan(`${config}${refs('other', 'a-good-one')}`, ...others)
    assert.is(condition(plan, 'CompositeToolsReady'), `False DefinitionsLeftOut: ${KIND} "other" is left out: ${says}`)
    assert.is(condition(plan, 'Valid'), 'True ConfigValid')
    assert.is(condition(plan, 'ReferencesResolved')?.split(' ')[0], 'True')
    assert.equal(listOffered(plan), offers)
    assert.ok(plan?.events.some(({ type, reason }) => type === 'Warning' && reason === 'DefinitionsLeftOut'))
  })

/** Plans a gateway that served some definitions before they changed to others. */
function planAfter(before: readonly string[], after: readonly string[]) {
  const gateway = refs('x', 'y')
  const status = buildPlan(gateway, ...before)?.status
  const [, , self = '', ...rest] = manifests(gateway, ...after).split('\n---\n')
  const group = manifests(gateway).split('\n---\n').slice(0, 2)
  const withStatus = `${self}\nstatus: ${JSON.stringify(status)}`
  return plansOfText([...group, withStatus, ...rest].join('\n---\n')).get('VirtualMCPServer/all')
}

const cycle = '{name: b, steps: [{id: p, tool: docs.a, dependsOn: [q]}, {id: q, tool: docs.b, dependsOn: [p]}]}'
const wrongChanges: readonly (readonly [string, string, string])[] = [
  ['into a cycle of its steps', cycle, 'these wait for each other: p, q'],
  ['into one that calls another', flow('b', 'd'), 'is a composite tool: composite tools can’t call each other'],
  ['to the name of another', flow('d'), 'another composite tool has the name "d"'],
]
for (const [what, changed, says] of wrongChanges)
  test(`a definition that is changed ${what} is refused, and its last good version is served beside the others`, () => {
    const [x, y] = [definition('x', flow('b')), definition('y', flow('d'))]
    const plan = planAfter([x, y], [definition('x', changed), y])
    assert.equal(listOffered(plan), ['b', 'd'])
    assert.is(configText(plan), configText(buildPlan(refs('x', 'y'), x, y)))
    const message = condition(plan, 'CompositeToolsReady') ?? ''
    assert.match(message, `False DefinitionsRefused: ${KIND} "x" is served as it was before`)
    assert.ok(message.includes(says), message)
    assert.equal(plan?.status['compositeTools'], buildPlan(refs('x', 'y'), x, y)?.status['compositeTools'])
    // A removed definition is gone, and a valid change takes effect.
    assert.equal(listOffered(planAfter([x, y], [y])), ['d'])
    assert.equal(listOffered(planAfter([x, y], [definition('x', flow('c')), y])), ['c', 'd'])
  })

test('values of all workflows are counted: one that is too much is left out, and costs the others nothing', () => {
  const large = (name: string, values: number) =>
    `{name: ${name}, steps: [{id: one, tool: docs.search, arguments: {list: [${'1,'.repeat(values)}]}}]}`
  const plan = buildPlan(refs('x', 'y'), definition('x', large('a', 6_000)), definition('y', large('b', 6_000)))
  assert.equal(listOffered(plan), ['a'])
  assert.match(
    condition(plan, 'CompositeToolsReady') ?? '',
    /^False DefinitionsLeftOut: .*"y" is left out: .*10000 values/,
  )
  const own = buildPlan(`compositeTools: [${large('a', 6_000)}, ${large('b', 6_000)}]`)
  assert.match(condition(own, 'Valid') ?? '', /^False ConfigInvalid: .*have more than 10000 values together/)
  assert.equal(listOffered(buildPlan(`compositeTools: [${large('a', 9_900)}]`)), ['a'])
})

test('an invalid workflow of the gateway itself holds the running pods', () => {
  const wrong = '{name: b, steps: [{id: one, tool: a}, {id: two, tool: docs.x, arguments: {x: "{{.params.n"}}]}'
  const plan = buildPlan(`compositeTools: [${flow('a')}, ${wrong}]`)
  assert.match(
    condition(plan, 'Valid') ?? '',
    /^False ConfigInvalid: \/spec\/config\/compositeTools\/1\/steps\/1\/arguments\/x: .*; \/spec\/config\/compositeTools\/1\/steps\/0\/tool: is a composite tool/,
  )
  assert.is(plan?.children, 'hold')
})

test('a step that calls a tool that no backend can have is reported', () => {
  const plan = buildPlan(`compositeTools: [${flow('a', 'dosc.search')}]`)
  assert.is(
    condition(plan, 'CompositeToolWarning'),
    'True NoSuchTool: a calls dosc.search, which is a tool of no backend',
  )
  assert.equal(listOffered(plan), ['a'])
})

test('a gateway is planned again when a definition that it names comes or changes', () => {
  const { view } = buildWorld(manifests(refs('x', 'gone'), definition('x', flow('b'))))
  const seen = new Set<Dependency>()
  const gateway = view.all().find(({ kind }) => kind === 'VirtualMCPServer')
  assert.ok(gateway)
  reconcile(gateway, trackedView(view, seen), context)
  for (const name of ['x', 'gone']) assert.ok(seen.has(onObject(KIND, 'default', name)), name)
})

test('the status of a definition lists each mistake with its place', () => {
  const plan = plansOfText(
    definition(
      'x',
      '{name: a, timeout: 31m, steps: [{id: one, tool: docs.a, condition: "{{.steps.two.status}}"}, {id: two, tool: a}]}',
    ),
  ).get(`${KIND}/x`)
  assert.equal(plan?.status['validationErrors'], [
    '/spec/timeout: must be more than zero and at most 30m',
    '/spec/steps/0/condition: refers to step "two", which may still be running: name it in dependsOn (character 3)',
    '/spec/steps/1/tool: is a composite tool: composite tools can’t call each other',
  ])
  assert.is(plan?.status['validationStatus'], 'Invalid')
  assert.match(condition(plan, 'Valid') ?? '', 'False ConfigInvalid: /spec/timeout: must be')
  const good = plansOfText(definition('x', flow('a'))).get(`${KIND}/x`)
  assert.equal([good?.status['validationErrors'], good?.status['validationStatus']], [[], 'Valid'])
  assert.is(condition(good, 'Ready'), 'True Ready')
})

test('the API server accepts the status of a definition with any number of mistakes', () => {
  const wrong = Array.from({ length: 3000 }, (_, index) => `k${index}: "{{.params.gone}}"`).join(', ')
  const ids = Array.from({ length: 100 }, (_, index) => `${'s'.repeat(50)}${index}`)
  const stuck = ids.map((id, index) => `{id: ${id}, tool: docs.a, dependsOn: [${ids[(index + 1) % 100]}]}`).join(', ')
  const listErrors = (steps: string) => {
    const spec = `{name: a, parameters: {type: object, properties: {}}, steps: [${steps}]}`
    return plansOfText(definition('x', spec)).get(`${KIND}/x`)?.status['validationErrors'] as readonly string[]
  }
  const many = listErrors(`{id: one, tool: docs.a, arguments: {${wrong}}}`)
  assert.is(many.length, 64)
  assert.is(many.at(-1), 'and 2937 more')
  const [long = ''] = listErrors(stuck)
  assert.is(long.length, 4096)
})

test.run()
