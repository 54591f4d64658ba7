/**
 * Checks what MCPPins add to the configuration of pods, and what conditions and events report about the definitions
 * that pods serve.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { parseGateway } from '../../../dataplane/config/read/gateway-findings.ts'
import { fillWorld, type KubernetesObject } from '../../../operator/model/index.ts'
import type { Plan } from '../../../operator/reconcile/index.ts'
import { condition, plansOfText, planWorld, worldContent } from '../../support/operator/plans.ts'

const digest = (letter: string) => `sha256:${letter.repeat(64)}`
const server = (pinning = '') => `
kind: MCPServer
metadata: {name: weather}
spec: {image: x, transport: streamable-http, groupRef: {name: tools}${pinning && `, pinning: ${pinning}`}}
---`
const entry = (pinning = '') => `
kind: MCPServerEntry
metadata: {name: far}
spec: {remoteUrl: "https://far.example/mcp", transport: streamable-http, groupRef: {name: tools}${pinning && `, pinning: ${pinning}`}}
---`
const gateway = (pinning = '', name = 'all') => `
kind: VirtualMCPServer
metadata: {name: ${name}}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}${pinning && `, config: {pinning: ${pinning}}`}}
---`
const group = `
kind: MCPGroup
metadata: {name: tools}
spec: {}
---`
const pin = (name: string, target: string, rest: string) => `
kind: MCPPin
metadata: {name: ${name}}
spec: {targetRef: {kind: ${target}}, ${rest}}
---`
const onWeather = 'MCPServer, name: weather'
const onFar = 'MCPServerEntry, name: far'
const tool = (name: string, ...letters: string[]) =>
  `tools: [{name: ${name}, digests: [${letters.map((letter) => `"${digest(letter)}"`).join(', ')}]}]`

/** Returns a backend's pins in the plan's configuration, as the data plane reads them. */
const pinningIn = (plan: Plan | undefined, name: string) => backendIn(plan, name)?.pinning

function backendIn(plan: Plan | undefined, name: string): BackendConfig | undefined {
  const children = plan?.children === 'hold' ? [] : (plan?.children ?? [])
  const map = children.find(({ kind }) => kind === 'ConfigMap') as { data?: Record<string, string> } | undefined
  const text = map?.data?.['gateway.yaml'] ?? ''
  parseGateway(text)
  return (parse(text) as { backends: BackendConfig[] }).backends.find((backend) => backend.name === name)
}

test('without pinning nothing is rendered or reported, whatever pins exist', () => {
  const plans = plansOfText(server() + group + gateway() + entry() + pin('a', onWeather, tool('a', 'a')))
  for (const [name, backend] of [
    ['MCPServer/weather', 'weather'],
    ['VirtualMCPServer/all', 'weather'],
    ['VirtualMCPServer/all', 'far'],
  ] as const)
    assert.is(pinningIn(plans.get(name), backend), undefined, `${name} ${backend}`)
  for (const [name, plan] of plans) assert.is(condition(plan, 'DefinitionsApproved'), undefined, name)
})

test('the pins of all MCPPins of a server add up, and those of others do not count', () => {
  const plans = plansOfText(
    server('{mode: enforce}') +
      group +
      pin('one', onWeather, `${tool('a', 'b', 'a')}, instructions: {digests: ["${digest('e')}"]}`) +
      pin(
        'two',
        onWeather,
        `tools: [{name: a, digests: ["${digest('c')}", "${digest('a')}"]}, {name: constructor, digests: ["${digest('d')}"]}, {name: __proto__, digests: ["${digest('d')}"]}], unlisted: {resources: bare, tools: allow}`,
      ) +
      pin('three', onWeather, 'unlisted: {resources: allow, tools: withhold}') +
      pin('other', 'MCPServer, name: other', tool('a', 'f')) +
      pin('kind', 'MCPRemoteProxy, name: weather', tool('a', 'f')),
  )
  const joined = {
    mode: 'enforce',
    pins: {
      instructions: [digest('e')],
      tools: JSON.parse(
        `{"__proto__":["${digest('d')}"],"a":["${digest('a')}","${digest('b')}","${digest('c')}"],"constructor":["${digest('d')}"]}`,
      ) as object,
      unlisted: { tools: 'withhold', resources: 'bare' },
    },
  }
  // Compared as text: an own key `constructor` misleads a comparison of objects.
  assert.is(JSON.stringify(pinningIn(plans.get('MCPServer/weather'), 'weather')), JSON.stringify(joined))
  assert.equal(plans.get('MCPPin/one')?.status['referencingWorkloads'], [{ kind: 'MCPServer', name: 'weather' }])
  assert.is(condition(plans.get('MCPPin/one'), 'Ready'), 'True Ready')
  assert.match(condition(plans.get('MCPPin/kind'), 'Ready') ?? '', /^False ReferenceNotFound: MCPRemoteProxy "weather"/)
  assert.equal(plans.get('MCPPin/kind')?.status['referencingWorkloads'], [])
})

