import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { AuditFile } from '../../../support/audit/audit-file.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { buildPins, OFTEN } from '../../../support/gateway/pinning.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { type ChangingServer, type Shows, startChangingServer } from '../../../support/servers/changing-server.ts'

/**
 * Changes every member of a definition, of every kind, in both eras: an unapproved change reaches no client, log,
 * status or metric, and a changed definition is as unknown as one that never existed. The text of each change is
 * POISON.
 */

const TOOL = {
  name: 'tool',
  title: 'Tool',
  description: 'Does a thing.',
  inputSchema: {
    type: 'object',
    properties: { a: { type: 'string', description: 'An a.', default: 'x', enum: ['x', 'y'] } },
    required: ['a'],
  },
  outputSchema: { type: 'object', properties: { b: { type: 'string' } } },
  annotations: { title: 'A tool', readOnlyHint: true, destructiveHint: false },
  icons: [{ src: 'https://example.com/i.png', mimeType: 'image/png' }],
  _meta: { 'com.example/x': 1, ui: { resourceUri: 'ui://page' } },
  execution: { taskSupport: 'forbidden' },
  'x-unknown': { more: [1] },
}
const PROMPT = {
  name: 'prompt',
  title: 'Prompt',
  description: 'Says a thing.',
  arguments: [{ name: 'a', description: 'An a.', required: true }],
  icons: [{ src: 'https://example.com/p.png' }],
  _meta: { x: 1 },
  'x-unknown': 1,
}
const RESOURCE = {
  uri: 'file:///a',
  name: 'a',
  title: 'A',
  description: 'A file.',
  mimeType: 'text/plain',
  size: 1,
  annotations: { audience: ['user'], priority: 0.5 },
  icons: [{ src: 'https://example.com/r.png' }],
  _meta: { x: 1 },
  'x-unknown': 1,
}
const TEMPLATE = {
  uriTemplate: 'data:{x}',
  name: 't',
  title: 'T',
  description: 'Files.',
  mimeType: 'text/plain',
  annotations: { priority: 1 },
  icons: [{ src: 'https://example.com/t.png' }],
  _meta: { x: 1 },
  'x-unknown': 1,
}
const PAGE = [
  {
    uri: 'ui://page',
    mimeType: 'text/html;profile=mcp-app',
    text: '<p>page</p>',
    _meta: { ui: { csp: { connectDomains: ['https://example.com'] } } },
  },
]

const json = (value: object): string => JSON.stringify(value)
const buildShown = (): Partial<Shows> => ({
  tools: [json(TOOL), json({ name: 'other', inputSchema: { type: 'object' } })],
  prompts: [json(PROMPT), json({ name: 'other' })],
  resources: [json(RESOURCE), json({ uri: 'file:///other', name: 'other' })],
  resourceTemplates: [json(TEMPLATE), json({ uriTemplate: 'other:{x}', name: 'other' })],
  instructions: 'Use it well.',
  pages: { 'ui://page': json(PAGE) },
})

type Kind = 'tools' | 'prompts' | 'resources' | 'resourceTemplates'
type Change = readonly [what: string, changed: string]

/**
 * Returns changes of each member in turn: its value, or one value inside it; members are also added, removed and
 * repeated.
 */
function listChanges(definition: Readonly<Record<string, unknown>>, key: string): Change[] {
  const poison = (value: unknown): unknown[] => {
    if (Array.isArray(value))
      return [
        [...value, 'POISON'],
        ...value.flatMap((one, at) => poison(one).map((two) => value.toSpliced(at, 1, two))),
      ]
    if (typeof value === 'object' && value !== null)
      return [
        { ...value, POISON: 1 },
        ...Object.entries(value).flatMap(([name, one]) => poison(one).map((two) => ({ ...value, [name]: two }))),
      ]
    if (typeof value === 'string') return [`${value} POISON`]
    return typeof value === 'boolean' ? [!value] : [7]
  }
  const text = json(definition)
  return [
    ...Object.entries(definition).flatMap(([name, value]): Change[] => [
      ...(name === key
        ? []
        : [
            ...poison(value).map((one, at): Change => [`${name} ${at + 1}`, json({ ...definition, [name]: one })]),
            [`without ${name}`, json({ ...definition, [name]: undefined })] as const,
          ]),
      [`${name} twice, ours first`, `${text.slice(0, -1)},${json({ [name]: name === key ? 'z' : 'POISON' }).slice(1)}`],
      [`${name} twice, ours last`, `${json({ [name]: 'POISON' }).slice(0, -1)},${text.slice(1)}`],
    ]),
    ['a zero width space', json({ ...definition, [key === 'name' ? 'description' : 'title']: 'A\u200b' })],
    ['a tag character', json({ ...definition, title: 'A\u{e0050}' })],
    ['another normal form', json({ ...definition, title: 'e\u0301' })],
    ['a new member', json({ ...definition, more: 'POISON' })],
    ['a member named __proto__', `${text.slice(0, -1)},"__proto__":{"description":"POISON"}}`],
    ['a depth of 65', `${text.slice(0, -1)},"more":${'['.repeat(65)}"POISON"${']'.repeat(65)}}`],
    ['a megabyte more', json({ ...definition, more: 'POISON'.repeat(2 ** 17) })],
    ['a lone surrogate', `${text.slice(0, -1)},"more":"POISON \\udead"}`],
    ['a number beyond doubles', `${text.slice(0, -1)},"POISON":1e999}`],
  ]
}

