/** Tests scopes for single tools: the error for missing ones, how a client obtains them, and that they can't be bypassed. */
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, parseBatch, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { startAuthServer } from '../../../support/identity/auth-server.ts'
import { loginProvider } from '../../../support/identity/sdk-login.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { answer, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const AUDIENCE = 'https://gateway.example/mcp'
const scopeRules = [
  { name: 'writing', tools: ['b_write*'], scopes: ['write'] },
  { name: 'ending', tools: ['b_write_all', 'b_drop'], scopes: ['admin'] },
]
const scopeImplies = [
  { scope: 'owner', implies: ['admin'] },
  { scope: 'admin', implies: ['write'] },
]

let idp: IdentityProvider
let backend: RawServer
let config: TestConfig
const open: { close(): Promise<void> }[] = []

test.before(async () => {
  idp = await startIdentityProvider()
  backend = await startRawServer({
    era: 'both',
    tools: ['read', 'write', 'write_all', 'drop'].map((name) => tool(name)),
    call: (request) => answer(request, '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'),
  })
  config = {
    backends: [{ name: 'b', url: backend.url }],
    resourceUrl: AUDIENCE,
    incomingAuth: {
      type: 'oidc',
      oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true, scopes: ['use'] },
      scopeRules,
      scopeImplies,
    },
  }
})
test.after(async () => {
  for (const one of open.reverse()) await one.close()
  await backend.close()
  await idp.close()
})

async function start(more: Partial<TestConfig> = {}) {
  const gateway = await startGateway({ ...config, ...more })
  open.push(gateway)
  return gateway
}

const bearer = async (scope: unknown, more = {}) => ({
  authorization: `Bearer ${await idp.mint({ aud: AUDIENCE, sub: 'ann', scope, ...more })}`,
})
const call = (name: string) => ['tools/call', { name, arguments: {} }] as const
const eras = {
  modern: async (url: string, scope: unknown, name: string): Promise<RpcAnswer> =>
    postModern(url, ...call(name), await bearer(scope)),
  legacy: async (url: string, scope: unknown, name: string): Promise<RpcAnswer> =>
    post(url, rpc(...call(name)), await openSession(url, await bearer(scope))),
}

for (const [era, ask] of Object.entries(eras)) {
  test(`${era}: a tool without its scope is 403, and the challenge names present and missing scopes`, async () => {
    const { url } = await start()
    const before = backend.calls('tools/call').length
    const { status, headers, json } = await ask(url, 'use profile', 'b_write')
    assert.is(status, 403)
    assert.equal(json.error.data, { held: ['use', 'profile'], missing: ['write'] })
    const challenge = headers.get('www-authenticate') ?? ''
    assert.match(challenge, /^Bearer .*resource_metadata="[^"]+"/)
    assert.match(challenge, 'scope="use profile write", error="insufficient_scope"')
    assert.is(backend.calls('tools/call').length, before, 'the backend hears nothing')
    assert.is((await ask(url, 'use', 'b_read')).status, 200, 'other tools are untouched')
    assert.is((await ask(url, 'use write', 'b_write')).status, 200)
  })

  test(`${era}: scopes of all rules that match count, and a scope contains what it implies, at any depth`, async () => {
    const { url } = await start()
    assert.equal((await ask(url, 'use write', 'b_write_all')).json.error.data.missing, ['admin'])
    for (const scope of ['use admin', 'use owner']) {
      assert.is((await ask(url, scope, 'b_write_all')).status, 200, scope)
      assert.is((await ask(url, scope, 'b_write')).status, 200, scope)
    }
    assert.is(
      (await ask(url, 'use write', 'b_drop')).status,
      403,
      'an implied scope does not imply the scope that implies it',
    )
  })

  test(`${era}: an unknown name is unknown, even where a rule’s pattern takes it`, async () => {
    const { url } = await start()
    const [none, other] = [await ask(url, 'use', 'b_write_none'), await ask(url, 'use', 'b_none')]
    assert.equal(none.json.error, other.json.error)
    assert.is(none.status, 200)
  })
}

test('if policies deny a tool, its scopes are not shown', async () => {
  const { url } = await start({ authz: { policies: ['permit(principal, action, resource == Tool::"b_read");'] } })
  const { status, json, headers } = await eras.modern(url, 'use', 'b_write')
  assert.is(status, 403)
  assert.is(json.error.data, undefined)
  assert.is(headers.get('www-authenticate'), null)
})

test('scopes of another type than text do not count', async () => {
  const { url } = await start({
    incomingAuth: { ...config.incomingAuth, oidc: { ...unwrap(config.incomingAuth?.oidc), scopes: [] } },
  } as Partial<TestConfig>)
  for (const scope of [{ write: true }, 7, null, undefined, [['write']], { toString: 'write' }])
    assert.is((await eras.modern(url, scope, 'b_write')).status, 403, JSON.stringify(scope))
  assert.is((await eras.modern(url, ['write'], 'b_write')).status, 200, 'a list of texts is read')
})

test('in a batch only the call that lacks its scope is refused', async () => {
  const { url } = await start()
  const headers = await openSession(url, await bearer('use'), '2025-03-26')
  const body = `[${rpc(...call('b_read'), 1)},${rpc(...call('b_write'), 2)}]`
  const answers = parseBatch(await post(url, body, headers))
  assert.ok(answers.find(({ id }) => id === 1)?.result)
  assert.equal(answers.find(({ id }) => id === 2)?.error.data.missing, ['write'])
})

