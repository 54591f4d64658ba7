/**
 * Tests users' API keys: a link asks for the key, its owner enters it once, the backend gets it, and nobody sees it
 * again.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { UrlElicitationRequiredError } from '@modelcontextprotocol/sdk/types.js'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type KeyRefused, UserKeys } from '../../../../dataplane/authserver/account/user-keys.ts'
import { readGateway } from '../../../../dataplane/config/read/gateway.ts'
import { createMemoryTokenStore } from '../../../../dataplane/upstream-tokens/index.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { connectV1, readText } from '../../../support/gateway/clients.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { deleteKey, enterKey, keyLinkIn, openKey } from '../../../support/identity/key-entry.ts'
import { usePatience } from '../../../support/patience.ts'
import { answer, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'
import { unwrap } from '../../../support/unwrap.ts'

const OK = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'
const GOOD = secret<string>('jira-0123456789-abcdefghij-good')
const OTHER = secret<string>('jira-0123456789-abcdefghij-other')

let raw: RawServer
/** The key that the backend answers with 401. */
let refusedKey: string | undefined
/** The number of such answers. */
let refusals = 0
/** A promise that calls of tools wait for before they are answered. */
let holding: Promise<unknown> | undefined
let verifying: { url: string; requests: { method?: string; headers: IncomingHttpHeaders }[]; close(): void }
let server: AuthServerUnderTest
let client: TestClient
let token: string

const keyConfig = (more: object = {}) => ({
  title: 'Jira',
  helpUrl: 'https://jira.example.com/keys',
  pattern: 'jira-[0-9a-z-]+',
  maxLength: 100,
  headerName: 'X-Api-Key',
  valueTemplate: 'Token {key};v=1',
  ...more,
})
const config = (more: object = {}) => {
  const base = server.config()
  return server.config({
    upstreamProviders: [
      ...unwrap(base.authServer).upstreamProviders,
      { name: 'jira', type: 'key', keyConfig: keyConfig(more) },
    ],
  } as never)
}
async function configure(more: object = {}) {
  const { config: before } = await server.gateway.status()
  await server.gateway.configure(config(more))
  await eventually('the configuration', async () => (await server.gateway.status()).config !== before)
}

test.before(async () => {
  raw = await startRawServer({
    era: 'both',
    call: (request) => answer(request, OK),
    async before({ headers, message }, response) {
      if (message.method === 'tools/call') await holding
      if (refusedKey === undefined || !String(headers['x-api-key']).includes(refusedKey)) return false
      refusals++
      response.writeHead(401).end()
      return true
    },
  })
  const requests: (typeof verifying)['requests'] = []
  const http = createServer(({ method, headers, url }, response) => {
    requests.push({ ...(method && { method }), headers })
    if (url === '/elsewhere') response.writeHead(200).end()
    else if (url === '/moved') response.writeHead(302, { location: '/elsewhere' }).end()
    else response.writeHead(String(headers['x-api-key']).includes('good') ? 200 : 403).end('x'.repeat(100_000))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  verifying = { url, requests, close: () => http.close() }
  server = await startAuthServer({
    gateway: {
      backends: [buildInjectingBackend('tickets', raw.url, 'corp'), { name: 'open', url: raw.url }],
    },
  })
  const gateway = {
    backends: [buildInjectingBackend('tickets', raw.url, 'jira'), { name: 'open', url: raw.url }].flat(),
  }
  const { config: plain } = server
  server = { ...server, config: (more, other) => plain(more, { ...gateway, ...other } as never) }
  await configure()
  client = await TestClient.register(server.issuer)
})
test.before.each(async () => {
  refusedKey = undefined
  holding = undefined
  server.upstream.user = 'alice'
  client.agent.forget(new URL(server.upstream.issuer).host)
  token = (await client.login()).access_token
  raw.seen.length = 0
  verifying.requests.length = 0
})
test.after(async () => {
  verifying.close()
  await server.close()
  await raw.close()
})

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } },
}
const authorization = () => ({ authorization: `Bearer ${token}` })
const call = (more: object = {}): Promise<RpcAnswer> =>
  postModern(server.gateway.url, 'tools/call', { name: 'tickets_t', arguments: {}, ...more }, authorization())
const sentKeys = () => raw.calls('tools/call').map(({ headers }) => headers['x-api-key'])

const forget = () => deleteKey(client.agent, server.issuer)

