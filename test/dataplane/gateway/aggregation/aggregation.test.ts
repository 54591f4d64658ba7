import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { buildCatalog, type Catalog } from '../../../../dataplane/gateway/aggregation/catalog.ts'
import { fitName } from '../../../../dataplane/gateway/aggregation/shape.ts'
import type { Backend } from '../../../../dataplane/gateway/backends/backend/backend.ts'
import { readToolPage } from '../../../../dataplane/gateway/backends/lists/list-page.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

type Aggregation = NonNullable<GatewayConfig['aggregation']>

/** Returns the catalog of backends with these tools. For a catalog a backend is its name and its tools. */
function createCatalog(
  backends: Readonly<Record<string, readonly string[]>>,
  aggregation: Aggregation = {},
  role: GatewayConfig['role'] = 'gateway',
): Catalog {
  const list = Object.entries(backends).map(([name, tools]) => ({
    name,
    tools: readToolPage(`{"result":{"tools":[${tools.join(',')}]}}`).items,
    callOperationOf: () => undefined,
  }))
  return buildCatalog({ role, aggregation }, list as unknown as Backend[])
}

const listNames = ({ legacyList }: Catalog): string[] =>
  JSON.parse(legacyList.toString()).tools.map(({ name }: { name: string }) => name)

const two = { a: [tool('x'), tool('y')], b: [tool('x')] }

test('every tool gets the prefix, clash or not, and the list is sorted', () => {
  assert.equal(listNames(createCatalog({ b: [tool('x')], a: [tool('z'), tool('x')] })), ['a_x', 'a_z', 'b_x'])
})

for (const [prefixFormat, names] of [
  ['{workload}.', ['a.x', 'a.y', 'b.x']],
  ['{workload}', ['ax', 'ay', 'bx']],
  ['p-{workload}-', ['p-a-x', 'p-a-y', 'p-b-x']],
] as const)
  test(`prefix format ${prefixFormat}`, () =>
    assert.equal(listNames(createCatalog(two, { conflictResolutionConfig: { prefixFormat } })), names))

test('a filter shows the names that it lists, after overrides', () => {
  const tools = [{ workload: 'a', filter: ['new', 'gone'], overrides: { x: { name: 'new' } } }]
  assert.equal(listNames(createCatalog(two, { tools })), ['a_new', 'b_x'])
})

test('an empty filter shows nothing', () => {
  assert.equal(listNames(createCatalog(two, { tools: [{ workload: 'a', filter: [] }] })), ['b_x'])
})

test('excludeAll hides a backend, excludeAllTools hides all', () => {
  assert.equal(listNames(createCatalog(two, { tools: [{ workload: 'a', excludeAll: true }] })), ['b_x'])
  assert.equal(listNames(createCatalog(two, { excludeAllTools: true })), [])
})

test('an override changes only the fields that it names', () => {
  const text =
    '{ "name":"x" ,"inputSchema":{"type":"object","maximum":9223372036854775807},"annotations":{"title":"T","x":1.0},"odd":[1] }'
  const overrides = { x: { description: 'new "text"', annotations: { readOnlyHint: true, title: 'U' } } }
  const { legacyList } = createCatalog({ a: [text] }, { tools: [{ workload: 'a', overrides }] })
  assert.is(
    legacyList.toString(),
    '{"tools":[{"name":"a_x","inputSchema":{"type":"object","maximum":9223372036854775807},"annotations":{"title":"U","x":1.0,"readOnlyHint":true},"odd":[1],"description":"new \\"text\\""}]}',
  )
})

test('a proxy renames nothing, keeps the order, and shows the tools byte for byte', () => {
  const odd = '{ "name":"b b","inputSchema":{"type":"object"},  "n":1.0 }'
  const { legacyList, routes } = createCatalog({ a: [tool('z'), odd] }, {}, 'proxy')
  assert.is(legacyList.toString(), `{"tools":[${tool('z')},${odd}]}`)
  assert.is(routes.get('b b')?.rename, undefined)
})

test('long and odd names are always shortened and cleaned the same way', () => {
  const long = `a_${'n'.repeat(100)}`
  assert.is(fitName(long).length, 64)
  assert.is(fitName(long), fitName(long))
  assert.is.not(fitName(long), fitName(`${long}x`))
  assert.match(fitName('a_with space'), /^a_with_space_[0-9a-f]{8}$/)
  assert.is.not(fitName('a_with space'), fitName('a_with/space'))
  assert.is(fitName('a_fine-name.v2'), 'a_fine-name.v2')
  const { routes } = createCatalog({ a: [tool('n'.repeat(100))] })
  assert.is([...routes.values()][0]?.rename, JSON.stringify('n'.repeat(100)))
})

test('two tools with the same name both stay under fixed names, whatever the order of backends', () => {
  const aggregation = { conflictResolutionConfig: { prefixFormat: '{workload}' } }
  const one = createCatalog({ a: [tool('bx')], ab: [tool('x')] }, aggregation)
  const other = createCatalog({ ab: [tool('x')], a: [tool('bx')] }, aggregation)
  assert.equal(listNames(one), listNames(other))
  assert.is(one.routes.get('abx')?.backend, 'a')
  assert.is(one.routes.size, 2)
  assert.is(one.warnings.length, 1)
})

