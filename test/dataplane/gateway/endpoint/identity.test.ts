import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, parseAnswer, post, postModern, rpc } from '../../../support/gateway/post.ts'
import {
  type IdentityProvider,
  introspectionClient,
  startIdentityProvider,
} from '../../../support/network/identity-provider.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const AUDIENCE = 'https://gateway.example/mcp'

let idp: IdentityProvider
let backend: McpTestServer
let gateway: GatewayUnderTest

test.before(async () => {
  idp = await startIdentityProvider()
  backend = await startMcpServer({ name: 'b', mode: 'sessions' })
  gateway = await startGateway({
    backends: [{ name: 'b', url: backend.url }],
    resourceUrl: AUDIENCE,
    incomingAuth: {
      type: 'oidc',
      oidc: { issuer: idp.issuer, audience: AUDIENCE, scopes: ['tools'], allowPrivateIP: true },
    },
  })
})

test.after(async () => {
  await gateway.close()
  await Promise.all([backend.close(), idp.close()])
})

const bearer = async (claims: Record<string, unknown> = {}) => ({
  authorization: `Bearer ${await idp.mint({ aud: AUDIENCE, ...claims })}`,
})

test('every request without a token gets 401 with a challenge that names the metadata', async () => {
  const answers = [
    await post(gateway.url, rpc('initialize', { protocolVersion: '2025-11-25' })),
    await postModern(gateway.url, 'server/discover'),
    await parseAnswer(await fetch(gateway.url, { headers: { accept: 'text/event-stream', 'mcp-session-id': 'x' } })),
    await parseAnswer(await fetch(gateway.url, { method: 'DELETE', headers: { 'mcp-session-id': 'x' } })),
    // The answer is the same for a browser and for curl without a header.
    await parseAnswer(await fetch(gateway.url, { headers: { accept: 'text/html' } })),
    await parseAnswer(await fetch(gateway.url, { method: 'POST', headers: { accept: 'text/html' }, body: 'hello' })),
  ]
  for (const { status, headers, json } of answers) {
    assert.is(status, 401)
    assert.is(json.error.code, -32600)
    const challenge = headers.get('www-authenticate') ?? ''
    assert.match(challenge, 'resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp"')
    assert.match(challenge, 'scope="tools"')
  }
})

test('the metadata is served where the challenge and the specification say', async () => {
  for (const path of ['', '/mcp']) {
    const answer = await fetch(`${gateway.base}/.well-known/oauth-protected-resource${path}`)
    assert.equal(await answer.json(), {
      resource: AUDIENCE,
      authorization_servers: [idp.issuer],
      bearer_methods_supported: ['header'],
      scopes_supported: ['tools'],
    })
  }
})

test('wrong tokens are refused', async () => {
  const wrong: Record<string, Record<string, string>> = {
    audience: await bearer({ aud: 'https://other.example' }),
    expired: { authorization: `Bearer ${await idp.mint({ aud: AUDIENCE }, { expiresIn: -120 })}` },
    issuer: await bearer({ iss: 'https://other.example' }),
    rubbish: { authorization: 'Bearer rubbish' },
    scheme: { authorization: 'Basic eDp5' },
  }
  for (const [name, headers] of Object.entries(wrong))
    assert.is((await postModern(gateway.url, 'server/discover', {}, headers)).status, 401, name)
})

for (const era of ['modern', 'legacy', 'auto'] as const)
  test(`SDK 2, ${era}, with a token`, async () => {
    const { client } = await connect(gateway.url, era, { headers: await bearer() })
    const result = await client.callTool({ name: 'b_echo', arguments: { message: 'hi' } })
    assert.is(readText(result), 'b: hi')
    await client.close()
  })

test('SDK 1, with a token', async () => {
  const { client } = await connectV1(gateway.url, { headers: await bearer() })
  assert.is(readText(await client.callTool({ name: 'b_echo', arguments: { message: 'hi' } })), 'b: hi')
  await client.close()
})

test('no token ever reaches a backend', () => {
  for (const { headers, body } of backend.seen) {
    assert.is(headers.authorization, undefined)
    assert.not.match(body, 'eyJ')
  }
})

test('a session outlives its token, and continues with another one of the same subject', async () => {
  const session = await openSession(gateway.url, await bearer())
  const renewed = { ...session, ...(await bearer({ extra: 'claim' })) }
  assert.is(renewed.authorization === session['authorization'], false)
  assert.is((await post(gateway.url, rpc('ping'), renewed)).status, 200)
})

test('an opaque token is introspected with the client’s secret, and opens a session of its subject', async () => {
  const asking = await startGateway(
    {
      backends: [{ name: 'b', url: backend.url }],
      resourceUrl: AUDIENCE,
      incomingAuth: {
        type: 'oidc',
        oidc: {
          issuer: idp.issuer,
          audience: AUDIENCE,
          allowPrivateIP: true,
          introspection: { clientId: introspectionClient.id, clientSecretFile: 'client-secret' },
        },
      },
    },
    (directory) => writeFile(join(directory, 'client-secret'), `${introspectionClient.secret}\n`),
  )
  try {
    const opaque = (claims: Record<string, unknown>) => ({
      authorization: `Bearer ${idp.grant({ aud: AUDIENCE, ...claims })}`,
    })
    const session = await openSession(asking.url, opaque({ sub: 'alice' }))
    assert.is((await post(asking.url, rpc('ping'), { ...session, ...(await bearer({ sub: 'alice' })) })).status, 200)
    assert.is((await post(asking.url, rpc('ping'), { ...session, ...opaque({ sub: 'bob' }) })).status, 404)
    assert.is((await post(asking.url, rpc('ping'), { ...session, authorization: 'Bearer unknown' })).status, 401)
    assert.is((await post(asking.url, rpc('ping'), { ...session, ...opaque({ aud: 'another' }) })).status, 401)
  } finally {
    await asking.close()
  }
})

test('another caller’s session is unknown', async () => {
  const alices = await openSession(gateway.url, await bearer())
  const bob = { ...alices, ...(await bearer({ sub: 'bob' })) }
  const unknown = { ...alices, ...(await bearer()), 'mcp-session-id': 'nobody' }
  const [stolen, missing] = [await post(gateway.url, rpc('ping'), bob), await post(gateway.url, rpc('ping'), unknown)]
  assert.is(stolen.status, 404)
  assert.is(stolen.text, missing.text)
  const { accept, ...rest } = { accept: 'text/event-stream', ...bob }
  assert.is((await fetch(gateway.url, { headers: { accept, ...rest } })).status, 404)
  assert.is((await fetch(gateway.url, { method: 'DELETE', headers: bob })).status, 404)
  const { authorization: _, ...bare } = alices
  assert.is((await post(gateway.url, rpc('ping'), bare)).status, 401)
  assert.is((await post(gateway.url, rpc('ping'), alices)).status, 200, 'it is alive')
})

test('two callers of the modern era never share a session with a legacy backend', async () => {
  backend.seen.length = 0
  for (const sub of ['carol', 'dave', 'carol'])
    await postModern(gateway.url, 'tools/call', { name: 'b_echo', arguments: { message: sub } }, await bearer({ sub }))
  const [carol, dave, again] = backend.calls('tools/call').map(({ headers }) => headers['mcp-session-id'])
  assert.ok(carol !== undefined && dave !== undefined)
  assert.is.not(carol, dave)
  assert.is(carol, again)
})

test.run()