test('the first call gets a link in the form of its era; after the key is entered it succeeds with the templated header', async () => {
  const prompted = await call({ _meta: META })
  assert.is(prompted.json.result.resultType, 'input_required')
  const inSession = await openSession(server.gateway.url, authorization())
  const plain = await post(server.gateway.url, rpc('tools/call', { name: 'tickets_t', arguments: {} }), inSession)
  assert.is(plain.json.result.isError, true)
  assert.match(plain.json.result.content[0].text, 'You have to enter your key for Jira first')
  const declared = await post(
    server.gateway.url,
    rpc('initialize', {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: { url: {} } },
      clientInfo: { name: 'raw', version: '1' },
    }),
    authorization(),
  )
  const session = {
    'mcp-session-id': unwrap(declared.headers.get('mcp-session-id')),
    'mcp-protocol-version': '2025-11-25',
  }
  const required = await post(server.gateway.url, rpc('tools/call', { name: 'tickets_t', arguments: {} }), {
    ...authorization(),
    ...session,
  })
  assert.is(required.json.error.code, -32042)
  const url = keyLinkIn(prompted.json)
  assert.is(keyLinkIn(required.json), url)
  assert.is(keyLinkIn(plain.json), url)
  assert.is(raw.calls('tools/call').length, 0, 'no shared credential goes in its place')

  const page = await enterKey(client.agent, url, `  ${GOOD}\n`)
  assert.is(page.status, 200)
  assert.match(page.text, 'The key is kept')
  assert.match(page.text, `…${GOOD.slice(-4)}`)
  assert.not.match(page.text, GOOD)
  await eventually('the call', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
  assert.is(sentKeys().at(-1), `Token ${GOOD};v=1`)
  assert.is(raw.calls('tools/call').at(-1)?.headers.authorization, undefined)
})

test('the gateway’s page and its explanations say that tools need a key, and where to enter it', async () => {
  const link = `${server.issuer}/oauth/key?provider=jira`
  const page = await (await fetch(server.gateway.base, { headers: { accept: 'text/html' } })).text()
  assert.match(page, `<bdi>Jira</bdi>: <a href="${link}" aria-label="enter yours for Jira">`)
  assert.match(page, '<a href="https://jira.example.com/keys"')
  assert.match(page, `<a href="${server.issuer}/oauth/sessions">`)
  assert.not.match(page, /tickets|open_/)
  const program = await fetch(server.gateway.base, { headers: { accept: 'application/json' } })
  assert.equal(((await program.json()) as { needs: object }).needs, {
    scopes: [],
    accounts: [],
    keys: [{ title: 'Jira', link, helpUrl: 'https://jira.example.com/keys' }],
    linked: `${server.issuer}/oauth/sessions`,
  })
  // The link works in a browser.
  assert.ok((await openKey(client.agent, link)).form)
  const explainTool = async (tool: string) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ tool }) }
    const { needs } = (await (await fetch(`${server.gateway.adminUrl}/explain`, init)).json()) as { needs: object[] }
    return needs
  }
  const login = { kind: 'login', scopes: ['tools:call'], links: [server.issuer] }
  const key = { kind: 'key', backend: 'tickets', provider: 'jira', title: 'Jira', links: [link] }
  assert.equal(await explainTool('tickets_t'), [login, { ...key, helpUrl: 'https://jira.example.com/keys' }])
  assert.equal(await explainTool('open_t'), [login])
})

