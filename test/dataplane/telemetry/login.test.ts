/** Checks the spans and counts of a login at an OTLP receiver: each step of it, and the requests to the provider. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { buildInjectingBackend } from '../../support/gateway/login-gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { type AuthServerUnderTest, refusal, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { follow, linkIn } from '../../support/identity/linking.ts'
import { answer, OK_RESULT, type RawRequest, startRawServer } from '../../support/servers/raw-server.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { spanTree } from '../../support/telemetry/span-tree.ts'
import { SessionsPage } from '../authserver/sessions/pages.ts'

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const UNSAMPLED = SAMPLED.replace(/1$/, '0')

let receiver: OtlpReceiver
let server: AuthServerUnderTest
let client: TestClient

const telemetry = () => ({
  openTelemetry: {
    enabled: true,
    endpoint: receiver.url,
    insecure: true,
    useLegacyAttributes: false,
    tracing: { enabled: true, samplingRate: '1.0' },
    metrics: { enabled: true },
  },
})

test.before(async () => {
  receiver = await startOtlpReceiver()
  server = await startAuthServer({ gateway: { telemetry: telemetry() } })
  client = await TestClient.register(server.issuer)
  await receiver.received(1)
})
test.after(async () => {
  await server?.close()
  await receiver?.close()
})
test.before.each(() => {
  receiver.spans.length = 0
  client.agent.forget(new URL(server.issuer).host)
  client.agent.headers['user-agent'] = 'browser/1'
  client.agent.answer = 'allow'
})

const findSpan = (name: string) => receiver.spans.find((span) => span.name === name) as ReceivedSpan

test('each step is a request of its own, linked to the one that began the login', async () => {
  const { refresh_token } = await client.login({ resource: server.resource })
  assert.is((await client.refresh(refresh_token)).status, 200)
  await receiver.received(7)
  assert.equal(spanTree(receiver.spans, ['portico.provider']), [
    'server GET /oauth/authorize',
    'server GET /oauth/callback',
    '  client exchange portico.provider=corp',
    'server POST /oauth/consent',
    '  client prepare portico.provider=corp',
    'server POST /oauth/token authorization_code',
    'server POST /oauth/token refresh_token',
  ])
  const { spanId, links } = findSpan('GET /oauth/authorize')
  assert.equal(links, [])
  const legs = ['POST /oauth/consent', 'GET /oauth/callback']
  const later = ['authorization_code', 'refresh_token'].map((grantType) => `POST /oauth/token ${grantType}`)
  for (const name of [...legs, ...later]) assert.equal(findSpan(name).links, [spanId], name)
  const common = { 'network.transport': 'tcp', 'network.protocol.name': 'http', 'client.address': '127.0.0.1' }
  assert.equal(findSpan('GET /oauth/callback').attributes, {
    ...common,
    'http.request.method': 'GET',
    'user_agent.original': 'browser/1',
  })
  assert.equal(findSpan('exchange').attributes, { 'portico.provider': 'corp' })
  assert.equal(findSpan('exchange').resource['service.name'], 'test')
})

test('a refusal is recorded where it happens: by the person, by the gateway, at the token endpoint', async () => {
  client.agent.answer = 'deny'
  assert.is((await client.authorize({ resource: server.resource })).get('error'), 'access_denied')
  assert.is((await client.authorize({ scope: 'none' })).get('error'), 'invalid_scope')
  assert.is(await refusal(client.exchange('no-code')), '400 invalid_grant')
  assert.is(await refusal(client.token({ grant_type: 'hunter2' })), '400 unsupported_grant_type')
  await receiver.received(5)
  assert.equal(spanTree(receiver.spans), [
    'server GET /oauth/authorize',
    'server GET /oauth/authorize failed error.type=invalid_scope',
    'server POST /oauth/consent failed error.type=access_denied',
    'server POST /oauth/token authorization_code failed error.type=invalid_grant',
    'server POST /oauth/token failed error.type=unsupported_grant_type',
  ])
  assert.equal(findSpan('POST /oauth/token authorization_code').links, [])
  assert.not.match(JSON.stringify(receiver.spans), /hunter2|no-code/)
})

test('an unsampled caller’s request is not sampled, and neither are its requests to the provider', async () => {
  client.agent.headers['traceparent'] = UNSAMPLED
  const code = (await client.authorize({ resource: server.resource })).get('code') ?? ''
  assert.is((await client.exchange(code)).status, 200)
  client.agent.headers['traceparent'] = SAMPLED
  await client.agent.get(`${server.issuer}/oauth/callback?state=x&code=y`)
  delete client.agent.headers['traceparent']
  await receiver.received(2)
  assert.equal(spanTree(receiver.spans), [
    'server GET /oauth/callback failed error.type=invalid_request',
    'server POST /oauth/token authorization_code',
  ])
  assert.is(findSpan('GET /oauth/callback').traceId, SAMPLED.slice(3, 35))
  // The login was not sampled, so there is no span to link to.
  assert.equal(findSpan('POST /oauth/token authorization_code').links, [])
})

test('every step is counted, sampled or not', async () => {
  const lines = (points: Awaited<ReturnType<OtlpReceiver['counted']>>) =>
    points
      .map(({ attributes, count }) =>
        [attributes['portico.provider'], attributes['portico.operation'], attributes['error.type'] ?? 'ok', count]
          .filter((part) => part !== undefined)
          .join(' '),
      )
      .sort()
  assert.equal(lines(await receiver.counted('portico.auth_server.request.duration', 16)), [
    'GET /oauth/authorize invalid_scope 1',
    'GET /oauth/authorize ok 3',
    'GET /oauth/callback invalid_request 1',
    'GET /oauth/callback ok 2',
    'POST /oauth/consent access_denied 1',
    'POST /oauth/consent ok 2',
    'POST /oauth/register ok 1',
    'POST /oauth/token invalid_grant 1',
    'POST /oauth/token ok 3',
    'POST /oauth/token unsupported_grant_type 1',
  ])
  assert.equal(lines(await receiver.counted('portico.provider.duration', 4)), [
    'corp exchange ok 2',
    'corp prepare ok 2',
  ])
})

test('actions on the sessions page are linked to the sign-in', async () => {
  const page = SessionsPage.of(server, client.agent)
  assert.ok((await page.signIn()).isSignedIn)
  const { token } = await page.open()
  await page.send({ token, action: 'sign-out' })
  await receiver.received(9)
  assert.equal(spanTree(receiver.spans), [
    'server GET /oauth/callback',
    '  client exchange',
    'server GET /oauth/sessions',
    'server GET /oauth/sessions',
    'server GET /oauth/sessions',
    'server GET /oauth/sessions',
    'server POST /oauth/sessions',
    'server POST /oauth/sessions',
    '  client prepare',
  ])
  const [signIn, signOut] = receiver.spans.filter(({ name }) => name === 'POST /oauth/sessions')
  const started = [signIn?.spanId]
  assert.equal([signIn?.links, signOut?.links], [[], started])
  assert.equal(findSpan('GET /oauth/callback').links, started)
  // Nobody is signed in before and after it.
  const pages = receiver.spans.filter(({ name }) => name === 'GET /oauth/sessions')
  assert.equal(
    pages.map(({ links }) => links),
    [[], started, started, []],
  )
})

test('an account link is linked to its login, and the following requests to the account link', async () => {
  const call = (request: RawRequest) => answer(request, OK_RESULT.replace('{', '{"resultType":"complete",'))
  const raw = await startRawServer({ era: 'modern', call })
  const linking = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    gateway: { backends: [buildInjectingBackend('hub', raw.url)], telemetry: telemetry() },
  })
  try {
    const program = await TestClient.register(linking.issuer)
    const { access_token } = await program.login()
    const authorization = { authorization: `Bearer ${access_token}` }
    const { json } = await postModern(linking.gateway.url, 'tools/call', { name: 'hub_t' }, authorization)
    const listSpans = (name: string) => receiver.spans.filter((span) => span.name === name)
    await eventually('the span of the login', () => listSpans('POST /oauth/token authorization_code').length === 1)
    const [login] = listSpans('GET /oauth/authorize')
    assert.match((await follow(program.agent, linkIn(json.result))).text, 'github is linked')
    await eventually('the spans of the login', () => listSpans('GET /oauth/callback').length === 3)
    const [opened, sent] = [listSpans('GET /oauth/link'), listSpans('POST /oauth/link')]
    assert.equal([opened.length, sent.length], [1, 1])
    assert.equal([opened[0]?.links, sent[0]?.links], [[login?.spanId], []])
    const callbacks = listSpans('GET /oauth/callback').map(({ links }) => links)
    assert.equal(callbacks, [[login?.spanId], [sent[0]?.spanId], [sent[0]?.spanId]])
  } finally {
    await linking.close()
    await raw.close()
  }
})

test.run()
