/** Tests a provider on demand: no login visits it; a call that needs it returns a link and succeeds afterwards. */

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { readQuestion } from '../../../support/gateway/rpc-message.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { follow, linkIn, openLink } from '../../../support/identity/linking.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let server: AuthServerUnderTest
/** Shows its tools to everybody. */
let raw: RawServer
/** Shows its tools only with a credential. */
let closed: RawServer
let client: TestClient
let token: string

test.before(async () => {
  const call = (request: Parameters<typeof answer>[0]) =>
    answer(request, OK_RESULT.replace('{', '{"resultType":"complete",'))
  raw = await startRawServer({ era: 'both', call })
  closed = await startRawServer({
    era: 'modern',
    call,
    before: ({ headers }, res) => {
      if (headers.authorization !== undefined) return false
      res.writeHead(401).end()
      return true
    },
  })
  server = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    gateway: {
      backends: [
        buildInjectingBackend('hub', raw.url),
        buildInjectingBackend('vault', closed.url),
        buildInjectingBackend('own', raw.url, 'corp'),
        { name: 'open', url: raw.url },
      ],
    },
  })
  client = await TestClient.register(server.issuer)
})
test.before.each(async () => {
  token = (await client.login()).access_token
  raw.seen.length = 0
})
test.after(async () => {
  await server.close()
  await raw.close()
  await closed.close()
})

const github = () => server.upstreams[1] as LoginProvider
const authorization = () => ({ authorization: `Bearer ${token}` })
const withUrls = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } } }
const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', ...withUrls }
const call = (name = 'hub_t', more: Record<string, unknown> = {}) =>
  postModern(server.gateway.url, 'tools/call', { name, ...more }, authorization())
const tools = async () =>
  (await postModern(server.gateway.url, 'tools/list', {}, authorization())).json.result.tools.map(({ name }) => name)

/** Calls in a session whose client declares these capabilities. */
async function callInSession(capabilities: object, more: object = {}, protocolVersion = '2025-11-25') {
  const params = { protocolVersion, capabilities, clientInfo: { name: 'raw', version: '1' } }
  const { headers } = await post(server.gateway.url, rpc('initialize', params, 0), authorization())
  const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '', 'mcp-protocol-version': protocolVersion }
  return post(server.gateway.url, rpc('tools/call', { name: 'hub_t', ...more }), { ...authorization(), ...session })
}

test('a login does not visit an on-demand provider, and consent does not mention it', async () => {
  assert.not.ok(github().requests.some((request) => request.includes('/auth')))
  const host = new URL(github().issuer).host
  for (const page of client.agent.questions) assert.not.match(page, host)
  assert.ok((await call('own_t')).json.result.content)
})

test('a call gets the login link as text if the client supports no other form', async () => {
  const answers = [
    (await call()).json.result,
    (await callInSession({})).json.result,
    (await callInSession({ elicitation: {} })).json.result,
    (await callInSession({ elicitation: { url: {} } }, {}, '2025-06-18')).json.result,
  ]
  for (const { isError, content } of answers) {
    assert.is(isError, true)
    assert.match(content[0].text, 'You have to log in at the provider "github" first. Open this link')
    linkIn(content)
  }
  assert.equal(
    answers.map(({ resultType }) => resultType),
    ['complete', undefined, undefined, undefined],
  )
  assert.is(raw.calls('tools/call').length, 0)
})

test('a session client that supports URLs gets the error with the URL', async () => {
  const { status, json } = await callInSession({ elicitation: { url: {} } })
  assert.is(status, 200)
  assert.is(json.error.code, -32042)
  const [{ mode, elicitationId, url, message }, ...others] = json.error.data.elicitations
  assert.equal([mode, others.length], ['url', 0])
  assert.match(message, '"github"')
  assert.match(elicitationId, /^[\w-]{43}$/)
  assert.is(url, linkIn(json))
  assert.not.match(url, elicitationId)
})

test('a task call gets an error, since its result would be no task', async () => {
  const { json } = await callInSession({}, { task: { ttl: 1000 } })
  assert.ok(json.error)
})

test('a modern client that supports URLs is asked once', async () => {
  const first = (await call('hub_t', { _meta: META })).json.result
  assert.is(first.resultType, 'input_required')
  const [key, { method, params }] = readQuestion(first)
  assert.is(method, 'elicitation/create')
  assert.is(params.mode, 'url')
  assert.is(params.url, linkIn(first))
  const retry = { _meta: META, inputResponses: { [key]: { action: 'accept' } } }
  // The user has not followed the link; asking again would never end.
  const early = (await call('hub_t', retry)).json.result
  assert.is(early.isError, true)
  assert.is(linkIn(early), params.url)
  assert.is((await follow(client.agent, params.url)).status, 200)
  assert.equal((await call('hub_t', retry)).json.result.content, [{ type: 'text', text: 'ok' }])
  for (const { body } of raw.calls('tools/call')) assert.not.match(body, 'inputResponses')
})