test('SDK 1 and SDK 2 get from a missing key to a successful call, each in its own form', async () => {
  const headers = authorization()
  const url = new URL(server.gateway.url)
  const clientInfo = { name: 'test', version: '1' }
  const urls = { capabilities: { elicitation: { url: {} } } }
  const args = { name: 'tickets_t', arguments: {} }
  const failure = async (pending: Promise<unknown>): Promise<{ code?: number; data?: unknown }> => {
    const value = await pending.then(
      () => undefined,
      (error: unknown) => error,
    )
    return unwrap(value as { code?: number; data?: unknown } | undefined)
  }
  const walk = async (
    name: string,
    ask: () => Promise<unknown>,
    link: (outcome: Promise<unknown>) => Promise<string>,
  ) => {
    await forget()
    await eventually('no key', async () => (await call()).json.result.isError === true)
    const sent = raw.calls('tools/call').length
    const page = await enterKey(client.agent, await link(ask()), GOOD)
    assert.match(page.text, 'The key is kept', name)
    assert.is(raw.calls('tools/call').length, sent, name)
    assert.is(readText(await ask()), 'ok', name)
    assert.is(sentKeys().at(-1), `Token ${GOOD};v=1`)
  }

  const { client: plain } = await connectV1(url.href, { headers })
  await walk(
    'SDK 1, text',
    () => plain.callTool(args),
    async (outcome) => {
      const result = await outcome
      assert.is((result as { isError?: boolean }).isError, true)
      return keyLinkIn(readText(result))
    },
  )
  await plain.close()

  const one = new ClientV1(clientInfo, urls)
  await one.connect(new TransportV1(url, { requestInit: { headers } }) as unknown as Transport)
  await walk(
    'SDK 1, error',
    () => one.callTool(args),
    async (outcome) => {
      const error = await failure(outcome)
      assert.instance(error, UrlElicitationRequiredError)
      assert.is(error.code, -32042)
      return keyLinkIn(error.data)
    },
  )
  await one.close()

  const session = new Client(clientInfo, { versionNegotiation: { mode: 'legacy' }, ...urls })
  await session.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
  await walk(
    'SDK 2, session',
    () => session.callTool(args),
    async (outcome) => keyLinkIn((await failure(outcome)).data),
  )
  await session.close()

  const modern = new Client(clientInfo, { versionNegotiation: { mode: { pin: '2026-07-28' } }, ...urls })
  await modern.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
  let visited = 0
  modern.setRequestHandler('elicitation/create', async ({ params }) => {
    visited++
    assert.match((await enterKey(client.agent, keyLinkIn(params), GOOD)).text, 'The key is kept')
    return { action: 'accept' }
  })
  await forget()
  await eventually('no key', async () => (await call()).json.result.isError === true)
  assert.is(readText(await modern.callTool(args)), 'ok')
  assert.is(visited, 1)
  await modern.close()
})

test('another client and a later login of the same person need no link', async () => {
  const second = await TestClient.register(server.issuer)
  token = (await second.login()).access_token
  assert.is((await call()).json.result.content[0].text, 'ok')
})

test('another person who follows the link is refused, and nothing is kept', async () => {
  await forget()
  await eventually('no key', async () => (await call()).json.result.isError === true)
  const url = keyLinkIn((await call()).json)
  const mallory = await TestClient.register(server.issuer)
  server.upstream.user = 'mallory'
  const page = await openKey(mallory.agent, url)
  assert.is(page.status, 400)
  assert.match(page.text, 'belongs to another person')
  assert.is(page.form, undefined)
  // A form of one's own page can't store a key for another user.
  const own = await openKey(mallory.agent, `${server.issuer}/oauth/key?provider=jira`)
  assert.ok(own.form)
  server.upstream.user = 'alice'
  assert.is((await call()).json.result.isError, true)
})

test('a missing, foreign or used form token stores no key', async () => {
  const url = keyLinkIn((await call()).json)
  const { form } = await openKey(client.agent, url)
  const { action, fields } = unwrap(form)
  const { token: formToken = '' } = fields
  const mallory = await TestClient.register(server.issuer)
  server.upstream.user = 'mallory'
  const foreign = unwrap((await openKey(mallory.agent, `${server.issuer}/oauth/key?provider=jira`)).form).fields[
    'token'
  ]
  server.upstream.user = 'alice'
  const attempts = [{}, { token: '' }, { token: foreign }, { token: `${formToken.slice(0, 43)}.${'a'.repeat(43)}` }]
  for (const attempt of attempts) {
    const sent = await client.agent.post(action, { provider: 'jira', key: OTHER, ...attempt } as never)
    assert.is(sent.status, 400, JSON.stringify(attempt))
  }
  // Nor does a valid token without the session's cookie.
  const stranger = new TestClient(server.issuer)
  assert.is((await stranger.agent.post(action, { ...fields, key: OTHER })).status, 400)
  assert.is((await call()).json.result.isError, true)
  assert.is((await client.agent.post(action, { ...fields, key: GOOD })).status, 303)
  const again = await client.agent.post(action, { ...fields, key: OTHER })
  assert.is(again.status, 400, 'the form is good once')
  await eventually('the key', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
  assert.match(String(sentKeys().at(-1)), GOOD)
})

test('a key with a wrong pattern is refused with the reason, and the earlier one stays', async () => {
  const url = `${server.issuer}/oauth/key?provider=jira`
  const wrong: readonly [string, RegExp][] = [
    ['jira-a\r\nx-evil: 1', /on one line/],
    [`jira-${'a'.repeat(5000)}`, /at most 100 characters/],
    ['github-abc', /does not look like such a key/],
    ['jira-é', /letters, digits and signs/],
    ['   ', /No key was entered/],
  ]
  for (const [key, text] of wrong) {
    const page = await enterKey(client.agent, url, key)
    assert.is(page.status, 400)
    assert.match(page.text, text)
    assert.match(page.text, /role="alert"/)
    if (key.trim() !== '') assert.not.ok(page.text.includes(key.trim().slice(0, 40)), 'the page does not repeat it')
  }
  assert.is((await call()).json.result.content[0].text, 'ok')
  assert.match(String(sentKeys().at(-1)), GOOD)
})

test('a key that the server refuses on trial, or that can’t be tried, is not stored', async () => {
  await forget()
  await configure({ verify: { url: `${verifying.url}/me` } })
  const page = await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, OTHER)
  assert.is(page.status, 400)
  assert.match(page.text, 'Jira refuses this key (status 403)')
  assert.is(verifying.requests.at(-1)?.headers['x-api-key'], `Token ${OTHER};v=1`)
  await configure({ verify: { url: `${verifying.url}/moved` } })
  assert.match((await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, GOOD)).text, 'status 302')
  for (const url of ['https://10.0.0.1/me', 'https://169.254.169.254/latest']) {
    await configure({ verify: { url, timeout: '1s' } })
    assert.match(
      (await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, GOOD)).text,
      'could not be asked',
    )
  }
  await configure({ verify: { url: `${verifying.url}/me`, method: 'HEAD', expectStatus: [200, 204] } })
  assert.match((await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, GOOD)).text, 'The key is kept')
  assert.is(verifying.requests.at(-1)?.method, 'HEAD')
  await configure()
})