test('an MCPPin under deletion approves nothing, and nothing blocks its deletion', () => {
  const content = worldContent(server('{mode: enforce}') + group + pin('a', onWeather, tool('a', 'a')))
  const objects = [...content.objects].map((object) =>
    object.kind === 'MCPPin'
      ? { ...object, metadata: { ...object.metadata, deletionTimestamp: '2026-11-20T11:00:00Z' } }
      : object,
  )
  const plans = planWorld(fillWorld({ ...content, objects }))
  assert.equal(pinningIn(plans.get('MCPServer/weather'), 'weather'), { mode: 'enforce' })
  assert.is(plans.get('MCPPin/a')?.finalizer, false)
  assert.match(condition(plans.get('MCPServer/weather'), 'DefinitionsApproved') ?? '', /^False Unpinned: /)
})

test('a gateway accepts only answers that a proxy says it enforces, and withholds everything of one that does not enforce', () => {
  const backend = (own: string, pinning: string) =>
    backendIn(plansOfText(server(own) + group + gateway(pinning)).get('VirtualMCPServer/all'), 'weather')
  const renderPinning = (own: string, pinning: string) => backend(own, pinning)?.pinning
  const needsEnforcement = (own: string, pinning: string) => backend(own, pinning)?.enforcesPins
  assert.is(needsEnforcement('{mode: enforce}', '{mode: enforce}'), true)
  for (const [own, pinning] of [
    ['{mode: report}', '{mode: enforce}'],
    ['{mode: enforce}', '{mode: report}'],
    ['{mode: enforce}', ''],
    ['{mode: enforce}', '{mode: enforce, unpinnedBackends: allow}'],
  ] as const)
    assert.is(needsEnforcement(own, pinning), undefined, `${own} ${pinning}`)
  for (const own of ['', '{mode: disabled}', '{mode: report}'])
    assert.equal(renderPinning(own, '{mode: enforce}'), { mode: 'enforce' }, own)
  assert.is(renderPinning('{mode: enforce}', '{mode: enforce}'), undefined)
  assert.is(renderPinning('', '{mode: enforce, unpinnedBackends: allow}'), undefined)
  assert.equal(renderPinning('', '{mode: report}'), { mode: 'report' })
  assert.is(renderPinning('{mode: report}', '{mode: report}'), undefined)
})

test('the stricter mode of an entry and its gateway counts, and pins count without a mode of the entry', () => {
  const renderPinning = (own: string, pinning: string, pins = '') =>
    pinningIn(plansOfText(entry(own) + group + gateway(pinning) + pins).get('VirtualMCPServer/all'), 'far')
  const pins = pin('a', onFar, tool('a', 'a'))
  const approved = { tools: { a: [digest('a')] } }
  assert.equal(renderPinning('', '{mode: enforce}', pins), { mode: 'enforce', pins: approved })
  assert.equal(renderPinning('{mode: report}', '{mode: enforce}', pins), { mode: 'enforce', pins: approved })
  assert.equal(renderPinning('{mode: enforce}', '{mode: report}', pins), { mode: 'enforce', pins: approved })
  assert.equal(renderPinning('{mode: enforce}', '', pins), { mode: 'enforce', pins: approved })
  assert.equal(renderPinning('', '{mode: enforce}'), { mode: 'enforce' })
  assert.is(renderPinning('', '{mode: enforce, unpinnedBackends: allow}'), undefined)
  assert.equal(renderPinning('', '{mode: enforce, unpinnedBackends: allow}', pins), { mode: 'enforce', pins: approved })
  assert.equal(renderPinning('{mode: report}', '{mode: enforce, unpinnedBackends: allow}'), { mode: 'report' })
  assert.equal(renderPinning('{mode: enforce}', '{mode: report, unpinnedBackends: allow}'), { mode: 'enforce' })
  assert.is(renderPinning('', '', pins), undefined)
})