interface Question {
  readonly method: string
  readonly params: Record<string, unknown>
  /** The same for an item that does not exist. */
  readonly unknown: Record<string, unknown>
}

const asks: Readonly<Record<Kind, readonly Question[]>> = {
  tools: [{ method: 'tools/call', params: { name: 'tool', arguments: {} }, unknown: { name: 'none', arguments: {} } }],
  prompts: [
    { method: 'prompts/get', params: { name: 'prompt' }, unknown: { name: 'nobody' } },
    {
      method: 'completion/complete',
      params: { ref: { type: 'ref/prompt', name: 'prompt' }, argument: { name: 'a', value: '' } },
      unknown: { ref: { type: 'ref/prompt', name: 'nobody' }, argument: { name: 'a', value: '' } },
    },
  ],
  resources: [
    { method: 'resources/read', params: { uri: 'file:///a' }, unknown: { uri: 'file:///b' } },
    {
      method: 'completion/complete',
      params: { ref: { type: 'ref/resource', uri: 'file:///a' }, argument: { name: 'a', value: '' } },
      unknown: { ref: { type: 'ref/resource', uri: 'file:///b' }, argument: { name: 'a', value: '' } },
    },
  ],
  resourceTemplates: [
    { method: 'resources/read', params: { uri: 'data:1' }, unknown: { uri: 'data-1' } },
    {
      method: 'completion/complete',
      params: { ref: { type: 'ref/resource', uri: 'data:{x}' }, argument: { name: 'x', value: '' } },
      unknown: { ref: { type: 'ref/resource', uri: 'data-{x}' }, argument: { name: 'x', value: '' } },
    },
  ],
}

/** Returns a name for one of many copies of this definition. */
const number = (definition: object, key: string, at: number): string => {
  const name = (definition as Record<string, string>)[key] as string
  return name.includes('{') ? name.replace('{', `${at}-{`) : `${name}${at}`
}

/** Sets the requested definition's name in the params of a request. */
function withName(params: Record<string, unknown>, kind: Kind, name: string): Record<string, unknown> {
  const uri = kind === 'resourceTemplates' && params['uri'] !== undefined ? name.replace('{x}', '1') : name
  if (params['uri'] !== undefined) return { ...params, uri }
  if (params['name'] !== undefined) return { ...params, name }
  const ref = params['ref'] as Record<string, unknown>
  return { ...params, ref: { ...ref, [ref['uri'] === undefined ? 'name' : 'uri']: name } }
}

const LISTS: readonly (readonly [method: string, member: Kind])[] = [
  ['tools/list', 'tools'],
  ['prompts/list', 'prompts'],
  ['resources/list', 'resources'],
  ['resources/templates/list', 'resourceTemplates'],
]

type Ask = (method: string, params?: Record<string, unknown>) => Promise<RpcAnswer>

