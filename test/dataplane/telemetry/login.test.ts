/** What a receiver of OTLP sees of a login: each leg of it, what the provider is asked, and what is counted. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AuthServerUnderTest, refusal, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/network/otlp-receiver.ts'
import { spanTree } from '../../support/network/span-tree.ts'

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const UNSAMPLED = SAMPLED.replace(/1$/, '0')

let receiver: OtlpReceiver
let server: AuthServerUnderTest
let client: TestClient

test.before(async () => {
  receiver = await startOtlpReceiver()
  const openTelemetry = {
    enabled: true,
    endpoint: receiver.url,
    insecure: true,
    useLegacyAttributes: false,
    tracing: { enabled: true, samplingRate: '1.0' },
    metrics: { enabled: true },
  }
  server = await startAuthServer({ gateway: { telemetry: { openTelemetry } } })
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

const named = (name: string) => receiver.spans.find((span) => span.name === name) as ReceivedSpan

test('each leg is a request of its own, which refers to the one that began the login', async () => {
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
  const { spanId, links } = named('GET /oauth/authorize')
  assert.equal(links, [])
  for (const name of ['POST /oauth/consent', 'GET /oauth/callback']) assert.equal(named(name).links, [spanId], name)
  const common = { 'network.transport': 'tcp', 'network.protocol.name': 'http', 'client.address': '127.0.0.1' }
  assert.equal(named('GET /oauth/callback').attributes, {
    ...common,
    'http.request.method': 'GET',
    'user_agent.original': 'browser/1',
  })
  assert.equal(named('exchange').attributes, { 'portico.provider': 'corp' })
  assert.equal(named('exchange').resource['service.name'], 'test')
})

test('a refusal is told of where it happens: by the person, by us, at the token endpoint', async () => {
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
  assert.not.match(JSON.stringify(receiver.spans), /hunter2|no-code/)
})

test('who decides that a request is not sampled is followed, and what the provider is asked has no span either', async () => {
  client.agent.headers['traceparent'] = UNSAMPLED
  assert.ok((await client.authorize({ resource: server.resource })).get('code'))
  client.agent.headers['traceparent'] = SAMPLED
  await client.agent.get(`${server.issuer}/oauth/callback?state=x&code=y`)
  delete client.agent.headers['traceparent']
  await receiver.received(1)
  assert.equal(spanTree(receiver.spans), ['server GET /oauth/callback failed error.type=invalid_request'])
  assert.is(receiver.spans[0]?.traceId, SAMPLED.slice(3, 35))
})

test('all of it is counted, sampled or not', async () => {
  const lines = (points: Awaited<ReturnType<OtlpReceiver['counted']>>) =>
    points
      .map(({ attributes, count }) =>
        [attributes['portico.provider'], attributes['portico.operation'], attributes['error.type'] ?? 'ok', count]
          .filter((part) => part !== undefined)
          .join(' '),
      )
      .sort()
  assert.equal(lines(await receiver.counted('portico.auth_server.request.duration', 15)), [
    'GET /oauth/authorize invalid_scope 1',
    'GET /oauth/authorize ok 3',
    'GET /oauth/callback invalid_request 1',
    'GET /oauth/callback ok 2',
    'POST /oauth/consent access_denied 1',
    'POST /oauth/consent ok 2',
    'POST /oauth/register ok 1',
    'POST /oauth/token invalid_grant 1',
    'POST /oauth/token ok 2',
    'POST /oauth/token unsupported_grant_type 1',
  ])
  assert.equal(lines(await receiver.counted('portico.provider.duration', 4)), [
    'corp exchange ok 2',
    'corp prepare ok 2',
  ])
})

test.run()