test('a backend’s second tool with the same name is left out', () => {
  const { legacyList } = createCatalog({ a: [tool('x', '"n":1'), tool('x', '"n":2')] })
  assert.equal(JSON.parse(legacyList.toString()).tools, [{ name: 'a_x', inputSchema: { type: 'object' }, n: 1 }])
})

test('names such as toString and __proto__ are names like others', () => {
  const { routes } = createCatalog(
    { a: [tool('constructor'), tool('__proto__'), tool('toString')] },
    { tools: [{ workload: 'a', overrides: {} }] },
  )
  assert.equal([...routes.keys()].sort(), ['a___proto__', 'a_constructor', 'a_toString'])
})

test('tools that no client would accept are left out with the reason', () => {
  const bad = '{"name":"bad","inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}}'
  const { items, notes } = readToolPage(`{"result":{"tools":[${tool('x')},${bad},{"inputSchema":{}},5]}}`)
  assert.equal(
    items.map(({ key }) => key),
    ['x'],
  )
  assert.is(notes.filter(({ isLeftOut }) => isLeftOut).length, 3)
  assert.match(notes[0]?.message as string, /bad" .*string, integer or boolean/)
})

for (const text of ['{}', '{"result":{}}', '{"result":{"tools":{}}}', '{"result":[]}'])
  test(`no list: ${text}`, () => assert.throws(() => readToolPage(text), TypeError))

let raw: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  raw = await startRawServer({
    era: 'modern',
    tools: [tool('open'), tool('hidden'), tool('old')],
    call: (request) => answer(request, OK_RESULT),
  })
  gateway = await startGateway({
    backends: [{ name: 'a', url: raw.url }],
    aggregation: { tools: [{ workload: 'a', filter: ['open', 'new'], overrides: { old: { name: 'new' } } }] },
  })
})

test.after(async () => {
  await gateway.close()
  await raw.close()
})

test('a hidden tool can’t be called, and gets the same answer as an unknown one', async () => {
  const session = await openSession(gateway.url)
  raw.seen.length = 0
  const answers = new Set<string>()
  for (const name of ['a_hidden', 'hidden', 'a_old', 'old', 'open', 'a_nothing', '__proto__', 'constructor']) {
    const { status, text } = await postModern(gateway.url, 'tools/call', { name })
    const legacy = await post(gateway.url, rpc('tools/call', { name }), session)
    assert.is(legacy.status, 200)
    answers.add(`${status} ${text}`).add(`${status} ${legacy.text}`)
  }
  assert.is(answers.size, 1, [...answers].join('\n'))
  assert.match([...answers][0] as string, /-32602/)
  assert.is(raw.calls('tools/call').length, 0)
})

test('a renamed tool is called by the backend’s own name', async () => {
  raw.seen.length = 0
  assert.ok((await postModern(gateway.url, 'tools/call', { name: 'a_new' })).json.result)
  assert.is(raw.calls('tools/call')[0]?.message.params?.['name'], 'old')
  assert.is(raw.calls('tools/call')[0]?.headers['mcp-name'], 'old')
})

test('a list has in each era the members of that era', async () => {
  const { json } = await postModern(gateway.url, 'tools/list')
  const { tools, ...rest } = json.result
  assert.equal(rest, { resultType: 'complete', ttlMs: 0, cacheScope: 'private' })
  assert.equal(
    tools.map(({ name }: { name: string }) => name),
    ['a_new', 'a_open'],
  )
  const legacy = await post(gateway.url, rpc('tools/list'), await openSession(gateway.url))
  assert.equal(legacy.json.result, { tools })
})

test('every page of a backend’s tools is read', async () => {
  const paged = await startRawServer({
    era: 'legacy',
    call: () => undefined,
    before({ message }, res) {
      if (message.method !== 'tools/list') return false
      const cursor = (message.params?.['cursor'] as string | undefined) ?? 'start'
      const more = cursor === 'start' ? '"nextCursor":"two",' : cursor === 'two' ? '"nextCursor":"",' : ''
      const result = `{${more}"tools":[${tool(`page-${cursor}`)}]}`
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(`{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${result}}`)
      return true
    },
  })
  const own = await startGateway({ backends: [{ name: 'p', url: paged.url }] })
  const { json } = await postModern(own.url, 'tools/list')
  assert.equal(
    json.result.tools.map(({ name }: { name: string }) => name),
    ['p_page-', 'p_page-start', 'p_page-two'],
  )
  await own.close()
  await paged.close()
})

test('a proxy serves its one backend under the backend’s own names', async () => {
  const own = await startGateway({ role: 'proxy', backends: [{ name: 'a', url: raw.url }] })
  const { json } = await postModern(own.url, 'tools/list')
  assert.equal(
    json.result.tools.map(({ name }: { name: string }) => name),
    ['open', 'hidden', 'old'],
  )
  raw.seen.length = 0
  assert.ok((await postModern(own.url, 'tools/call', { name: 'hidden' })).json.result)
  assert.is(raw.calls('tools/call').length, 1)
  await own.close()
})

test.run()