test('answers to a backend’s own questions reach it, beside the gateway’s question', async () => {
  const inputResponses = { 'portico.login': { action: 'accept' }, name: { action: 'accept', content: { a: 1 } } }
  const first = (await call('hub_t', { _meta: META, requestState: 'of the backend' })).json.result
  assert.is(first.requestState, 'of the backend')
  assert.is((await follow(client.agent, linkIn(first))).status, 200)
  await call('hub_t', { _meta: META, requestState: 'of the backend', inputResponses })
  const { params } = raw.calls('tools/call').at(-1)?.message ?? {}
  assert.equal(params?.['inputResponses'], { name: inputResponses.name })
  assert.is(params?.['requestState'], 'of the backend')
})

test('the page names the account, the provider and where to log in; then calls succeed', async () => {
  const url = linkIn((await call()).json)
  const page = await openLink(client.agent, url)
  assert.is(page.status, 200)
  for (const part of ['Person alice', 'alice@example.com', 'github', new URL(github().issuer).host])
    assert.match(page.text, part)
  assert.match(page.headers.get('content-security-policy') ?? '', "frame-ancestors 'none'")
  assert.match(page.headers.get('cache-control') ?? '', 'no-store')
  const end = await follow(client.agent, url)
  assert.is(end.status, 200)
  assert.match(end.text, 'github is linked')
  const before = raw.calls('tools/call').length
  assert.ok((await call()).json.result.content)
  const session = await openSession(server.gateway.url, authorization())
  assert.ok((await post(server.gateway.url, rpc('tools/call', { name: 'hub_t' }), session)).json.result.content)
  const sent = raw
    .calls('tools/call')
    .slice(before)
    .map(({ headers }) => headers.authorization)
  assert.is(sent.length, 2)
  await call('own_t')
  assert.is.not(raw.calls('tools/call').at(-1)?.headers.authorization, sent[0])
})

test('the next login of the same user has to link again', async () => {
  await follow(client.agent, linkIn((await call()).json))
  assert.not.ok((await call()).json.result.isError)
  token = (await client.login()).access_token
  linkIn((await call()).json.result)
})

test('a backend that lists nothing without a credential is absent until then, and others are listed', async () => {
  assert.equal(await tools(), ['hub_t', 'open_t', 'own_t'])
  const { json } = await call('vault_t')
  assert.is(json.result.isError, true)
  await follow(client.agent, linkIn(json))
  await eventually('its tools', async () => (await tools()).includes('vault_t'))
  assert.ok((await call('vault_t')).json.result.content)
})

test('with partialFailureMode fail, a backend that waits for a login does not fail the list', async () => {
  await server.gateway.configure(
    server.config(
      {},
      {
        failureHandling: { partialFailureMode: 'fail' },
        backends: [buildInjectingBackend('vault', closed.url), { name: 'open', url: raw.url }],
      },
    ),
  )
  await eventually('the lists', async () => (await tools()).join() === 'open_t')
  await server.gateway.configure(server.config())
  await eventually('the lists', async () => (await tools()).includes('hub_t'))
})

test('calls that need a login do not count as failures of the backend', async () => {
  for (let calls = 0; calls < 20; calls++) linkIn((await call()).json.result)
  await follow(client.agent, linkIn((await call()).json))
  assert.not.ok((await call()).json.result.isError)
})

test('if a token can’t be refreshed any more, a new login is needed, only for its own backend', async () => {
  // Short-lived; a late first call gets a second one.
  github().accessTokenS = 5
  await follow(client.agent, linkIn((await call()).json))
  assert.not.ok((await call()).json.result.isError)
  github().before = (request, response) => {
    if (request.url !== '/token') return false
    response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}')
    return true
  }
  let link = ''
  await eventually('a link', async () => {
    const { result } = (await call()).json
    if (result.isError) link = linkIn(result)
    return link !== ''
  })
  Object.assign(github(), { before: undefined, accessTokenS: 3600 })
  assert.ok((await call('own_t')).json.result.content)
  assert.is((await follow(client.agent, link)).status, 200)
  assert.not.ok((await call()).json.result.isError)
})

test('a client of the SDK follows the link when it is asked, in both eras', async () => {
  for (const mode of ['auto', 'legacy'] as const) {
    token = (await client.login()).access_token
    const sdk = new Client(
      { name: 'test', version: '1' },
      { versionNegotiation: { mode }, capabilities: { elicitation: { url: {} } } },
    )
    const urls: string[] = []
    sdk.setRequestHandler('elicitation/create', async ({ params }) => {
      const url = linkIn(params)
      urls.push(url)
      assert.is((await follow(client.agent, url)).status, 200)
      return { action: 'accept' }
    })
    const headers = authorization()
    await sdk.connect(new StreamableHTTPClientTransport(new URL(server.gateway.url), { requestInit: { headers } }))
    const ask = () => sdk.callTool({ name: 'hub_t', arguments: {} })
    if (mode === 'auto') assert.equal((await ask()).content, [{ type: 'text', text: 'ok' }])
    else {
      const error = await ask().then(
        () => undefined,
        (thrown) => thrown,
      )
      assert.is(error?.code, -32042)
      assert.is((await follow(client.agent, linkIn(error.data))).status, 200)
      assert.equal((await ask()).content, [{ type: 'text', text: 'ok' }])
    }
    assert.is(urls.length, mode === 'auto' ? 1 : 0)
    await sdk.close()
  }
})

test.run()
