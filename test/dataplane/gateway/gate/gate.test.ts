import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { CatalogGateConfig, GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GateRegistry, type GateRow, startGateRegistry } from '../../../support/gateway/gate-registry.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, openSession, post, rpc } from '../../../support/gateway/post.ts'
import { createAuthority } from '../../../support/network/certificates.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import {
  buildConfig as buildRegistryConfig,
  registryFile,
  registryFolder,
  runRegistry,
  server,
} from '../../../support/registry/registry.ts'
import { type ChangingServer, startChangingServer } from '../../../support/servers/changing-server.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const AUDIENCE = 'https://gateway.example'
const tool = (name: string) => JSON.stringify({ name, description: `${name} of it`, inputSchema: { type: 'object' } })

let idp: IdentityProvider
let one: RawServer
let two: RawServer

/** Starts a server of both eras whose tools, prompt, resource and instructions contain its name. */
function startServer(name: string, tools: readonly string[]): Promise<RawServer> {
  const capabilities = { tools: {}, prompts: {}, resources: {} }
  const answers: Record<string, object> = {
    'server/discover': {
      supportedVersions: ['2026-07-28'],
      capabilities,
      instructions: `of ${name}`,
      ttlMs: 0,
      cacheScope: 'private',
    },
    'prompts/list': { prompts: [{ name: `${name}-prompt` }] },
    'prompts/get': { messages: [] },
    'resources/list': { resources: [{ uri: `${name}://thing`, name: 'thing' }] },
    'resources/templates/list': { resourceTemplates: [] },
    'resources/read': { contents: [{ uri: `${name}://thing`, text: name }] },
    'completion/complete': { completion: { values: [name] } },
  }
  return startRawServer({
    era: 'modern',
    tools,
    call: ({ message }) =>
      JSON.stringify({
        jsonrpc: '2.0',
        id: message.id,
        result: { resultType: 'complete', content: [{ type: 'text', text: name }] },
      }),
    before({ message }, res) {
      const result = answers[message.method ?? '']
      if (result === undefined) return false
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: { resultType: 'complete', ...result } }))
      return true
    },
  })
}
test.before(async () => {
  idp = await startIdentityProvider()
  one = await startServer('one', [tool('alpha'), tool('same')])
  two = await startServer('two', [tool('beta'), tool('same')])
})
test.after(async () => {
  await Promise.all([idp.close(), one.close(), two.close()])
})

const buildRow = (name: string, server: { readonly url: string }, more: Partial<GateRow> = {}): GateRow => ({
  name: `com.example/${name}`,
  remotes: [{ type: 'streamable-http', url: server.url }],
  claims: { team: name },
  ...more,
})

/** The fields that every row of a registry has. */
const WHOLE = { version: '1.0.0', status: 'active', packages: [] }

interface GatedGateway {
  readonly gateway: GatewayUnderTest
  readonly registry: GateRegistry
  tools(claims?: object): Promise<readonly string[]>
  ask(method: string, params: Record<string, unknown>, claims?: object): ReturnType<typeof post>
  close(): Promise<void>
}

const buildConfig = (
  registry: GateRegistry,
  gate: Partial<CatalogGateConfig> = {},
  more: Partial<GatewayConfig> = {},
): TestConfig => ({
  backends: [
    { name: 'one', url: one.url },
    { name: 'two', url: two.url },
  ],
  incomingAuth: {
    type: 'oidc',
    oidc: { issuer: idp.issuer, audience: AUDIENCE },
  },
  catalogGate: { mode: 'enforce', registries: [{ name: 'house', url: registry.url, registry: 'main' }], ...gate },
  ...more,
})

const tokens = new Map<string, Promise<string>>()
function mintToken(claims: object): Promise<string> {
  const key = JSON.stringify(claims)
  let token = tokens.get(key)
  if (token === undefined) tokens.set(key, (token = idp.mint({ aud: AUDIENCE, sub: key, ...claims })))
  return token
}

async function startGated(
  rows: readonly GateRow[],
  gate: Partial<CatalogGateConfig> = {},
  more: Partial<GatewayConfig> = {},
  prepare?: (directory: string) => Promise<void>,
): Promise<GatedGateway> {
  const registry = await startGateRegistry(rows)
  const gateway = await startGateway(buildConfig(registry, gate, more), prepare)
  return wrapGateway(gateway, registry)
}