const manifests = (mode: string) =>
  server(`{mode: ${mode}}`) +
  group +
  gateway(`{mode: ${mode}}`) +
  entry() +
  pin('weather', onWeather, tool('a', 'a')) +
  pin('far', onFar, tool('a', 'a'))

interface PodDefinitions {
  readonly name: string
  readonly withheld?: number
  readonly reported?: number
  readonly names?: readonly string[]
}

/** Plans with these definitions reported by pods, given the statuses of earlier plans. */
function planPins(
  mode: string,
  ofServer: PodDefinitions | undefined,
  ofGateway: PodDefinitions | undefined,
  before?: ReturnType<typeof planWorld>,
) {
  const content = worldContent(manifests(mode))
  const fillCounts = (seen: PodDefinitions) => ({
    approved: 1,
    withheld: 0,
    reported: 0,
    missing: 0,
    names: [],
    ...seen,
  })
  const observation = (kind: string, name: string, seen: PodDefinitions | undefined) => ({
    kind,
    namespace: 'default',
    name,
    replicas: 1,
    readyReplicas: 1,
    reported: true as const,
    ...(seen && { definitions: [fillCounts(seen)] }),
  })
  const objects = [...content.objects].map((object): KubernetesObject => {
    const status = before?.get(`${object.kind}/${object.metadata.name}`)?.status
    return status === undefined ? object : { ...object, status }
  })
  const observations = [
    observation('MCPServer', 'weather', ofServer),
    observation('VirtualMCPServer', 'all', ofGateway),
  ]
  return planWorld(fillWorld({ ...content, objects, observations }))
}

const readConditions = (plans: ReturnType<typeof planWorld>) =>
  ['MCPServer/weather', 'MCPServerEntry/far', 'VirtualMCPServer/all'].map((name) =>
    condition(plans.get(name), 'DefinitionsApproved'),
  )

const listEvents = (plans: ReturnType<typeof planWorld>) =>
  ['MCPServer/weather', 'MCPServerEntry/far', 'VirtualMCPServer/all'].map((name) =>
    (plans.get(name)?.events ?? []).flatMap(({ reason }) => (reason.startsWith('Definition') ? [reason] : [])),
  )

test('DefinitionsApproved shows the reports of pods at the server, and their sum at the gateway', () => {
  const unseen = planPins('enforce', undefined, undefined)
  assert.equal(
    readConditions(unseen).map((text) => text?.split(':')[0]),
    Array(3).fill('Unknown NotObserved'),
  )
  const well = planPins('enforce', { name: 'weather' }, { name: 'far' }, unseen)
  assert.equal(readConditions(well), [
    'True AllApproved: 1 approved, 0 withheld, 0 reported, 0 missing',
    'True AllApproved: 1 approved, 0 withheld, 0 reported, 0 missing',
    'True AllApproved: 2 approved, 0 withheld, 0 reported, 0 missing',
  ])
  assert.equal(listEvents(well), [[], [], []])
  const ill = planPins('enforce', { name: 'weather', withheld: 1, names: ['tools "a\\u200b"'] }, { name: 'far' }, well)
  assert.equal(readConditions(ill), [
    'False Withheld: 1 approved, 1 withheld, 0 reported, 0 missing: tools "a\\u200b"',
    'True AllApproved: 1 approved, 0 withheld, 0 reported, 0 missing',
    'False Withheld: 2 approved, 1 withheld, 0 reported, 0 missing: weather: tools "a\\u200b"',
  ])
  assert.equal(listEvents(ill), [['DefinitionWithheld'], [], ['DefinitionWithheld']])
  // The same report again: the status stays byte for byte, and no event is sent.
  const still = planPins('enforce', { name: 'weather', withheld: 1, names: ['tools "a\\u200b"'] }, { name: 'far' }, ill)
  assert.equal(listEvents(still), [[], [], []])
  for (const [name, plan] of still) assert.equal(plan.status, ill.get(name)?.status, name)
  // After a restart the operator knows nothing yet and keeps the status as it is.
  assert.equal(readConditions(planPins('enforce', undefined, undefined, ill))[0], readConditions(ill)[0])
  const healed = planPins('enforce', { name: 'weather' }, { name: 'far' }, still)
  assert.equal(readConditions(healed), readConditions(well))
  assert.equal(listEvents(healed), [['DefinitionApproved'], [], ['DefinitionApproved']])
})

