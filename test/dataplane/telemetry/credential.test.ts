/** Checks that a call's span has the time it waited for its caller's credential, and nothing of the credential. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildExchangingBackend, startExchangingGateway } from '../../support/gateway/exchanging-gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { buildExchanged, respond } from '../../support/network/token-endpoint.ts'
import { answer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'

test('a token exchange is a span within the call’s; a failed one has its error', async () => {
  const receiver = await startOtlpReceiver()
  const raw = await startRawServer({
    era: 'modern',
    tools: [tool('t')],
    call: (request) => answer(request, '{"resultType":"complete","content":[]}'),
  })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)], {
    telemetry: {
      openTelemetry: {
        enabled: true,
        endpoint: receiver.url,
        insecure: true,
        tracing: { enabled: true, samplingRate: '1.0' },
        metrics: { enabled: true },
      },
    },
  })
  // Too short-lived to be cached: each call gets its own.
  let status = 200
  gateway.endpoint.answer = (_request, response) =>
    respond(
      response,
      status,
      status === 200 ? buildExchanged('hunter2', { expires_in: 30 }) : { error: 'invalid_grant' },
    )
  const call = async () => postModern(gateway.url, 'tools/call', { name: 'api_t' }, await gateway.bearer('alice'))
  try {
    assert.is((await call()).status, 200)
    // All of them: spans of one call may arrive in two exports.
    await receiver.received(4)
    receiver.spans.length = 0
    assert.is((await call()).status, 200)
    await receiver.received(4)
    const byName = (name: string) => receiver.spans.find((span) => span.name === name)
    const [exchange, client] = [byName('tokenExchange'), byName('tools/call t')]
    assert.equal([exchange?.kind, exchange?.parentSpanId, exchange?.failed], [3, client?.spanId, false])
    assert.is(exchange?.attributes['portico.backend'], 'api')
    status = 400
    receiver.spans.length = 0
    await call()
    await receiver.received(4)
    assert.is(byName('tokenExchange')?.attributes['error.type'], 'backend_unavailable')
    assert.not.match(JSON.stringify([receiver.spans, ...receiver.metrics]), /hunter2/)
    const [point] = await receiver.counted('portico.credential.duration', 1)
    assert.is(point?.attributes['portico.credential'], 'tokenExchange')
  } finally {
    await gateway.close()
    await Promise.all([raw.close(), receiver.close()])
  }
})

test.run()