function wrapGateway(gateway: GatewayUnderTest, registry: GateRegistry): GatedGateway {
  const ask = async (method: string, params: Record<string, unknown>, claims: object = { team: ['one', 'two'] }) =>
    post(gateway.url, modern(method, params).body, {
      ...modern(method, params).headers,
      authorization: `Bearer ${await mintToken(claims)}`,
    })
  return {
    gateway,
    registry,
    ask,
    async tools(claims) {
      return parseList((await ask('tools/list', {}, claims)).text, 'tools', 'name')
    },
    async close() {
      await Promise.all([gateway.close(), registry.close()])
    },
  }
}

const parseList = (text: string, member: string, key: string): readonly string[] => {
  const { result } = JSON.parse(text) as { result?: Record<string, Record<string, string>[]> }
  return (result?.[member] ?? []).map((item) => item[key] as string)
}
const ONE = { team: 'one' }
const TWO = { team: 'two' }

test('a member without an entry is not shown or usable anywhere', async () => {
  const it = await startGated([buildRow('one', one)])
  assert.equal(await it.tools(), ['one_alpha', 'one_same'])
  assert.equal(parseList((await it.ask('prompts/list', {})).text, 'prompts', 'name'), ['one_one-prompt'])
  assert.equal(parseList((await it.ask('resources/list', {})).text, 'resources', 'uri'), ['one://thing'])
  const discovered = await it.ask('server/discover', {})
  assert.match(discovered.text, 'of one')
  assert.not.match(discovered.text, 'two')
  for (const [method, hidden, unknown] of [
    ['tools/call', { name: 'two_beta', arguments: {} }, { name: 'nix_beta', arguments: {} }],
    ['prompts/get', { name: 'two_two-prompt' }, { name: 'nix_two-prompt' }],
    [
      'completion/complete',
      { ref: { type: 'ref/prompt', name: 'two_two-prompt' }, argument: { name: 'a', value: 'b' } },
      { ref: { type: 'ref/prompt', name: 'nix_two-prompt' }, argument: { name: 'a', value: 'b' } },
    ],
  ] as const) {
    const [no, never] = [await it.ask(method, hidden), await it.ask(method, unknown)]
    assert.is(no.status, never.status, method)
    assert.is(no.text, never.text, method)
  }
  assert.is(two.calls('tools/call').length, 0)
  await it.close()
})

test('claims decide what a caller sees; everything else is answered as unknown', async () => {
  const it = await startGated([buildRow('one', one), buildRow('two', two)])
  assert.equal(await it.tools(ONE), ['one_alpha', 'one_same'])
  assert.equal(await it.tools(TWO), ['two_beta', 'two_same'])
  assert.equal(await it.tools({}), [])
  assert.equal((await it.tools()).length, 4)
  const no = await it.ask('tools/call', { name: 'two_beta', arguments: {} }, ONE)
  const never = await it.ask('tools/call', { name: 'xxx_beta', arguments: {} }, ONE)
  assert.equal([no.status, no.text], [never.status, never.text])
  assert.match((await it.ask('tools/call', { name: 'one_alpha', arguments: {} }, ONE)).text, '"text":"one"')
  const read = await it.ask('resources/read', { uri: 'two://thing' }, ONE)
  assert.not.match(read.text, '"text":"two"')
  await it.close()
})

test('the registry’s claims come first, an entry without claims is hidden, and nobody is exempt', async () => {
  const it = await startGated([buildRow('one', one), buildRow('two', two, { claims: {} })])
  it.registry.claims = { org: 'acme' }
  it.registry.set([buildRow('one', one), buildRow('two', two, { claims: {} })])
  await eventually('the registry’s claims', async () => (await it.tools(ONE)).length === 0)
  assert.equal(await it.tools({ ...ONE, org: 'acme' }), ['one_alpha', 'one_same'])
  assert.equal(await it.tools({ org: 'acme', role: 'super-admin', superAdmin: true }), [])
  const { catalogGate } = await it.gateway.status()
  assert.equal(catalogGate?.members[1], {
    name: 'two',
    reason: 'NotInCatalog',
    detail: 'its entry has no claims, so that no caller sees it',
    deprecated: false,
  })
  it.registry.mode = 'auth-only'
  it.registry.set([buildRow('one', one), buildRow('two', two, { claims: {} })])
  await eventually('no claims count', async () => (await it.tools({})).length === 4)
  await it.close()
})