test('once there are pins, no message says that there are none', () => {
  const before = plansOfText(server('{mode: enforce}') + group)
  const content = worldContent(server('{mode: enforce}') + group + pin('a', onWeather, tool('a', 'a')))
  const status = before.get('MCPServer/weather')?.status
  const objects = [...content.objects].map(
    (object): KubernetesObject =>
      object.kind === 'MCPServer' && status !== undefined ? { ...object, status } : object,
  )
  const plan = planWorld(fillWorld({ ...content, objects })).get('MCPServer/weather')
  assert.match(condition(plan, 'DefinitionsApproved') ?? '', /^Unknown NotObserved: /)
})

test('definitions of an entry that a gateway withholds are reported at the entry, too', () => {
  const plans = planPins(
    'enforce',
    { name: 'weather' },
    { name: 'far', withheld: 2, names: ['tools "a"', 'instructions'] },
  )
  assert.equal(readConditions(plans).slice(1), [
    'False Withheld: 1 approved, 2 withheld, 0 reported, 0 missing: instructions, tools "a"',
    'False Withheld: 2 approved, 2 withheld, 0 reported, 0 missing: far: instructions, far: tools "a"',
  ])
})

test('in report mode the condition is True and names the differences', () => {
  const plans = planPins('report', { name: 'weather', reported: 1, names: ['tools "a"'] }, { name: 'far' })
  assert.is(readConditions(plans)[0], 'True Reported: 1 approved, 0 withheld, 1 reported, 0 missing: tools "a"')
  assert.equal(listEvents(plans), [[], [], []])
})

test('a message has ten names at most, however many pods report, and no text of a definition', () => {
  const names = Array.from({ length: 50 }, (_, index) => `tools "${index}"`)
  const [message = ''] = readConditions(planPins('enforce', { name: 'weather', withheld: 50, names }, { name: 'far' }))
  assert.is(message.match(/tools "/g)?.length, 10)
})

test('an MCPPin over the size limit keeps the running pods, and is reported', () => {
  const many = Array.from({ length: 9_000 }, (_, index) => ({
    name: `a-tool-with-a-name-of-some-length-${index}`,
    digests: [digest('a')],
  }))
  const content = worldContent(server('{mode: enforce}') + group + pin('a', onWeather, tool('a', 'a')))
  const withTools = (tools: object[]) =>
    [...content.objects].map((object) =>
      object.kind === 'MCPPin' ? { ...object, spec: { ...(object['spec'] as object), tools } } : object,
    )
  const large = planWorld(fillWorld({ ...content, objects: withTools(many) }))
  const about = /^False PinsInvalid: .*the spec has \d+ bytes; at most 1000000 are read/
  assert.match(condition(large.get('MCPPin/a'), 'Valid') ?? '', about)
  assert.is(large.get('MCPServer/weather')?.children, 'hold')
  assert.match(condition(large.get('MCPServer/weather'), 'DefinitionsApproved') ?? '', about)
  // Within the size limit of an object, but above that of a configuration.
  const fitting = many.slice(0, 7_300)
  const full = planWorld(
    fillWorld({
      ...content,
      objects: [
        ...withTools(fitting),
        ...[...worldContent(pin('b', onWeather, tool('a', 'a'))).objects].map((object) => ({
          ...object,
          spec: { ...(object['spec'] as object), tools: fitting.map((one) => ({ ...one, name: `b${one.name}` })) },
        })),
      ],
    }),
  ).get('MCPServer/weather')
  assert.is(full?.children, 'hold')
  assert.match(
    condition(full, 'Valid') ?? '',
    /^False ConfigTooLarge: .*; at most 900000 fit: pins of definitions take/,
  )
})

test.run()
