/** Tests Cedar policies over HTTP, with real tokens, in both eras. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { BASE_HEADERS, openSession, parseAnswer, parseBatch, post, rpc } from '../../../support/gateway/post.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { type ReferenceServer, startReference } from '../../../support/servers/reference.ts'

const policies = [
  '@id("engineers") permit(principal in Group::"eng", action == Action::"call_tool", resource == Tool::"b_echo");',
  'permit(principal in Group::"org", action == Action::"call_tool", resource in Backend::"b") when { resource has readOnlyHint && resource.readOnlyHint };',
  'permit(principal, action, resource) when { principal has claim_dept && principal.claim_dept == "ops" };',
  'forbid(principal, action == Action::"call_tool", resource == Tool::"b_throw");',
  'permit(principal == Client::"vic", action == Action::"call_tool", resource == Tool::"b_slow");',
  'permit(principal in Group::"readers", action == Action::"read_resource", resource) when { resource.uri like "test://static-*" };',
  'permit(principal in Group::"readers", action == Action::"read_resource", resource == Resource::"test://template/1/data");',
  'permit(principal in Group::"prompters", action == Action::"get_prompt", resource == Prompt::"ref_test_simple_prompt");',
]
const entitiesJson = JSON.stringify([
  { uid: { type: 'Group', id: 'staff' }, attrs: {}, parents: [{ type: 'Group', id: 'org' }] },
])

let backend: McpTestServer
let reference: ReferenceServer
let guarded: GuardedGateway

test.before(async () => {
  backend = await startMcpServer({ name: 'b' })
  reference = await startReference()
  guarded = await GuardedGateway.start(
    [
      { name: 'b', url: backend.url },
      { name: 'ref', url: reference.url },
    ],
    { policies, entitiesJson, roleClaimName: 'realm_access.roles' },
  )
})

test.after(async () => {
  await guarded.close()
  await Promise.all([backend.close(), reference.close()])
})

const eng = { sub: 'eve', groups: ['eng'] }
const staff = { sub: 'sam', groups: ['staff'] }
const ops = { sub: 'olga', dept: 'ops' }
const nobody = { sub: 'nina' }
const readers = { sub: 'rita', groups: ['readers'] }
const prompters = { sub: 'paul', groups: ['prompters'] }

const echo = { name: 'b_echo', arguments: { message: 'hi' } }

for (const era of ['modern', 'legacy'] as const) {
  const ask: GuardedGateway['modern'] = (...args) => guarded[era](...args)
  const names = async (claims: object, list = 'tools', member = list, key = 'name') => {
    const { json } = await ask(claims as Record<string, unknown>, `${list}/list`)
    return (json.result[member] as Record<string, string>[]).map((item) => item[key] ?? '')
  }
  const expectDenied = async (claims: object, method: string, params: Record<string, unknown>) => {
    const { status, json } = await ask(claims as Record<string, unknown>, method, params)
    assert.is(status, 403, `${method} ${JSON.stringify(params)}: ${JSON.stringify(json)}`)
    return json.error
  }
  const expectAllowed = async (claims: object, method: string, params: Record<string, unknown>) => {
    const { status, json } = await ask(claims as Record<string, unknown>, method, params)
    assert.is(status, 200, JSON.stringify(json))
    assert.ok(json === undefined || json.result, JSON.stringify(json))
    return json?.result
  }

  test(`${era}: a tool by group, by nested group, by role, by claim, by subject`, async () => {
    await expectAllowed(eng, 'tools/call', echo)
    await expectAllowed(staff, 'tools/call', echo)
    await expectAllowed({ sub: 'r', realm_access: { roles: ['eng'] } }, 'tools/call', echo)
    await expectAllowed(ops, 'tools/call', echo)
    await expectAllowed({ sub: 'vic' }, 'tools/call', { name: 'b_slow', arguments: { ms: 1 } })
    await expectDenied(nobody, 'tools/call', echo)
    await expectDenied(eng, 'tools/call', { name: 'b_slow', arguments: { ms: 1 } })
    await expectDenied({ sub: 'x', groups: 'eng' }, 'tools/call', echo)
  })

  test(`${era}: forbid goes before permit`, async () => {
    await expectDenied(ops, 'tools/call', { name: 'b_throw', arguments: {} })
  })

  test(`${era}: denied and unknown names get the same answer and reach no backend`, async () => {
    const before = backend.calls('tools/call').length
    const missing = await expectDenied(eng, 'tools/call', { name: 'b_none', arguments: {} })
    assert.equal(missing, await expectDenied(eng, 'tools/call', { name: 'b_fail', arguments: {} }))
    assert.equal(missing, await expectDenied(eng, 'prompts/get', { name: 'ref_test_simple_prompt' }))
    assert.equal(missing, await expectDenied(eng, 'prompts/get', { name: 'none' }))
    assert.equal(missing, await expectDenied(eng, 'resources/read', { uri: 'test://static-text' }))
    assert.equal(missing, await expectDenied(eng, 'resources/read', { uri: 'test://none' }))
    // A caller who may do anything learns no more about missing items.
    assert.equal(missing, await expectDenied(ops, 'tools/call', { name: 'b_none', arguments: {} }))
    assert.is(missing.code, 403)
    assert.is(backend.calls('tools/call').length, before)
  })

  test(`${era}: lists have exactly the items that the caller may use`, async () => {
    assert.equal(await names(eng), ['b_echo'])
    assert.equal(await names(staff), ['b_echo'])
    assert.equal(await names(nobody), [])
    const all: string[] = await names(ops)
    assert.ok(all.includes('b_echo') && !all.includes('b_throw') && all.length > 10, all.join())
    assert.equal(await names(nobody, 'prompts'), [])
    assert.equal(await names(prompters, 'prompts'), ['ref_test_simple_prompt'])
    assert.equal(await names(readers, 'resources', 'resources', 'uri'), ['test://static-text', 'test://static-binary'])
    assert.equal(await names(nobody, 'resources'), [])
    assert.equal(await names(readers, 'resources/templates', 'resourceTemplates'), [])
    assert.is((await names(ops, 'resources/templates', 'resourceTemplates')).length, 1)
  })

  test(`${era}: prompts and resources, concrete ones of templates too`, async () => {
    await expectAllowed(prompters, 'prompts/get', { name: 'ref_test_simple_prompt' })
    await expectDenied(prompters, 'prompts/get', { name: 'ref_test_prompt_with_image' })
    await expectAllowed(readers, 'resources/read', { uri: 'test://static-text' })
    await expectDenied(readers, 'resources/read', { uri: 'test://watched-resource' })
    await expectAllowed(readers, 'resources/read', { uri: 'test://template/1/data' })
    await expectDenied(readers, 'resources/read', { uri: 'test://template/2/data' })
  })

  test(`${era}: completion needs access to the prompt or resource that it refers to`, async () => {
    const argument = { name: 'id', value: '1' }
    const prompt = (name: string) => ({ ref: { type: 'ref/prompt', name }, argument })
    const resource = (uri: string) => ({ ref: { type: 'ref/resource', uri }, argument })
    await expectDenied(nobody, 'completion/complete', prompt('ref_test_prompt_with_arguments'))
    await expectDenied(nobody, 'completion/complete', prompt('none'))
    await expectDenied(nobody, 'completion/complete', resource('test://template/{id}/data'))
    await expectDenied(nobody, 'completion/complete', { ref: { type: 'ref/resource' }, argument })
    const { status } = await ask(ops, 'completion/complete', prompt('ref_test_prompt_with_arguments'))
    assert.is(status, 200)
  })
}

test('a batch is judged message by message', async () => {
  const headers = await openSession(guarded.url, await guarded.bearer(eng), '2025-03-26')
  const call = (id: number, name: string) => rpc('tools/call', { name, arguments: { message: 'hi' } }, id)
  const answer = await post(guarded.url, `[${call(1, 'b_echo')},${call(2, 'b_fail')},${call(3, 'b_none')}]`, headers)
  const byId = new Map(parseBatch(answer).map((one) => [one.id, one]))
  assert.ok(byId.get(1)?.result)
  for (const id of [2, 3]) assert.is(byId.get(id)?.error.code, 403)
})

test('a session can subscribe only to resources that it may read', async () => {
  const headers = await openSession(guarded.url, await guarded.bearer(readers))
  const subscribe = (uri: string) => post(guarded.url, rpc('resources/subscribe', { uri }), headers)
  assert.is((await subscribe('test://static-text')).status, 200)
  assert.is((await subscribe('test://watched-resource')).status, 403)
})

test('a listening client gets notifications only of what it may read', async () => {
  const { body, headers } = {
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'subscriptions/listen',
      params: {
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
        notifications: { resourceSubscriptions: ['test://static-text', 'test://watched-resource', 'test://none'] },
      },
    }),
    headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
  }
  const leave = new AbortController()
  const response = await fetch(guarded.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...headers, ...(await guarded.bearer(readers)) },
    body,
    signal: leave.signal,
  })
  const reader = response.body?.getReader()
  const first = new TextDecoder().decode((await reader?.read())?.value)
  leave.abort()
  assert.match(first, 'test://static-text')
  assert.not.match(first, 'test://watched-resource')
  assert.not.match(first, 'test://none')
})

test('policies are replaced live, and broken ones leave the last good ones in force', async () => {
  await guarded.enforce({ policies: ['permit(principal in Group::"eng", action, resource == Tool::"b_fail");'] })
  assert.is((await guarded.modern(eng, 'tools/call', echo)).status, 403)
  assert.is((await guarded.modern(eng, 'tools/call', { name: 'b_fail', arguments: {} })).status, 200)
  await guarded.gateway.configure(brokenConfig())
  await eventually('the refusal', async () => (await guarded.gateway.status()).refused.length > 0)
  const { refused } = await guarded.gateway.status()
  assert.is(refused[0]?.pointer, '/authz/policies/0')
  assert.match(refused[0]?.message ?? '', /^line 2, column 1: /)
  assert.is((await guarded.modern(eng, 'tools/call', echo)).status, 403)
  await guarded.enforce({ policies, entitiesJson })
})

const brokenConfig = () => ({
  backends: [{ name: 'b', url: backend.url }],
  authz: { policies: ['permit(principal, action, resource)\nwhenever { true };'] },
})

test('without policies an unknown name gets an error of its own', async () => {
  await guarded.enforce(undefined)
  const { status, json } = await guarded.modern(nobody, 'tools/call', { name: 'b_none', arguments: {} })
  assert.is(status, 200)
  assert.is(json.error.code, -32602)
  await guarded.enforce({ policies, entitiesJson })
})

test('a server’s instructions go to those who may use something of it', async () => {
  const raw = await startRawServer({
    era: 'both',
    tools: [tool('t')],
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      if (request.message.method !== 'server/discover') return false
      const capabilities = '"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"'
      const result = `{"resultType":"complete","supportedVersions":["2026-07-28"],${capabilities},"instructions":"the vault"}`
      res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, result))
      return true
    },
  })
  const other = await GuardedGateway.start(
    [
      { name: 'secret', url: raw.url },
      { name: 'b', url: backend.url },
    ],
    { policies: ['permit(principal in Group::"eng", action, resource in Backend::"secret");'] },
  )
  try {
    const readVault = async (claims: Record<string, unknown>) => {
      const { json } = await other.modern(claims, 'server/discover')
      const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } }
      const opened = await post(other.url, rpc('initialize', params), await other.bearer(claims))
      return [json.result.instructions, opened.json.result.instructions]
    }
    assert.equal(await readVault(eng), ['the vault', 'the vault'])
    assert.equal(await readVault(nobody), [undefined, undefined])
  } finally {
    await other.close()
    await raw.close()
  }
})

test('without a token the page shows nothing of the backends', async () => {
  const answer = await parseAnswer(await fetch(guarded.gateway.base, { headers: { accept: 'application/json' } }))
  assert.not.match(answer.text, 'echo')
})

test.run()