test('a deleted entry is gone at once, and only callers who saw it are notified', async () => {
  const it = await startGated([buildRow('one', one), buildRow('two', two)])
  await it.tools(ONE)
  await it.tools(TWO)
  const listen = async (claims: object) => {
    const { body, headers } = modern('subscriptions/listen', { notifications: { toolsListChanged: true } })
    return EventReader.open(it.gateway.url, {
      method: 'POST',
      body,
      headers: { ...BASE_HEADERS, ...headers, authorization: `Bearer ${await mintToken(claims)}` },
    })
  }
  const [first, second] = [await listen(ONE), await listen(TWO)]
  await eventually('both listen', () => first.events.length > 0 && second.events.length > 0)
  it.registry.set([buildRow('one', one), buildRow('two', two, { status: 'deleted' })])
  await eventually('it is gone', async () => (await it.tools(TWO)).length === 0)
  await eventually('it is reported', () => second.events.length > 1)
  assert.equal(await it.tools(ONE), ['one_alpha', 'one_same'])
  assert.is(first.events.length, 1)
  it.registry.set([buildRow('one', one, { status: 'deprecated' }), buildRow('two', two, { status: 'deleted' })])
  await eventually(
    'it is deprecated',
    async () => (await it.gateway.status()).catalogGate?.members[0]?.deprecated === true,
  )
  assert.equal(await it.tools(ONE), ['one_alpha', 'one_same'])
  assert.is((await it.gateway.status()).catalogGate?.members[1]?.reason, 'EntryDeleted')
  assert.is(first.events.length, 1)
  await first.leave()
  await second.leave()
  await it.close()
})

test('a member that names an approved entry but has another location is withheld', async () => {
  const members = [{ backend: 'two', server: 'com.example/one', url: two.url }]
  const it = await startGated([buildRow('one', one, { claims: { team: 'one' } })], { members })
  assert.equal(await it.tools(), ['one_alpha', 'one_same'])
  const { catalogGate, problems } = await it.gateway.status()
  assert.is(catalogGate?.members[1]?.reason, 'LocationMismatch')
  assert.match(problems.find(({ code }) => code === 'MembersWithheld')?.message ?? '', '"two": LocationMismatch')
  await it.close()
})

test('a hidden member does not occupy a name of a visible one', async () => {
  const aggregation: NonNullable<GatewayConfig['aggregation']> = {
    conflictResolution: 'priority',
    conflictResolutionConfig: { priorityOrder: ['two', 'one'] },
  }
  const it = await startGated([buildRow('one', one), buildRow('two', two)], {}, { aggregation })
  assert.equal(await it.tools(ONE), ['alpha', 'same'])
  assert.match((await it.ask('tools/call', { name: 'same', arguments: {} }, ONE)).text, '"text":"one"')
  assert.match((await it.ask('tools/call', { name: 'same', arguments: {} })).text, '"text":"two"')
  await it.close()
})

test('a composite tool with a hidden step is hidden', async () => {
  const compositeTools = [
    {
      name: 'both',
      description: 'Both.',
      parameters: { type: 'object' },
      steps: [
        { id: 'a', tool: 'one_alpha' },
        { id: 'b', tool: 'two_beta' },
      ],
    },
    { name: 'single', description: 'One.', parameters: { type: 'object' }, steps: [{ id: 'a', tool: 'one.alpha' }] },
  ] as unknown as NonNullable<GatewayConfig['compositeTools']>
  const it = await startGated([buildRow('one', one), buildRow('two', two)], {}, { compositeTools })
  assert.equal(
    (await it.tools()).filter((name) => !name.includes('_')),
    ['both', 'single'],
  )
  assert.equal(
    (await it.tools(ONE)).filter((name) => !name.includes('_')),
    ['single'],
  )
  assert.equal(await it.tools(TWO), ['two_beta', 'two_same'])
  const [no, never] = [
    await it.ask('tools/call', { name: 'both', arguments: {} }, ONE),
    await it.ask('tools/call', { name: 'nix', arguments: {} }, ONE),
  ]
  assert.equal([no.status, no.text], [never.status, never.text])
  await it.close()
})

