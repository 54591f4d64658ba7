/** Checks that a reload does not affect callers of an unchanged issuer, even while that issuer is down. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const AUDIENCE = 'https://gateway.example/mcp'
let idp: IdentityProvider
let backend: McpTestServer
let gateway: GatewayUnderTest

const configWith = (scopes: string[]): TestConfig => ({
  backends: [{ name: 'b', url: backend.url }],
  resourceUrl: AUDIENCE,
  incomingAuth: {
    type: 'oidc',
    oidc: {
      issuer: idp.issuer,
      audience: AUDIENCE,
      scopes,
      allowPrivateIP: true,
      introspection: { url: idp.introspectionUrl },
    },
  },
})

test.before.each(async () => {
  idp = await startIdentityProvider()
  backend = await startMcpServer({ name: 'b' })
  gateway = await startGateway(configWith(['one']))
})
test.after.each(async () => {
  await gateway.close()
  await Promise.all([backend.close(), idp.close()])
})

const statusWith = async (token: string) =>
  (await postModern(gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status

async function reload(): Promise<void> {
  const { config } = await gateway.status()
  await gateway.configure(configWith(['two']))
  await eventually('the new configuration', async () => (await gateway.status()).config !== config)
}

test('known keys stay in use while the issuer is down', async () => {
  assert.is(await statusWith(await idp.mint({ aud: AUDIENCE })), 200)
  idp.behaviour = 'error'
  await reload()
  assert.is(await statusWith(await idp.mint({ aud: AUDIENCE })), 200)
})

test('an introspection under way finishes during a reload', async () => {
  let pending: ServerResponse | undefined
  idp.intercept = (request, response) => {
    if (request.url !== '/introspect') return false
    pending = response
    return true
  }
  const status = statusWith('opaque')
  await eventually('the question', () => pending !== undefined)
  await reload()
  pending?.end(JSON.stringify({ active: true, sub: 's', aud: AUDIENCE, exp: Date.now() / 1000 + 60 }))
  assert.is(await status, 200)
})

test.run()