for (const era of ['legacy', 'modern'] as const) {
  let server: ChangingServer
  let gateway: GatewayUnderTest
  let clients: readonly Ask[]

  test.before(async () => {
    server = await startChangingServer(era, buildShown())
    gateway = await startGateway({
      role: 'proxy',
      backends: [{ name: 'b', url: server.url, pinning: { mode: 'enforce', pins: buildPins(server.shows) } }],
      failureHandling: OFTEN,
    })
    const session = await openSession(gateway.url)
    clients = [
      (method, params = {}) => post(gateway.url, rpc(method, params), session),
      (method, params = {}) => postModern(gateway.url, method, params),
    ]
    await waitUntilServed()
  })
  test.after(async () => {
    await gateway.close()
    await server.close()
  })

  test.before.each(async () => {
    Object.assign(server.shows, buildShown())
    server.shows.apps = '{}'
    await configure()
    await waitUntilServed()
  })

  /** Applies pins of everything that the server shows now. */
  const configure = () =>
    gateway.configure({
      role: 'proxy',
      backends: [{ name: 'b', url: server.url, pinning: { mode: 'enforce', pins: buildPins(server.shows) } }],
      failureHandling: OFTEN,
    })

  const counts = async () => {
    const { definitions } = (await gateway.status()).backends[0] as {
      definitions?: { withheld: number; missing: number }
    }
    return definitions ?? { withheld: -1, missing: -1 }
  }
  const waitUntilServed = () =>
    eventually('all is served', async () => (await counts()).withheld === 0 && (await counts()).missing === 0)
  /** An invalid definition is left out of the list, and so it is missing. */
  const withheld = (what = '') =>
    eventually(`${what} is withheld`, async () => {
      const { withheld: count, missing } = await counts()
      return count + missing > 0
    })
  /** Waits for two more polls. */
  const polls = async () => {
    const before = server.calls('tools/list').length
    await eventually('polls', () => server.calls('tools/list').length >= before + 2)
  }

  /** Returns everything that a client, an operator or a log may get. */
  async function everything(): Promise<string> {
    const texts: string[] = []
    for (const ask of clients) for (const [method] of LISTS) texts.push((await ask(method)).text)
    texts.push((await postModern(gateway.url, 'server/discover')).text)
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } }
    texts.push((await post(gateway.url, rpc('initialize', params, 0))).text)
    for (const path of ['/status', '/metrics']) texts.push(await (await fetch(gateway.adminUrl + path)).text())
    texts.push(await (await fetch(gateway.base, { headers: { accept: 'text/html' } })).text())
    return `${texts.join('\n')}\n${JSON.stringify(gateway.lines)}`
  }

  const definitions = [
    ['tools', TOOL, 'name'],
    ['prompts', PROMPT, 'name'],
    ['resources', RESOURCE, 'uri'],
    ['resourceTemplates', TEMPLATE, 'uriTemplate'],
  ] as const
  for (const [kind, definition, key] of definitions)
    test(`${era} server, ${kind}: no change reaches anybody, and the approved text is served again`, async () => {
      // Each change applies to its own definition, so that one poll covers them all.
      const { length } = listChanges(definition, key)
      const own = Array.from({ length }, (_, at) => ({ ...definition, [key]: number(definition, key, at) }))
      const changes = own.map((one, at) => listChanges(one, key)[at] as Change)
      const [, other = ''] = server.shows[kind]
      server.shows[kind] = [...own.map(json), other]
      await configure()
      const countListed = async (ask: Ask, [method, member]: (typeof LISTS)[number]) =>
        ((await ask(method)).json.result as Record<string, unknown[]>)[member]?.length
      const list = LISTS.find(([, member]) => member === kind) as (typeof LISTS)[number]
      const areServed = async () =>
        (await Promise.all(clients.map((ask) => countListed(ask, list)))).every((one) => one === length + 1)
      await eventually('all are served', areServed)
      server.shows[kind] = [...changes.map(([, changed]) => changed), other]
      await eventually('all are withheld', async () => (await counts()).missing + (await counts()).withheld >= length)
      for (const ask of clients) assert.is(await countListed(ask, list), 1)
      const sendAll = () =>
        server.seen.filter(({ message }) => asks[kind].some(({ method }) => method === message.method)).length
      const first = sendAll()
      for (const ask of clients)
        for (const [at, [what]] of changes.entries())
          for (const { method, params, unknown } of asks[kind]) {
            const name = number(definition, key, at)
            const [one, none] = [await ask(method, withName(params, kind, name)), await ask(method, unknown)]
            const nameless = (text: string) => text.replace(/"uri":"[^"]*"/, '"uri":"?"')
            assert.is(nameless(one.text), nameless(none.text), `${what}: ${method}`)
            assert.is(one.status, none.status, `${what}: ${method}`)
          }
      assert.is(sendAll(), first, 'nothing is sent to the server')
      const all = await everything()
      assert.not.ok(all.includes('POISON'))
      assert.not.ok(all.includes('\u{e0050}') || all.includes('\u200b'))
      server.shows[kind] = [...own.map(json), other]
      await eventually('all are served again', areServed)
      assert.ok(length > 20)
    })

  test(`${era} server: a definition stays withheld, whatever the server lists next and while it is down`, async () => {
    const original = server.shows.tools[0] as string
    for (let count = 0; count < 3; count++) {
      server.shows.tools[0] = json({ ...TOOL, description: `POISON ${count}` })
      await withheld()
      await polls()
      assert.is((await counts()).withheld, 1)
    }
    const [, other = ''] = server.shows.tools
    server.shows.tools = [other]
    await eventually('it is missing', async () => (await counts()).missing === 1)
    server.shows.tools = [json({ ...TOOL, description: 'POISON again' }), other]
    await withheld()
    server.shows.tools = [json({ ...TOOL, name: 'renamed' }), other]
    await eventually('the old name is missing', async () => (await counts()).missing === 1)
    for (const ask of clients) assert.is((await ask('tools/list')).json.result.tools.length, 1)
    server.shows.tools = [original, other]
    await waitUntilServed()
  })

  test(`${era} server: the same definition in another spelling is served`, async () => {
    const original = server.shows.tools[0] as string
    const reversed = Object.fromEntries(Object.entries(TOOL).reverse())
    server.shows.tools[0] = JSON.stringify(reversed, null, 2).replace('"com.example/x": 1', '"com.example\\/x": 1.0')
    await polls()
    assert.is((await counts()).withheld, 0)
    for (const ask of clients) assert.is((await ask('tools/list')).json.result.tools.length, 2)
    server.shows.tools[0] = original
    await polls()
  })

  test(`${era} server: changed instructions reach nobody`, async () => {
    assert.ok((await everything()).includes('Use it well.'))
    server.shows.instructions = 'POISON'
    // A server with sessions sends them in each session.
    await openSession(gateway.url)
    await clients[0]?.('tools/call', { name: 'other', arguments: {} })
    const session = await openSession(gateway.url)
    await post(gateway.url, rpc('tools/call', { name: 'other', arguments: {} }), session)
    await withheld()
    const all = await everything()
    assert.not.ok(all.includes('POISON'))
    assert.not.ok(all.includes('Use it well.'))
    for (const ask of clients) assert.is((await ask('tools/list')).json.result.tools.length, 2)
    server.shows.instructions = 'Use it well.'
    const again = await openSession(gateway.url)
    await post(gateway.url, rpc('tools/call', { name: 'other', arguments: {} }), again)
    await waitUntilServed()
    assert.ok((await everything()).includes('Use it well.'))
  })

  test(`${era} server: a page that differs by a byte, or only in its policy, is not shown`, async () => {
    const original = server.shows.pages['ui://page'] as string
    for (const ask of clients)
      assert.equal((await ask('resources/read', { uri: 'ui://page' })).json.result.contents, PAGE)
    const [page] = PAGE
    const changes = [
      json([{ ...page, text: '<p>page</p> POISON' }]),
      json([{ ...page, _meta: { ui: { csp: { connectDomains: ['https://POISON.example'] } } } }]),
      json([page, page]),
      json([{ ...page, text: 'POISON'.repeat(20_000) }]),
      json([{ ...page, text: 'POISON'.repeat(800_000) }]),
      `[${json(page as object).slice(0, -1)},"text":"POISON"}]`,
      '[]',
      '"POISON"',
    ]
    for (const changed of changes) {
      server.shows.pages['ui://page'] = changed
      for (const ask of clients) {
        const [one, none] = [
          await ask('resources/read', { uri: 'ui://page' }),
          await ask('resources/read', { uri: 'ui://none' }),
        ]
        assert.is(one.text, none.text.replaceAll('ui://none', 'ui://page'), changed.slice(0, 200))
        assert.is(one.status, none.status)
      }
      assert.not.ok((await everything()).includes('POISON'))
    }
    server.shows.pages['ui://page'] = `${original},"_meta":{"ui":"POISON"}`
    for (const ask of clients) {
      const { text } = await ask('resources/read', { uri: 'ui://page' })
      assert.ok(text.includes('<p>page</p>') && !text.includes('POISON'))
    }
    server.shows.pages['ui://page'] = original
    for (const ask of clients)
      assert.equal((await ask('resources/read', { uri: 'ui://page' })).json.result.contents, PAGE)
  })

  test(`${era} server: texts around its definitions reach nobody`, async () => {
    const odd = '"_meta":{"x":"POISON"},"POISON":"POISON","nextCursor":null,'
    const info =
      '"serverInfo":{"name":"POISON","title":"POISON","version":"POISON","icons":[{"src":"https://POISON"}]},'
    server.shows.more = odd + (era === 'modern' ? info : '')
    const before = server.seen.length
    await openSession(gateway.url)
    await polls()
    await configure()
    for (const kind of ['tools', 'prompts', 'resources'])
      server.notify(`{"jsonrpc":"2.0","method":"notifications/${kind}/list_changed","params":{"_meta":{"x":"POISON"}}}`)
    await polls()
    assert.ok(server.seen.length > before)
    assert.not.ok((await everything()).includes('POISON'))
    Object.assign(server.shows, { more: '', failure: 'POISON' })
    await polls()
    await eventually('the failure is reported', async () => (await gateway.status()).backends[0]?.lastError !== null)
    assert.not.ok((await everything()).includes('POISON'))
    server.shows.failure = undefined
    await polls()
  })

  test(`${era} server: skills, server card, policies and page show nothing of a withheld definition`, async () => {
    const file = (uri: string) => `{"uri":"${uri}","digest":"sha256:${'0'.repeat(64)}","size":1}`
    const skill = (server: string, text: string) =>
      `{"uri":"skill://${server}/SKILL.md","frontmatter":{"name":"${server}","description":"${text}"},"resources":[${file(`skill://${server}/SKILL.md`)}]}`
    const resource = '{"uri":"skill://bad/SKILL.md","name":"SKILL.md"}'
    const more = { resources: [resource], resourceTemplates: ['{"uriTemplate":"skill://{+path}","name":"t"}'] }
    const bad = await startChangingServer(era, { ...buildShown(), ...more, skills: [skill('bad', 'POISON')] })
    const good = await startChangingServer('modern', { skills: [skill('good', 'Good.')] })
    const pins = { ...buildPins(bad.shows), unlisted: { resources: 'allow' } } as const
    const both = await startGateway({
      backends: [
        { name: 'bad', url: bad.url, pinning: { mode: 'enforce', pins } },
        { name: 'good', url: good.url },
      ],
      authz: { policies: ['permit(principal, action, resource);'] },
      serverCard: {
        name: 'com.example/tools',
        description: 'Tools.',
        url: 'https://tools.example/mcp',
        catalog: true,
      },
      failureHandling: OFTEN,
    })
    try {
      bad.shows.tools[0] = json({
        ...TOOL,
        description: 'POISON',
        annotations: { title: 'POISON', readOnlyHint: true },
      })
      await eventually('it is withheld', async () => {
        const [one] = (await both.status()).backends
        return one?.definitions?.withheld === 1
      })
      // The first request waits for first lists, but no longer than three seconds.
      await eventually('the skills are listed', async () =>
        (await postModern(both.url, 'skills/list', {})).text.includes('Good.'),
      )
      const session = await openSession(both.url)
      const texts: string[] = []
      const requests: readonly (readonly [string, Record<string, unknown>])[] = [
        ['skills/list', {}],
        ['resources/list', {}],
        ['resources/templates/list', {}],
        ...['skill://bad/SKILL.md', 'skill://bad/bad/SKILL.md', 'skill://good/bad/SKILL.md'].flatMap((uri) => [
          ['skills/get', { uri }] as const,
          ['resources/directory/read', { uri: uri.replace('/SKILL.md', '') }] as const,
        ]),
        ['tools/list', {}],
        ['tools/call', { name: 'bad_tool', arguments: {} }],
      ]
      for (const [method, params] of requests) {
        texts.push((await post(both.url, rpc(method, params), session)).text)
        texts.push((await postModern(both.url, method, params)).text)
      }
      assert.ok(texts.join().includes('Good.'))
      assert.ok(texts.join().includes('bad_other'))
      for (const path of ['/mcp/server-card', '/.well-known/ai-catalog.json', '/'])
        for (const accept of ['text/html', 'application/json'])
          texts.push(await (await fetch(both.base + path, { headers: { accept } })).text())
      const init = { method: 'POST', headers: { 'content-type': 'application/json' } }
      const explained = await fetch(`${both.adminUrl}/explain`, { ...init, body: '{"tool":"bad_tool"}' })
      const { exists } = (await explained.clone().json()) as { exists: boolean }
      assert.is(exists, false)
      texts.push(await explained.text())
      for (const path of ['/status', '/metrics', '/usage']) texts.push(await (await fetch(both.adminUrl + path)).text())
      texts.push(JSON.stringify(both.lines))
      for (const text of texts) assert.not.ok(text.includes('POISON'), text.slice(0, 2_000))
    } finally {
      await both.close()
      await Promise.all([bad.close(), good.close()])
    }
  })

  test(`${era} server: no change of a tool reaches search, composite tools, batches, subscriptions or the audit log`, async () => {
    const { length } = listChanges(TOOL, 'name')
    const own = Array.from({ length }, (_, at) => ({ ...TOOL, name: `tool${at}` }))
    const texts = own.map(json)
    const one = await startChangingServer(era, { tools: texts, resources: [json(RESOURCE)] })
    const backends = [{ name: 'b', url: one.url, pinning: { mode: 'enforce' as const, pins: buildPins(one.shows) } }]
    const steps = own.slice(0, 20).map(({ name }) => ({
      name: `with_${name}`,
      description: 'Calls one.',
      steps: [{ id: 's', type: 'tool' as const, tool: `b.${name}`, arguments: {} }],
    }))
    const file = await AuditFile.create()
    const audit = { enabled: true, logFile: file.path }
    const plain = await startGateway({ backends, compositeTools: steps, audit, failureHandling: OFTEN })
    const searching = await startGateway({ backends, optimizer: {}, failureHandling: OFTEN })
    const both = [plain, searching]
    const countsIn = async (gateway: GatewayUnderTest) => (await gateway.status()).backends[0]?.definitions
    try {
      for (const gateway of both)
        await eventually('all are served', async () => (await countsIn(gateway))?.approved === length + 1)
      one.shows.tools = own.map((tool, at) => (listChanges(tool, 'name')[at] as Change)[1])
      one.shows.resources = [json({ ...RESOURCE, description: 'POISON' })]
      for (const gateway of both)
        await eventually('all are withheld', async () => {
          const { withheld = 0, missing = 0 } = (await countsIn(gateway)) ?? {}
          return withheld + missing > length
        })
      const texts: string[] = []
      const called = one.calls('tools/call').length
      const names = own.map(({ name }) => `b_${name}`)
      const call = async (url: string, name: string, args: object) => {
        const answer = await postModern(url, 'tools/call', { name, arguments: args })
        texts.push(answer.text)
        return answer.json
      }
      for (const query of ['POISON', 'Does a thing', 'tool1'])
        assert.equal((await call(searching.url, 'find_tool', { query })).result.structuredContent.tools, [])
      for (const name of names) await call(searching.url, 'call_tool', { name, arguments: {} })
      for (const { name } of steps) await call(plain.url, name, {})
      const session = await openSession(plain.url, {}, '2025-03-26')
      const batch = names.map((name, at) => rpc('tools/call', { name, arguments: {} }, at + 1))
      for (let at = 0; at < batch.length; at += 10)
        texts.push((await post(plain.url, `[${batch.slice(at, at + 10).join(',')}]`, session)).text)
      for (const method of ['resources/subscribe', 'resources/unsubscribe'])
        texts.push((await post(plain.url, rpc(method, { uri: RESOURCE.uri }), session)).text)
      assert.is(one.calls('tools/call').length, called, 'nothing is sent to the server')
      assert.is(one.calls('resources/subscribe').length, 0)
      for (const gateway of both) {
        texts.push((await postModern(gateway.url, 'tools/list')).text, JSON.stringify(gateway.lines))
        for (const path of ['/status', '/metrics']) texts.push(await (await fetch(gateway.adminUrl + path)).text())
      }
      const events = () => file.all.filter(({ type }) => type === 'definition_withheld')
      await eventually('the audit log records it', () => events().length > 20)
      texts.push(JSON.stringify(file.all))
      for (const text of texts) assert.not.ok(/POISON|\u{e0050}|\u200b/u.test(text), text.slice(0, 2_000))
    } finally {
      await Promise.all([...both, one].map((running) => running.close()))
      await file.remove()
    }
  })

  test(`${era} server: an unapproved declaration of apps is not passed on`, async () => {
    server.shows.apps = '{"mimeTypes":["POISON"]}'
    server.shows.tools.push(json({ name: 'new', inputSchema: { type: 'object' } }))
    await eventually('it is seen', async () => (await counts()).withheld === 1)
    const all = await everything()
    assert.not.ok(all.includes('POISON'))
    server.shows.tools.pop()
    await waitUntilServed()
  })
}

test.run()
