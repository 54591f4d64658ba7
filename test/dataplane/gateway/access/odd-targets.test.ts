/**
 * Sends requests without a valid token in every spelling of target and header that a server in between may read
 * differently.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { AUDIENCE } from '../../../support/gateway/exchanging-gateway.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b_t","arguments":{}}}'
let backend: RawServer
let idp: IdentityProvider
let gateway: GatewayUnderTest
let good: string
let session: string

test.before(async () => {
  backend = await startRawServer({ era: 'legacy', call: (request) => answer(request, OK_RESULT) })
  idp = await startIdentityProvider()
  const oidc = { issuer: idp.issuer, audience: AUDIENCE, scopes: ['a"b', 'c\\'] }
  gateway = await startGateway({
    incomingAuth: { type: 'oidc', oidc },
    backends: [{ name: 'b', url: backend.url }],
  })
  good = await idp.mint({ aud: AUDIENCE, scope: 'a"b c\\' })
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } }
  const opened = await fetch(gateway.url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${good}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }),
  })
  session = opened.headers.get('mcp-session-id') ?? ''
  assert.is.not(session, '')
})
test.after(async () => {
  await gateway?.close()
  await Promise.all([backend?.close(), idp?.close()])
})

/** Sends a call exactly as written and returns the answer. */
async function send(target: string, headers: readonly string[], method = 'POST'): Promise<string> {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  let text = ''
  socket.setEncoding('latin1').on('data', (piece: string) => (text += piece))
  const head = [
    `${method} ${target} HTTP/1.1`,
    ...['host: 127.0.0.1', 'accept: application/json, text/event-stream', 'content-type: application/json'],
    ...[`mcp-session-id: ${session}`, 'connection: close', `content-length: ${BODY.length}`],
    ...headers,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${BODY}`, 'latin1')
  await once(socket, 'close')
  return text
}

const readStatus = (text: string) => Number(text.slice(9, 12))

test('the same request with a token is served, so that the following are refused for their oddity', async () => {
  const before = backend.calls('tools/call').length
  assert.is(readStatus(await send('/mcp', [`authorization: Bearer ${good}`])), 200)
  assert.is(backend.calls('tools/call').length, before + 1)
})

const targets = [
  ...['/mcp', '/mcp?', '/mcp?access_token=TOKEN', 'http://127.0.0.1/mcp', 'http://evil.example/mcp'],
  ...['//mcp', '/mcp/', '/MCP', '/%6dcp', '/./mcp', '/a/../mcp', '/mcp;x', '/mcp#f', '/mcp%00', '/mcp%2f', '/mcp\\'],
  ...['/.well-known/../mcp', '/.well-known/oauth-protected-resource/../../mcp', '/healthz/..;/mcp', 'mcp', '*'],
]
for (const target of targets)
  test(`a request without a token at ${target} calls nothing`, async () => {
    const before = backend.calls('tools/call').length
    const text = await send(target.replace('TOKEN', good), [])
    assert.ok([400, 401, 404].includes(readStatus(text)), text.slice(0, 100))
    const challenge = /www-authenticate: (.*)\r\n/i.exec(text)?.[1]
    if (readStatus(text) === 401)
      assert.match(challenge ?? '', /^Bearer realm="[^"]*", resource_metadata="[^"]*", scope="ab c"$/)
    assert.is(backend.calls('tools/call').length, before)
  })

const headers: readonly (readonly string[])[] = [
  ['authorization: Bearer wrong', 'authorization: Bearer TOKEN'],
  ['authorization: Bearer TOKEN', 'authorization: Bearer wrong'],
  ['authorization: Bearer wrong, Bearer TOKEN'],
  ['authorization: Bearer\tTOKEN'],
  ['authorization: BearerTOKEN'],
  ['authorization: Bearer "TOKEN"'],
  ['authorization: Bearer TOKEN x'],
  ['authorization: Bearer TOKEN\xff'],
  ['authorization: Bearer TOKEN=='],
  ['authorization: Bearer\r\n TOKEN'],
  ['authorization: DPoP TOKEN'],
  ['authorization: Basic TOKEN'],
  ['proxy-authorization: Bearer TOKEN'],
  ['x-forwarded-authorization: Bearer TOKEN'],
  ['x-authorization: Bearer TOKEN'],
  ['cookie: access_token=TOKEN; authorization=Bearer TOKEN'],
  ['x-original-url: /healthz', 'x-rewrite-url: /healthz', 'x-forwarded-prefix: /.well-known'],
  ['x-http-method-override: OPTIONS'],
]
for (const lines of headers)
  test(`${JSON.stringify(lines)} lets nobody in`, async () => {
    const before = backend.calls('tools/call').length
    const text = await send(
      '/mcp',
      lines.map((line) => line.replaceAll('TOKEN', good)),
    )
    assert.ok([400, 401].includes(readStatus(text)), text.slice(0, 100))
    assert.not.ok(text.includes(good))
    assert.is(backend.calls('tools/call').length, before)
  })

for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'QUERY'])
  test(`${method} without a token calls nothing and ends no session`, async () => {
    assert.ok([400, 401, 405].includes(readStatus(await send('/mcp', [], method))))
    assert.is(readStatus(await send('/mcp', [`authorization: Bearer ${good}`])), 200)
  })

test.run()
