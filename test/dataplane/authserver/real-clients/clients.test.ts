/** Logs in with other people's clients: SDK 2 and SDK 1 of MCP, and openid-client, which is strict. */

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { loginProvider } from '../../../support/identity/sdk-login.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { answer, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

let raw: RawServer
let server: AuthServerUnderTest
test.before(async () => {
  raw = await startRawServer({
    era: 'both',
    call: (request) => answer(request, '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'),
  })
  const credential = { type: 'upstreamInject' as const, upstreamInject: { providerName: 'corp' } }
  server = await startAuthServer({ gateway: { backends: [{ name: 'b', url: raw.url, credential }] } })
})
test.after(async () => {
  await server.close()
  await raw.close()
})

test('SDK 2 finds the server, registers, logs in and calls a tool with the token that the provider gave', async () => {
  const provider = loginProvider('http://localhost:43211/oauth/callback')
  const open = () => new StreamableHTTPClientTransport(new URL(server.gateway.url), { authProvider: provider })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  const first = open()
  await client.connect(first).then(
    () => assert.unreachable(),
    (error) => assert.instance(error, UnauthorizedError),
  )
  await first.finishAuth(unwrap(provider.stored.answer))
  await client.connect(open())
  assert.equal(
    (await client.listTools()).tools.map(({ name }) => name),
    ['b_t'],
  )
  assert.is(readText(await client.callTool({ name: 'b_t', arguments: {} })), 'ok')
  await client.close()
  const authorization = raw.calls('tools/call').at(-1)?.headers.authorization ?? ''
  assert.match(authorization, /^Bearer [\w-]{43}$/)
  assert.not.ok(authorization.includes(unwrap(provider.stored.tokens).access_token))
})

test('SDK 1 does the same', async () => {
  const provider = loginProvider()
  const open = () =>
    new TransportV1(new URL(server.gateway.url), { authProvider: provider as unknown as OAuthClientProvider })
  const client = new ClientV1({ name: 'test', version: '1' })
  const first = open()
  await client.connect(first as unknown as Transport).then(
    () => assert.unreachable(),
    () => undefined,
  )
  await first.finishAuth(unwrap(provider.stored.answer?.get('code')))
  const again = new ClientV1({ name: 'test', version: '1' })
  await again.connect(open() as unknown as Transport)
  assert.is(readText(await again.callTool({ name: 'b_t', arguments: {} })), 'ok')
  await again.close()
})

test('openid-client accepts metadata, issuer, code, ID token, refresh, introspection and revocation', async () => {
  const { id } = await TestClient.register(server.issuer)
  const config = await openid.discovery(new URL(server.issuer), id, undefined, openid.None(), {
    execute: [openid.allowInsecureRequests],
  })
  openid.enableNonRepudiationChecks(config)
  const pkceCodeVerifier = secret(openid.randomPKCECodeVerifier())
  const [expectedState, expectedNonce] = [openid.randomState(), openid.randomNonce()]
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'openid tools:call',
    resource: server.resource,
    state: expectedState,
    nonce: expectedNonce,
    code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  })
  const end = await new UserAgent().follow(url.href, (at) => at.startsWith(REDIRECT))
  secret(new URL(end.url).searchParams.get('code') as string)
  const checks = { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true }
  const tokens = await openid.authorizationCodeGrant(config, new URL(end.url), checks)
  for (const token of [tokens.access_token, tokens.refresh_token, tokens.id_token]) secret(token as string)
  assert.is(tokens.claims()?.sub, decodeJwt(tokens.access_token).sub)
  assert.is((await openid.tokenIntrospection(config, tokens.access_token)).active, true)
  const refreshed = await openid.refreshTokenGrant(config, tokens.refresh_token as string)
  for (const token of [refreshed.access_token, refreshed.refresh_token, refreshed.id_token]) secret(token as string)
  await openid.tokenRevocation(config, refreshed.refresh_token as string)
  assert.is((await openid.tokenIntrospection(config, tokens.access_token)).active, false)
})

test('two users of one client have each their own subject and their own token at the backend', async () => {
  const client = await TestClient.register(server.issuer)
  const call = async (token: string) => {
    const before = raw.calls('tools/call').length
    const { client: mcp } = await connect(server.gateway.url, 'modern', {
      headers: { authorization: `Bearer ${token}` },
    })
    await mcp.callTool({ name: 'b_t', arguments: {} })
    await mcp.close()
    return raw.calls('tools/call')[before]?.headers.authorization
  }
  const alice = await client.login()
  server.upstream.user = 'bob'
  const bob = await new TestClient(server.issuer, client.id).login()
  server.upstream.user = 'alice'
  assert.is.not(decodeJwt(alice.access_token).sub, decodeJwt(bob.access_token).sub)
  const [one, two] = [await call(alice.access_token), await call(bob.access_token)]
  assert.ok(one !== undefined && two !== undefined && one !== two)
  assert.is(await call(alice.access_token), one)
})

test.run()