test('Cedar policies apply in addition to the catalog', async () => {
  const authz = {
    policies: [
      'permit(principal, action, resource == Tool::"one_alpha");',
      'permit(principal, action, resource == Tool::"two_beta");',
    ],
  } as NonNullable<GatewayConfig['authz']>
  const it = await startGated([buildRow('one', one), buildRow('two', two)], {}, { authz })
  assert.equal(await it.tools(), ['one_alpha', 'two_beta'])
  assert.equal(await it.tools(ONE), ['one_alpha'])
  for (const name of ['two_beta', 'one_same', 'nix'])
    assert.is((await it.ask('tools/call', { name, arguments: {} }, ONE)).status, 403, name)
  const explainTool = async (name: string, claims: object) => {
    const response = await fetch(`${it.gateway.adminUrl}/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ caller: { sub: 'eve', ...claims }, tool: name }),
    })
    const { allowed, catalog, policy } = (await response.json()) as Record<string, { allowed: boolean; reason: string }>
    return [allowed, catalog?.allowed, policy?.allowed, catalog?.reason]
  }
  assert.equal(await explainTool('one_alpha', ONE), [true, true, true, 'entry com.example/one of registry house'])
  assert.equal(await explainTool('one_same', ONE), [false, true, false, 'entry com.example/one of registry house'])
  const lacking = 'the caller lacks claims: entry com.example/two of registry house asks for team=two'
  assert.equal(await explainTool('two_beta', ONE), [false, false, true, lacking])
  await it.close()
})

test('a call does not ask the registry', async () => {
  const it = await startGated([buildRow('one', one)])
  await it.tools(ONE)
  const before = it.registry.requests.length
  for (let n = 0; n < 300; n++) await it.ask('tools/call', { name: 'one_alpha', arguments: {} }, ONE)
  assert.ok(it.registry.requests.length - before <= 3)
  await it.close()
})

test('pages are read to the end, and again from the start if the revision changes between them', async () => {
  const rows = Array.from({ length: 25 }, (_, n) => ({ name: `com.fill/n${n}`, claims: { team: 'x' } }))
  const registry = await startGateRegistry([...rows, buildRow('one', one)])
  registry.pageSize = 10
  let isTorn = true
  registry.intercept = ({ url = '' }, response) => {
    if (!url.includes('cursor=20') || !isTorn) return false
    isTorn = false
    const body = {
      revision: 'other',
      mode: 'anonymous',
      claims: {},
      servers: [buildRow('two', two)].map((row) => ({ version: '1', status: 'active', ...row })),
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    return true
  }
  const it = wrapGateway(await startGateway(buildConfig(registry)), registry)
  assert.equal(await it.tools(), ['one_alpha', 'one_same'])
  assert.ok(registry.requests.length >= 6)
  await it.close()
})

test('while the registry is down the last rows hold; with `close` nothing is visible', async () => {
  for (const [onUnavailable, left] of [
    ['lastKnown', 2],
    ['close', 0],
  ] as const) {
    for (const failure of ['error', 'cut', 'rubbish', 'gone', 'refused'] as const) {
      const it = await startGated([buildRow('one', one)], { onUnavailable })
      assert.is((await it.tools(ONE)).length, 2, failure)
      it.registry.intercept = (_, response) => {
        if (failure === 'error') response.writeHead(500).end('no')
        if (failure === 'refused') response.writeHead(403).end('{"error":"forbidden_role","message":"no"}')
        if (failure === 'rubbish') response.writeHead(200).end('{"revision": "x", "mode"')
        if (failure === 'cut') {
          response.writeHead(200, { 'content-length': '1000' }).write('{')
          setTimeout(() => response.destroy(), 20)
        }
        if (failure === 'gone') response.destroy()
        return true
      }
      it.registry.set([buildRow('one', one)])
      const before = it.registry.requests.length
      await eventually('it was called', () => it.registry.requests.length > before + 2)
      assert.is((await it.tools(ONE)).length, left, `${onUnavailable} ${failure}`)
      it.registry.intercept = undefined
      await eventually('it is back', async () => (await it.tools(ONE)).length === 2)
      await it.close()
    }
  }
})

test('a token without the role is reported, and approves nothing', async () => {
  const registry = await startGateRegistry([buildRow('one', one)])
  registry.intercept = ({ headers }, response) => {
    if (headers.authorization === 'Bearer gate-token') return false
    response.writeHead(403).end('{"error":"forbidden_role","message":"no"}')
    return true
  }
  const registries = [{ name: 'house', url: registry.url, registry: 'main', tokenFile: 'token' }]
  const it = wrapGateway(
    await startGateway(buildConfig(registry, { registries }), (directory) =>
      writeFile(join(directory, 'token'), 'wrong\n'),
    ),
    registry,
  )
  assert.equal(await it.tools(), [])
  const { problems, catalogGate } = await it.gateway.status()
  assert.is(catalogGate?.registries[0]?.state, 'unavailable')
  const problem = problems.find(({ code }) => code === 'CatalogUnavailable')?.message ?? ''
  assert.match(problem, 'it answers 403 (forbidden_role)')
  assert.not.match(JSON.stringify([problems, it.gateway.lines]), 'wrong')
  await writeFile(join(it.gateway.directory, 'token'), 'gate-token\n')
  await eventually('the new token is used', async () => (await it.tools(ONE)).length === 2)
  await it.close()
})

test('an entry in one of two registries is enough, and a registry that is down loses its own rows alone', async () => {
  const other = await startGateRegistry([buildRow('two', two)])
  const registry = await startGateRegistry([buildRow('one', one)])
  const registries = [
    { name: 'house', url: registry.url, registry: 'main' },
    { name: 'other', url: `${other.url}/`, registry: 'main' },
  ]
  const it = wrapGateway(await startGateway(buildConfig(registry, { registries, onUnavailable: 'close' })), registry)
  assert.is((await it.tools()).length, 4)
  await other.close()
  await eventually('its rows are gone', async () => (await it.tools()).length === 2)
  assert.equal(await it.tools(), ['one_alpha', 'one_same'])
  await it.close()
})

/** Returns the path of a gateway's snapshots. */
const snapshots = (directory: string) => join(directory, 'state', 'catalog', 'default.test')

/** Waits for a complete snapshot of a gateway and returns its files' texts by name. */
async function keptSnapshot({ gateway }: GatedGateway): Promise<Map<string, string>> {
  const folder = snapshots(gateway.directory)
  let names: readonly string[] = []
  await eventually('there is a snapshot', async () => {
    names = await readdir(folder).catch(() => [])
    return names.length === 2 && names.every((name) => !name.endsWith('.new'))
  })
  const files = new Map<string, string>()
  for (const name of names) files.set(name, await readFile(join(folder, name), 'utf8'))
  return files
}

test('a gateway that starts while the registry is down uses the snapshot, and without one shows nothing', async () => {
  const first = await startGated([buildRow('one', one)])
  const files = await keptSnapshot(first)
  const { registry } = first
  await first.close()
  const withFiles = (edit: (name: string, text: string) => string | undefined) => async (directory: string) => {
    await mkdir(snapshots(directory), { recursive: true })
    for (const [name, text] of files) {
      const edited = edit(name, text)
      if (edited !== undefined) await writeFile(join(snapshots(directory), name), edited)
    }
  }
  const head = 'house.json'
  const sign = (change: object) => {
    const { check: _, ...fields } = { ...JSON.parse(files.get(head) as string), ...change }
    const check = createHash('sha256')
      .update(JSON.stringify([fields.source, fields.digest, fields.confirmedAt]))
      .digest('base64url')
    return JSON.stringify({ ...fields, check })
  }
  for (const [what, tools, edit] of [
    ['whole', 2, (_: string, text: string) => text],
    ['none', 0, () => undefined],
    ['without its pages', 0, (name: string, text: string) => (name === head ? text : undefined)],
    ['without its head', 0, (name: string, text: string) => (name === head ? undefined : text)],
    ['cut', 0, (name: string, text: string) => (name === head ? text : text.slice(0, -20))],
    [
      'with another row',
      0,
      (name: string, text: string) => (name === head ? text : text.replace('com.example', 'com.evil')),
    ],
    ['empty', 0, () => ''],
    ['null', 0, () => 'null'],
    [
      'with another time',
      0,
      (name: string, text: string) =>
        name === head ? text.replace(/"confirmedAt":\d+/, `"confirmedAt":${Date.now() + 1}`) : text,
    ],
    [
      'of another registry',
      0,
      (name: string, text: string) => (name === head ? sign({ source: '["http://other","main"]' }) : text),
    ],
    [
      'too old',
      0,
      (name: string, text: string) => (name === head ? sign({ confirmedAt: Date.now() - 3_601_000 }) : text),
    ],
    [
      'an hour old, nearly',
      2,
      (name: string, text: string) => (name === head ? sign({ confirmedAt: Date.now() - 3_500_000 }) : text),
    ],
  ] as const) {
    const it = wrapGateway(await startGateway(buildConfig(registry), withFiles(edit)), registry)
    if (tools > 0) await eventually(what, async () => (await it.tools(ONE)).length === tools)
    else assert.equal(await it.tools(ONE), [], what)
    if (what === 'too old') {
      const { problems } = await it.gateway.status()
      assert.ok(
        problems.some(({ code }) => code === 'CatalogStale'),
        what,
      )
    }
    await it.gateway.close()
  }
})

test('rows that become too old approve nothing any more', async () => {
  const first = await startGated([buildRow('one', one)])
  const files = await keptSnapshot(first)
  const { registry } = first
  await first.close()
  const head = JSON.parse(files.get('house.json') as string)
  const confirmedAt = Date.now() - 3_600_000 + 5_000
  const check = createHash('sha256')
    .update(JSON.stringify([head.source, head.digest, confirmedAt]))
    .digest('base64url')
  files.set('house.json', JSON.stringify({ ...head, confirmedAt, check }))
  const it = wrapGateway(
    await startGateway(buildConfig(registry), async (directory) => {
      await mkdir(snapshots(directory), { recursive: true })
      for (const [name, text] of files) await writeFile(join(snapshots(directory), name), text)
    }),
    registry,
  )
  assert.is((await it.tools(ONE)).length, 2)
  const authorization = `Bearer ${await mintToken(ONE)}`
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
  const opened = await post(it.gateway.url, rpc('initialize', params, 0), { authorization })
  const session = {
    authorization,
    'mcp-session-id': opened.headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  const call = async (name: string) =>
    (await post(it.gateway.url, rpc('tools/call', { name, arguments: {} }), session)).text
  assert.match(await call('one_alpha'), 'result')
  await eventually('the entries are too old', async () => (await it.tools(ONE)).length === 0)
  assert.is(await call('one_alpha'), await call('nix_alpha'))
  assert.ok((await it.gateway.status()).problems.some(({ code }) => code === 'CatalogStale'))
  await it.gateway.close()
})

test('a registry with an untrusted certificate counts as down', async () => {
  const authority = await createAuthority()
  const open = new Set<ServerResponse>()
  const page = { revision: 'r', mode: 'full', claims: {}, servers: [{ ...buildRow('one', one), ...WHOLE }] }
  const server = createServer({ key: authority.key, cert: authority.cert }, (request, response) => {
    if (request.headers['if-none-match'] === undefined)
      response.writeHead(200, { 'content-type': 'application/json', etag: '"r"' }).end(JSON.stringify(page))
    else open.add(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const registry = await startGateRegistry()
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const registries = (more: object) => [{ name: 'house', url, registry: 'main', ...more }]
  const it = wrapGateway(await startGateway(buildConfig(registry, { registries: registries({}) })), registry)
  assert.equal(await it.tools(ONE), [])
  await eventually('it is reported', async () =>
    (await it.gateway.status()).problems.some(({ code }) => code === 'CatalogUnavailable'),
  )
  const caBundleFile = join(authority.directory, 'ca.pem')
  await it.gateway.configure(buildConfig(registry, { registries: registries({ caBundleFile }) }))
  await eventually('it is accepted', async () => (await it.tools(ONE)).length === 2)
  await it.close()
  for (const response of open) response.destroy()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await authority.remove()
})

test('report mode withholds nothing and reports what it would withhold', async () => {
  const it = await startGated([buildRow('one', one)], { mode: 'report' })
  assert.is((await it.tools({})).length, 4)
  await eventually('it is reported', async () =>
    (await it.gateway.status()).problems.some(({ code }) => code === 'Reported'),
  )
  const { catalogGate } = await it.gateway.status()
  assert.equal(
    catalogGate?.members.map(({ reason }) => reason),
    [null, 'NotInCatalog'],
  )
  await it.gateway.configure(buildConfig(it.registry))
  await eventually('it is enforced', async () => (await it.tools({})).length === 0)
  await it.gateway.configure(buildConfig(it.registry, { mode: 'disabled' }))
  await eventually('it is switched off', async () => (await it.tools({})).length === 4)
  assert.is((await it.gateway.status()).catalogGate, null)
  await it.close()
})

test('among 300 sets of members each caller sees its own, also after its catalogs were evicted', async () => {
  const rows = Array.from({ length: 9 }, (_, n) =>
    buildRow('one', one, { name: `com.example/n${n}`, claims: { [`c${n}`]: 'y' } }),
  )
  const backends = rows.map((_, n) => ({ name: `b${n}`, url: one.url }))
  const members = rows.map((_, n) => ({ backend: `b${n}`, server: `com.example/n${n}`, url: one.url }))
  const it = await startGated(rows, { members }, { backends })
  for (let set = 0; set < 300; set++) {
    const seen = rows.flatMap((_, n) => ((set >> n) & 1 ? [n] : []))
    const claims = { sub: `s${set}`, ...Object.fromEntries(seen.map((n) => [`c${n}`, 'y'])) }
    assert.equal(
      await it.tools(claims),
      seen.flatMap((n) => [`b${n}_alpha`, `b${n}_same`]),
      `${set}`,
    )
  }
  await it.close()
})

test('two gateways follow Portico’s own registry with claims', async () => {
  const folder = await registryFolder()
  for (const [name, backend] of [
    ['one', one],
    ['two', two],
  ] as const) {
    const remotes = [{ type: 'streamable-http', url: backend.url }]
    await folder.write(`${name}.json`, registryFile([{ ...server(`com.example/${name}`), remotes }]))
  }
  const { sources, ...rest } = buildRegistryConfig({ one: 'one.json', two: 'two.json' })
  const config = {
    ...rest,
    sources: sources.map((source) => ({ ...source, claims: { team: source.name } })),
    registries: [{ name: 'main', sources: ['one', 'two'], claims: { org: 'acme' } }],
    auth: {
      mode: 'oauth',
      oauth: { providers: [{ name: 'idp', issuerUrl: idp.issuer, audience: AUDIENCE }] },
      authz: { roles: { readGates: [{ role: 'gate' }] } },
    },
  }
  await folder.configure(config)
  const house = await runRegistry(folder)
  await house.ready()
  const token = await idp.mint({ aud: AUDIENCE, sub: 'gateway', role: 'gate' })
  const registries = [{ name: 'house', url: house.url, registry: 'main', tokenFile: 'token' }]
  const fake = await startGateRegistry()
  const start = async () =>
    wrapGateway(
      await startGateway(buildConfig(fake, { registries }), (directory) => writeFile(join(directory, 'token'), token)),
      fake,
    )
  const replicas = [await start(), await start()]
  for (const it of replicas) {
    assert.equal(await it.tools({ ...ONE, org: 'acme' }), ['one_alpha', 'one_same'])
    assert.equal(await it.tools({ team: ['one', 'two'], org: ['acme', 'other'] }), [
      'one_alpha',
      'one_same',
      'two_beta',
      'two_same',
    ])
    assert.equal(await it.tools(ONE), [])
    assert.equal(await it.tools({ role: 'super-admin', org: 'acme' }), [])
  }
  await folder.write('one.json', registryFile([server('com.example/another')]))
  for (const it of replicas)
    await eventually('the entry is gone', async () => (await it.tools({ ...ONE, org: 'acme' })).length === 0)
  await Promise.all(replicas.map(({ gateway }) => gateway.close()))
  await Promise.all([house.close(), fake.close()])
})

test('two gateways with the same registry show the same', async () => {
  const registry = await startGateRegistry([buildRow('one', one)])
  const replicas = [
    wrapGateway(await startGateway(buildConfig(registry)), registry),
    wrapGateway(await startGateway(buildConfig(registry)), registry),
  ]
  for (const it of replicas) assert.equal(await it.tools(), ['one_alpha', 'one_same'])
  registry.set([buildRow('two', two)])
  for (const it of replicas)
    await eventually('the change', async () => (await it.tools()).join() === 'two_beta,two_same')
  await Promise.all(replicas.map(({ gateway }) => gateway.close()))
  await registry.close()
})

test('a session sees what its caller sees, also after a change, and its stream reports nothing else', async () => {
  const it = await startGated([buildRow('one', one), buildRow('two', two)])
  const authorization = `Bearer ${await mintToken(ONE)}`
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
  const opened = await post(it.gateway.url, rpc('initialize', params, 0), { authorization })
  assert.match(opened.text, 'of one')
  assert.not.match(opened.text, 'two')
  const session = {
    authorization,
    'mcp-session-id': opened.headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  assert.not.match((await post(it.gateway.url, rpc('tools/list'), session)).text, 'two_')
  const stream = await EventReader.listen(it.gateway.url, session)
  it.registry.set([buildRow('two', two)])
  await eventually('it is reported', () =>
    stream.events.some(({ message }) => message?.method === 'notifications/tools/list_changed'),
  )
  assert.not.match((await post(it.gateway.url, rpc('tools/list'), session)).text, 'one_')
  const [no, never] = [
    await post(it.gateway.url, rpc('tools/call', { name: 'one_alpha', arguments: {} }), session),
    await post(it.gateway.url, rpc('tools/call', { name: 'nix_alpha', arguments: {} }), session),
  ]
  assert.is(no.text, never.text)
  await stream.leave()
  await it.close()
})

test('a member that becomes hidden sends nothing to its sessions, which end with their client', async () => {
  const shows = { tools: [tool('t')], resources: ['{"uri":"file:///r","name":"r"}'] }
  const [first, other] = [await startChangingServer('legacy', shows), await startChangingServer('legacy', shows)]
  const backends = [
    { name: 'first', url: first.url },
    { name: 'other', url: other.url },
  ]
  const rows = [buildRow('one', first), buildRow('one', other, { name: 'com.example/other' })]
  const it = await startGated(rows, {}, { backends })
  const authorization = `Bearer ${await mintToken(ONE)}`
  const session = await openSession(it.gateway.url, { authorization })
  const ask = (method: string, params: object) => post(it.gateway.url, rpc(method, params), session)
  const stream = await EventReader.listen(it.gateway.url, session)
  const hasMessage = (text: string) => stream.events.some(({ message }) => JSON.stringify(message ?? '').includes(text))
  const buildLog = (text: string) =>
    `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"${text}"}}`
  /** Sends the message until it arrives: the stream to the backend may still be opening. */
  const waitForMessage = (server: ChangingServer, text: string) =>
    eventually(text, () => {
      if (!hasMessage(text)) server.notify(buildLog(text))
      return hasMessage(text)
    })
  for (const name of ['first_t', 'other_t']) assert.ok((await ask('tools/call', { name, arguments: {} })).json.result)
  await ask('resources/subscribe', { uri: 'file:///r' })
  await waitForMessage(first, 'before')
  await waitForMessage(other, 'before too')
  const own = first.calls('tools/call').at(-1)?.headers['mcp-session-id']
  it.registry.set(rows.slice(1))
  await eventually('it is hidden', async () => !(await ask('tools/list', {})).text.includes('first_'))
  first.notify(buildLog('POISON'))
  first.notify('{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///r","x":"POISON"}}')
  first.notify('{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"POISON"}}')
  await waitForMessage(other, 'after')
  assert.not.ok(hasMessage('POISON'))
  await stream.leave()
  assert.is((await fetch(it.gateway.url, { method: 'DELETE', headers: { ...BASE_HEADERS, ...session } })).status, 204)
  const hasEnded = () => first.seen.some((one) => one.method === 'DELETE' && one.headers['mcp-session-id'] === own)
  await eventually('its session ends', hasEnded)
  const [none, never] = [
    await ask('tools/list', {}),
    await post(it.gateway.url, rpc('tools/list'), { ...session, 'mcp-session-id': own as string }),
  ]
  assert.equal([none.status, none.text], [404, never.text])
  await it.close()
  await Promise.all([first.close(), other.close()])
})

test('a wrong configuration is refused', async () => {
  const registry = await startGateRegistry()
  const entry = { name: 'house', url: registry.url, registry: 'main' }
  for (const [gate, pointer] of [
    [{ registries: undefined }, '/catalogGate/registries'],
    [{ registries: [entry, entry] }, '/catalogGate/registries/1/name'],
    [{ registries: [{ ...entry, url: 'http://registry.example.com' }] }, '/catalogGate/registries/0/url'],
    [{ registries: [{ ...entry, url: 'https://user:pw@registry.example.com' }] }, '/catalogGate/registries/0/url'],
    [{ maxStale: '59s' }, '/catalogGate/maxStale'],
    [{ maxStale: '169h' }, '/catalogGate/maxStale'],
    [{ members: [{ backend: 'nix' }] }, '/catalogGate/members/0/backend'],
  ] as const) {
    const error = await startGateway(buildConfig(registry, gate as Partial<CatalogGateConfig>)).then(
      () => undefined,
      (error: { findings?: readonly { pointer: string }[] }) => error,
    )
    assert.ok(
      error?.findings?.some((finding) => finding.pointer === pointer),
      `${JSON.stringify(gate)} ${JSON.stringify(error?.findings)}`,
    )
  }
  await registry.close()
})

test.run()
