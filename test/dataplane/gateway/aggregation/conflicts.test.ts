import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildCatalog } from '../../../../dataplane/gateway/aggregation/catalog.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

type Aggregation = NonNullable<TestConfig['aggregation']>

const backend = (name: string, tools: readonly string[]) =>
  ({
    name,
    tools: tools.map((tool) => ({ key: tool, text: `{"name":"${tool}"}`, paramHeaders: [] })),
    callOperationOf: () => undefined,
  }) as never

const alpha = backend('alpha', ['same', 'a'])
const beta = backend('beta', ['same', 'b'])
const gamma = backend('gamma', ['same', 'c'])

const createCatalog = (aggregation: Aggregation, backends = [gamma, beta, alpha]) =>
  buildCatalog({ role: 'gateway', aggregation }, backends)

const listNames = (aggregation: Aggregation) =>
  [...createCatalog(aggregation).routes].map(([name, { backend }]) => `${name}@${backend}`)

const table: readonly [string, Aggregation, readonly string[]][] = [
  ['prefix', {}, ['alpha_a', 'alpha_same', 'beta_b', 'beta_same', 'gamma_c', 'gamma_same']],
  [
    'priority: the first has the name, the others go without',
    { conflictResolution: 'priority', conflictResolutionConfig: { priorityOrder: ['beta', 'alpha', 'gamma'] } },
    ['a', 'b', 'c', 'same@beta'],
  ],
  [
    'priority: who is not named comes last, by name',
    { conflictResolution: 'priority', conflictResolutionConfig: { priorityOrder: ['gamma'] } },
    ['a', 'b', 'c', 'same@gamma'],
  ],
  [
    'priority: an order of strangers leaves the names to decide',
    { conflictResolution: 'priority', conflictResolutionConfig: { priorityOrder: ['nobody'] } },
    ['a', 'b', 'c', 'same@alpha'],
  ],
  ['manual: what clashes is not shown', { conflictResolution: 'manual' }, ['a', 'b', 'c']],
  [
    'manual: overrides and filters resolve it',
    {
      conflictResolution: 'manual',
      tools: [
        { workload: 'beta', overrides: { same: { name: 'other' } } },
        { workload: 'gamma', filter: ['c'] },
      ],
    },
    ['a', 'b', 'c', 'other@beta', 'same@alpha'],
  ],
  [
    'a backend that is not named is hidden where the default is deny',
    { defaultToolVisibility: 'deny', tools: [{ workload: 'beta' }] },
    ['beta_b', 'beta_same'],
  ],
]

for (const [title, aggregation, expected] of table)
  test(title, () => {
    const names = listNames(aggregation)
    assert.equal(
      names.map((name, at) => (expected[at]?.includes('@') ? name : name.replace(/@.*/, ''))),
      expected,
    )
    // The order of the configuration does not matter.
    const turned = createCatalog(aggregation, [alpha, gamma, beta])
    assert.equal(turned.legacyList, createCatalog(aggregation).legacyList)
  })

test('a clash names its owners', () => {
  assert.equal(createCatalog({ conflictResolution: 'manual' }).conflicts, [
    'same is a tool of alpha and beta and gamma',
  ])
  const { warnings } = createCatalog({
    conflictResolution: 'priority',
    conflictResolutionConfig: { priorityOrder: ['beta', 'alpha'] },
  })
  assert.equal(warnings, ['alpha: same is not shown, beta comes first', 'gamma: same is not shown, beta comes first'])
})

test('renamed by an override, a tool is called by its backend’s name', () => {
  const { routes } = createCatalog({
    conflictResolution: 'manual',
    tools: [{ workload: 'beta', overrides: { same: { name: 'other' } } }],
  })
  assert.is(routes.get('other')?.tool, 'same')
  assert.is(routes.get('other')?.rename, '"same"')
})

let gateway: GatewayUnderTest
let one: RawServer
let two: RawServer

test.before(async () => {
  const call = (name: string) => (request: Parameters<Parameters<typeof startRawServer>[0]['call']>[0]) =>
    answer(request, `{"content":[{"type":"text","text":"${name}"}]}`)
  one = await startRawServer({ era: 'modern', tools: [tool('same'), tool('a')], call: call('one') })
  two = await startRawServer({ era: 'modern', tools: [tool('same'), tool('b')], call: call('two') })
  gateway = await startGateway({ ...buildConfig({ filter: ['b'] }) })
})

test.after(async () => {
  await gateway.close()
  await one.close()
  await two.close()
})

const buildConfig = (shaping: object): TestConfig => ({
  backends: [
    { name: 'one', url: one.url },
    { name: 'two', url: two.url },
  ],
  aggregation: { conflictResolution: 'manual', tools: [{ workload: 'two', ...shaping }] },
})

const listTools = async (): Promise<string[]> =>
  (await postModern(gateway.url, 'tools/list')).json.result.tools.map(({ name }: { name: string }) => name)

const problems = async () =>
  ((await gateway.status()) as unknown as { problems: { code: string; message: string }[] }).problems

test('a change that causes a clash leaves the last good set in place and is a problem on /status', async () => {
  await eventually('both', async () => (await listTools()).join() === 'a,b,same')
  assert.equal(await problems(), [])
  await gateway.configure(buildConfig({}))
  await eventually('the problem', async () => (await problems()).length > 0)
  assert.equal(await problems(), [
    { severity: 'warning', code: 'AggregationConflict', message: 'same is a tool of one and two' },
  ])
  assert.equal(await listTools(), ['a', 'b', 'same'])
  assert.is((await postModern(gateway.url, 'tools/call', { name: 'same' })).json.result.content[0].text, 'one')
  await gateway.configure(buildConfig({ overrides: { same: { name: 'second' } } }))
  await eventually('the resolution', async () => (await listTools()).join() === 'a,b,same,second')
  assert.equal(await problems(), [])
})

test('the gateway starts with a clash, without the tools in question', async () => {
  const other = await startGateway(buildConfig({}))
  await eventually('the tools that don’t clash', async () => {
    const { tools } = (await postModern(other.url, 'tools/list')).json.result
    return tools.map(({ name }: { name: string }) => name).join() === 'a,b'
  })
  await other.close()
})

test.run()