test('if the backend refuses a key, the user is asked again after one request, and no other credential is sent', async () => {
  await eventually('the key', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
  refusals = 0
  refusedKey = GOOD
  const refused = await call()
  assert.match(JSON.stringify(refused.json), 'refused your key for Jira')
  keyLinkIn(refused.json)
  assert.is(refusals, 1)
  const again = await call()
  keyLinkIn(again.json)
  assert.is(refusals, 1, 'it is never sent again')
  const page = await client.agent.get(`${server.issuer}/oauth/sessions`)
  assert.match(await page.text(), 'The server has refused this key')
  const replaced = await enterKey(client.agent, keyLinkIn(again.json), OTHER)
  assert.match(replaced.text, 'The key is kept')
  await eventually('the new key', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
  assert.match(String(sentKeys().at(-1)), OTHER)
})

test('the refusal of an old key does not affect the key that replaced it', async () => {
  const url = `${server.issuer}/oauth/key?provider=jira`
  await enterKey(client.agent, url, GOOD)
  await eventually('the key', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
  /** Runs an action while a call is pending, whose key the backend then refuses; returns the call's answer. */
  const duringCall = async (act: () => Promise<unknown>) => {
    const released = Promise.withResolvers<void>()
    const before = raw.calls('tools/call').length
    holding = released.promise
    const pending = call()
    await eventually('the call', () => raw.calls('tools/call').length > before)
    await act()
    refusedKey = GOOD
    holding = undefined
    released.resolve()
    const { json } = await pending
    refusedKey = undefined
    return json
  }
  // The new key is not marked as refused, and the pending call is sent with it.
  const replaced = await duringCall(() => enterKey(client.agent, url, OTHER))
  assert.is(replaced.result?.content?.[0]?.text, 'ok', JSON.stringify(replaced))
  assert.match(String(sentKeys().at(-1)), OTHER)
  assert.not.match(await (await client.agent.get(`${server.issuer}/oauth/sessions`)).text(), 'has refused this key')
  await enterKey(client.agent, url, GOOD)
  await eventually('the first one', async () => (await call()) && String(sentKeys().at(-1)).includes(GOOD))
  // A deleted key does not come back as a refused one.
  keyLinkIn(await duringCall(forget))
  assert.not.match(await (await client.agent.get(`${server.issuer}/oauth/sessions`)).text(), 'name="delete-key"')
})

test('every character of a key reaches the backend as typed, wherever the template has the key', async () => {
  const odd = secret<string>(`$& $1 $\` {key} %s\\ "'<&>;=,~ 0123456789`)
  await configure({ pattern: undefined, valueTemplate: 'user={key}; pass="{key}"' })
  const page = await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, ` ${odd}\t`)
  assert.match(page.text, 'The key is kept')
  await eventually('the call', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
  assert.is(sentKeys().at(-1), `user=${odd}; pass="${odd}"`)
  // Another template applies to the stored key.
  await configure({ pattern: undefined, headerName: 'Authorization', valueTemplate: 'Basic {key}' })
  await eventually('the call', async () => {
    await call()
    return raw.calls('tools/call').at(-1)?.headers.authorization === `Basic ${odd}`
  })
  await configure()
  await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, GOOD)
  await eventually('the call', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
})

test('a deleted key is no longer used; a key with a lifetime expires, and the page says so before', async () => {
  assert.match((await forget()) ?? '', 'done=')
  await eventually('no key', async () => (await call()).json.result.isError === true)
  await configure({ maxLifetime: '3s', remindBefore: '1h' })
  const page = await enterKey(client.agent, keyLinkIn((await call()).json), GOOD)
  assert.match(page.text, 'This key ends soon')
  // A call that was sent before the key's end is answered even after it.
  const released = Promise.withResolvers<void>()
  holding = released.promise
  const pending = call()
  await eventually('the call', () => sentKeys().includes(`Token ${GOOD};v=1`))
  await eventually('its end is seen', async () => {
    const { status } = await openKey(client.agent, `${server.issuer}/oauth/key?provider=jira`)
    assert.is(status, 200)
    return !(await (await client.agent.get(`${server.issuer}/oauth/sessions`)).text()).includes('name="delete-key"')
  })
  released.resolve()
  assert.is((await pending).json.result?.content?.[0]?.text, 'ok')
  const sent = sentKeys().length
  keyLinkIn((await call()).json)
  assert.is(sentKeys().length, sent)
  await configure()
})

test('the end of a login keeps the key, and a short key shows none of its characters', async () => {
  await enterKey(client.agent, `${server.issuer}/oauth/key?provider=jira`, 'jira-short')
  const page = await (await client.agent.get(`${server.issuer}/oauth/sessions`)).text()
  assert.not.match(page, 'short')
  assert.not.match(page, '<code>…')
  const tokens = await client.login()
  await client.post('revoke', { token: tokens.refresh_token, client_id: client.id })
  token = (await client.login()).access_token
  await eventually('the key', async () => (await call()).json.result?.content?.[0]?.text === 'ok')
})

test('a key belongs to a user of one issuer, not to the same name at another', async () => {
  const tokens = createMemoryTokenStore()
  const [ours, theirs] = [server.issuer, 'https://other.example'].map(
    (issuer) =>
      new UserKeys({
        settings: { issuer, keyEndpoint: `${issuer}/oauth/key` },
        providers: [{ name: 'jira', type: 'key', keyConfig: { ...keyConfig(), remindBefore: '168h' } } as never],
        tokens,
        keyed: undefined as never,
      }),
  ) as [UserKeys, UserKeys]
  assert.is(await ours.set('ada', 'jira', GOOD), 'set')
  assert.is(await theirs.header('ada', 'jira'), undefined)
  assert.is((await theirs.show('ada', 'jira'))?.kept, undefined)
  assert.is(await theirs.remove('ada', 'jira'), false)
  assert.is(await theirs.set('ada', 'jira', OTHER), 'set')
  assert.equal(await ours.header('ada', 'jira'), {
    name: 'x-api-key',
    value: `Token ${GOOD};v=1`,
    expiresAt: undefined,
  })
})

test('below a path of the issuer, links, pages and forms are below it; a deleted key ends within five seconds', async () => {
  const below = await startAuthServer({
    path: '/tenants/a',
    change(config) {
      const { authServer, backends } = config as { authServer: { upstreamProviders: object[] }; backends: object[] }
      authServer.upstreamProviders.push({ name: 'jira', type: 'key', keyConfig: keyConfig() })
      backends.push(buildInjectingBackend('tickets', raw.url, 'jira'))
    },
  })
  try {
    const caller = await TestClient.register(below.issuer)
    const headers = { authorization: `Bearer ${(await caller.login()).access_token}` }
    const calling = () => postModern(below.gateway.url, 'tools/call', { name: 'tickets_t', arguments: {} }, headers)
    const url = keyLinkIn((await calling()).json)
    assert.ok(url.startsWith(`${below.issuer}/oauth/key?`), url)
    const { form } = await openKey(caller.agent, url)
    assert.is(unwrap(form).action, `${below.issuer}/oauth/key`)
    assert.match((await enterKey(caller.agent, url, GOOD)).text, 'The key is kept')
    await eventually('the call', async () => (await calling()).json.result?.content?.[0]?.text === 'ok')
    const where = caller.agent.visited.filter((at) => at.startsWith(new URL(below.issuer).origin))
    for (const at of where) assert.ok(at.startsWith(below.issuer), at)
    // A deleted key is used for at most five more seconds.
    using clock = stoppedClock()
    assert.is((await calling()).json.result.content[0].text, 'ok')
    const left = await deleteKey(caller.agent, below.issuer)
    assert.ok(left?.startsWith('sessions') || left?.startsWith(`${below.issuer}/oauth/sessions`), String(left))
    clock.pass(5_000)
    assert.is((await calling()).json.result.isError, true)
  } finally {
    await below.close()
  }
})

test('a key that takes long to match delays no other request', async () => {
  using _ = usePatience()
  const keys = new UserKeys({
    settings: { issuer: server.issuer, keyEndpoint: '' },
    providers: [
      { name: 'jira', type: 'key', keyConfig: { ...keyConfig({ maxLength: 4096 }), pattern: SLOW } } as never,
    ],
    tokens: createMemoryTokenStore(),
    keyed: undefined as never,
  })
  const long = 'a'.repeat(1_500)
  let turns = 0
  const ticking = setInterval(() => turns++).unref()
  const set = keys.set('ada', 'jira', `${long}!`)
  const other = keys.set('bob', 'jira', `${long}!`)
  await assertRefused(other, /can’t be checked now/)
  await assertRefused(set, /does not look like/)
  clearInterval(ticking)
  assert.ok(turns > 0)
  assert.is(await keys.set('ada', 'jira', long), 'set')
})

const SLOW = '(\\pL{0,500})'.repeat(4)
async function assertRefused(pending: Promise<unknown>, text: RegExp): Promise<void> {
  const refused = await pending.then(
    () => undefined,
    (error: unknown) => error,
  )
  assert.match((refused as KeyRefused).text, text)
}

test('mistakes in the configuration are refused with their place', async () => {
  const findings = async (more: object, provider: object = {}) => {
    const { checkGateway } = await import('../../../../dataplane/config/check/gateway.ts')
    const whole = config(more) as unknown as Parameters<typeof checkGateway>[0]
    const authServer = unwrap(whole.authServer)
    const upstreamProviders = authServer.upstreamProviders.map((one) =>
      one.type === 'key' ? { ...one, ...provider } : one,
    )
    return checkGateway({
      ...whole,
      name: 'a',
      namespace: 'a',
      authServer: { ...authServer, upstreamProviders } as never,
    })
      .map(({ pointer, message }) => `${pointer} ${message}`)
      .join('\n')
  }
  assert.match(await findings({ headerName: 'Host' }), '/keyConfig/headerName is a header that the gateway sets')
  for (const valueTemplate of ['Bearer {key}\n', 'Bearer\r\nX-Evil: {key}', '{key}é', 'Bearer', '{Key}', 7]) {
    const { namespace = 'a', name = 'a', ...whole } = config({ valueTemplate })
    const text = JSON.stringify({ role: 'gateway', namespace, name, ...whole })
    const refused = await readGateway(text).then(String, String)
    assert.match(refused, 'keyConfig/valueTemplate', JSON.stringify(valueTemplate))
  }
  assert.match(await findings({ headerName: 'Mcp-Session-Id' }), '/keyConfig/headerName')
  assert.match(await findings({ pattern: '(a+' }), '/keyConfig/pattern')
  assert.match(await findings({ pattern: '(?=a)a' }), '/keyConfig/pattern')
  // Patterns that JavaScript accepts and RE2 does not, and the reverse.
  for (const pattern of ['a{1001}', '(a{50}){50}', '\\u0041', '[^]', '\\cA'])
    assert.match(await findings({ pattern }), '/keyConfig/pattern is not a regular expression of RE2: ', pattern)
  for (const pattern of ['(?i)jira', '(?P<kind>a)b', '[[:alpha:]]+']) assert.is(await findings({ pattern }), '')
  assert.match(await findings({ pattern: '(\\pL{0,999})'.repeat(18) }), '/keyConfig/pattern is too large')
  assert.match(await findings({ verify: { url: 'http://example.com/' } }), 'must be https')
  assert.match(await findings({ maxLifetime: '9000h' }), 'at most 8760h')
  assert.match(await findings({}, { loginPolicy: 'required' }), '/loginPolicy must be onDemand')
})

test.run()