test('scopes hold for tool search and composite tools, and a composite tool needs those of all its steps', async () => {
  const searching = await start({ optimizer: {} })
  const params = { name: 'call_tool', arguments: { name: 'b_write', arguments: {} } }
  const before = backend.calls('tools/call').length
  const inner = await postModern(searching.url, 'tools/call', params, await bearer('use'))
  assert.match(inner.text, 'lacks the scope write')
  const steps = (...tools: string[]) =>
    tools.map((name, index) => ({ id: `s${index}`, type: 'tool', tool: `b.${name}` }))
  const composing = await start({
    compositeTools: [
      { name: 'both', steps: steps('read', 'write') },
      { name: 'reading', steps: steps('read') },
    ] as unknown as NonNullable<TestConfig['compositeTools']>,
  })
  const both = await eras.modern(composing.url, 'use', 'both')
  assert.is(both.status, 403)
  assert.equal(both.json.error.data.missing, ['write'])
  assert.is(backend.calls('tools/call').length, before, 'no step has run')
  assert.is((await eras.modern(composing.url, 'use', 'reading')).status, 200)
  assert.is((await eras.modern(composing.url, 'use write', 'both')).status, 200)
})

test('a reload of rules also takes effect for callers whose tokens are cached', async () => {
  const gateway = await start()
  const headers = await bearer('use')
  const ask = () => postModern(gateway.url, ...call('b_write'), headers)
  assert.is((await ask()).status, 403)
  const { oidc } = unwrap(config.incomingAuth)
  await gateway.configure({ ...config, incomingAuth: { type: 'oidc', ...(oidc && { oidc }) } })
  for (let tries = 0; tries < 100 && (await ask()).status !== 200; tries++)
    await new Promise((go) => setTimeout(go, 50))
  assert.is((await ask()).status, 200)
})

test('an SDK client logs in again for the missing scope, keeps the others, and its call succeeds', async () => {
  const server = await startAuthServer({ gateway: { backends: unwrap(config.backends) } })
  try {
    const { incomingAuth } = server.config()
    await server.gateway.configure(
      server.config({ scopes: undefined } as never, {
        backends: unwrap(config.backends),
        incomingAuth: { ...unwrap(incomingAuth), scopeRules },
      }),
    )
    const provider = loginProvider()
    const connect = () => new StreamableHTTPClientTransport(new URL(server.gateway.url), { authProvider: provider })
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
    const first = connect()
    await client.connect(first).then(
      () => assert.unreachable(),
      (error) => assert.instance(error, UnauthorizedError),
    )
    await first.finishAuth(unwrap(provider.stored.answer))
    const scopes = () => String(decodeJwt(unwrap(provider.stored.tokens).access_token)['scope']).split(' ')
    assert.not.ok(scopes().includes('write'), 'the first login gives no scope of a single tool')
    const transport = connect()
    await client.connect(transport)
    assert.is(readText(await client.callTool({ name: 'b_read', arguments: {} })), 'ok')
    await client.callTool({ name: 'b_write', arguments: {} }).then(
      () => assert.unreachable(),
      (error) =>
        assert.instance(error, UnauthorizedError, `${error?.constructor?.name} ${error} ${JSON.stringify(error)}`),
    )
    await transport.finishAuth(unwrap(provider.stored.answer))
    assert.ok(scopes().includes('write') && scopes().includes('tools:call'), scopes().join())
    assert.is(readText(await client.callTool({ name: 'b_write', arguments: {} })), 'ok')
    await client.close()
  } finally {
    await server.close()
  }
})

test('POST /explain returns the needed, present and missing scopes, with policies and without', async () => {
  const ask = async (more: Partial<TestConfig>, question: object) => {
    const gateway = await start(more)
    const response = await fetch(`${gateway.adminUrl}/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(question),
    })
    return (await response.json()) as Record<string, unknown>
  }
  const question = { caller: { sub: 'ann', scope: 'use' }, tool: 'b_write' }
  const lacking = await ask({}, question)
  assert.is(lacking['allowed'], false)
  assert.is(lacking['reason'], 'the token lacks the scope write')
  assert.equal(lacking['scopes'], { needed: ['write'], held: ['use'], missing: ['write'] })
  const policies = ['permit(principal, action, resource);']
  const explanation = await ask({ authz: { policies } }, { ...question, caller: { sub: 'ann', scope: 'admin' } })
  assert.is(explanation['allowed'], true)
  assert.equal(explanation['scopes'], { needed: ['write'], held: ['admin', 'write'], missing: [] })
})

test('rules that can never hold are refused with their place', () => {
  const { oidc } = unwrap(config.incomingAuth)
  const findings = (incomingAuth: object) =>
    checkGateway({ ...config, name: 'a', namespace: 'a', role: 'gateway', incomingAuth } as GatewayConfig).map(
      ({ pointer, message }) => `${pointer} ${message}`,
    )
  const rule = { name: 'a', tools: ['b_[w', 'b_*'], scopes: ['x'] }
  assert.equal(findings({ type: 'oidc', oidc, scopeRules: [rule] }), [
    '/incomingAuth/scopeRules/0/tools/0 has a [ without its ]',
  ])
  assert.match(findings({ type: 'anonymous', scopeRules })[0] ?? '', 'callers without a token have no scopes')
  assert.match(findings({ type: 'oidc', oidc, scopeImplies })[0] ?? '', 'has no effect without scopeRules')
  assert.match(
    findings({ type: 'oidc', oidc, scopeRules: [scopeRules[0], scopeRules[0]] })[0] ?? '',
    '/scopeRules/1/name',
  )
})

test.run()
