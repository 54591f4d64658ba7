/** Checks in all servers that a request's log lines have its id, which is also in the answer, and its trace id. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { eventually } from '../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { registryFile, server, startRegistry } from '../../support/registry/registry.ts'
import { renameTable } from '../../support/registry/rename-table.ts'
import { type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'

type Line = Readonly<Record<string, unknown>>

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const buildHeaders = (requestId: string) => ({
  'x-request-id': requestId,
  traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
})

let receiver: OtlpReceiver
let backend: RawServer

test.before(async () => {
  receiver = await startOtlpReceiver()
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('broken')],
    call(_request, response) {
      response.writeHead(500).end()
      return undefined
    },
  })
})
test.after(async () => {
  await backend.close()
  await receiver.close()
})

const telemetry = (): TelemetrySettings => ({
  openTelemetry: { enabled: true, endpoint: receiver.url, insecure: true, tracing: { enabled: true } },
})

/** Waits for the line, and checks that the ids of its request and of the trace find it. */
async function assertFound(lines: readonly Line[], message: string, requestId: string): Promise<void> {
  const findLine = () => lines.find((line) => line['msg'] === message && line['requestId'] === requestId)
  await eventually(`"${message}" of ${requestId}`, () => findLine() !== undefined)
  assert.is(findLine()?.['traceId'], TRACE)
}

async function startCalled(more: { readonly telemetry?: TelemetrySettings } = {}): Promise<GatewayUnderTest> {
  const compositeTools = [{ name: 'within', steps: [{ id: 'one', type: 'tool', tool: 'b_broken' }] }]
  const gateway = await startGateway({
    backends: [{ name: 'b', url: backend.url }],
    compositeTools: compositeTools as never,
    ...more,
  })
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
  return gateway
}

test('a gateway: calls that fail, also those of a step', async () => {
  const gateway = await startCalled({ telemetry: telemetry() })
  try {
    for (const name of ['b_broken', 'within']) {
      const { headers } = await postModern(gateway.url, 'tools/call', { name, arguments: {} }, buildHeaders(name))
      assert.is(headers.get('x-request-id'), name)
      await assertFound(gateway.lines, 'call failed', name)
    }
  } finally {
    await gateway.close()
  }
})

test('without telemetry there are no traces, and each request still has its id', async () => {
  const gateway = await startCalled()
  try {
    const ids: unknown[] = []
    // An id that can't be searched for in a log is replaced.
    for (const requestId of ['mine', 'two\twords', 'x'.repeat(65)]) {
      const { headers } = await postModern(gateway.url, 'tools/call', { name: 'b_broken' }, buildHeaders(requestId))
      ids.push(headers.get('x-request-id'))
    }
    assert.is(ids[0], 'mine')
    for (const id of ids.slice(1)) assert.match(String(id), /^[0-9a-f-]{36}$/)
    const failed = gateway.lines.filter(({ msg }) => msg === 'call failed')
    assert.equal(
      failed.map(({ requestId }) => requestId),
      ids,
    )
    assert.ok(failed.every((line) => !('traceId' in line)))
  } finally {
    await gateway.close()
  }
})

test('an authorization server: refusals of every endpoint, although there is no audit log', async () => {
  const served = await startAuthServer({ gateway: { telemetry: telemetry() } })
  try {
    for (const [method, path] of [
      ['POST', '/oauth/token'],
      ['POST', '/oauth/introspect'],
      ['DELETE', '/oauth/token'],
    ] as const) {
      const requestId = `${method}${path.replaceAll('/', '.')}`
      const { headers } = await fetch(served.issuer + path, { method, headers: buildHeaders(requestId) })
      assert.is(headers.get('x-request-id'), requestId)
      const found = served.gateway.lines.find((line) => line['msg'] === 'refused' && line['requestId'] === requestId)
      assert.ok(found, requestId)
      // A request without telemetry has no trace.
      assert.is(found?.['traceId'], method === 'POST' ? TRACE : undefined)
    }
  } finally {
    await served.close()
  }
})

test('an authorization server: a login that fails at its provider, before and after the user was there', async () => {
  const served = await startAuthServer({ gateway: { telemetry: telemetry() } })
  try {
    const { gateway, upstream, issuer } = served
    const client = await TestClient.register(issuer)
    /** Logs in while the provider fails requests to one path; all lines logged then belong to the login. */
    const assertFailed = async (path: string, message: string) => {
      const before = gateway.lines.length
      upstream.before = (request, response) => {
        if (request.url !== path) return false
        response.writeHead(500).end()
        return true
      }
      Object.assign(client.agent.headers, buildHeaders(message.replaceAll(/\W/g, '.')))
      assert.is((await client.authorize()).get('error'), 'access_denied')
      const lines = gateway.lines.slice(before)
      assert.ok(
        lines.some(({ msg }) => msg === message),
        message,
      )
      const { 'x-request-id': requestId } = client.agent.headers
      for (const line of lines)
        assert.equal([line['requestId'], line['traceId']], [requestId, TRACE], String(line['msg']))
    }
    await assertFailed('/.well-known/openid-configuration', 'a login can’t begin')
    await assertFailed('/token', 'a login failed')
  } finally {
    await served.close()
  }
})

test('a registry: an invalid body, and a read while the store is down', async () => {
  const registry = await startRegistry({ own: registryFile([server('a/b')]) }, { telemetry: telemetry() })
  try {
    const ask = async (requestId: string, path: string, init: RequestInit = {}) => {
      const sent = { ...init, headers: { ...buildHeaders(requestId), 'content-type': 'application/json' } }
      const { headers } = await fetch(registry.url + path, sent)
      assert.is(headers.get('x-request-id'), requestId)
      await assertFound(registry.log.lines, 'refused', requestId)
    }
    await ask('put', '/v1/sources/a', { method: 'PUT', body: '{' })
    await renameTable(registry.folder.stateDirectory, 'listing', 'elsewhere')
    await ask('get', '/registry/main/v0.1/servers')
  } finally {
    await registry.close()
  }
})

test.run()
