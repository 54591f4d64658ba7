/** Tests signing in if the provider does not identify users, or if callbacks are at another host than the issuer. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { oauth2Upstream, startOAuth2Provider, writeSecret } from '../../../support/identity/oauth2-provider.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { findButton, SessionsPage } from './pages.ts'

test('if each login is a new user, there is no sign-in', async () => {
  const provider = await startOAuth2Provider()
  const server = await startAuthServer({
    authServer: { upstreamProviders: [oauth2Upstream('code', provider)] },
    prepare: (directory) => writeSecret(directory, provider),
  })
  const client = await TestClient.register(server.issuer)
  await client.login()
  const page = await SessionsPage.of(server, client.agent).signIn()
  assert.match(page.text, 'There is nothing to show')
  assert.is(client.agent.cookie(new URL(server.issuer).host, 'portico-account'), undefined)
  await server.close()
  await provider.close()
})

test('if callbacks are at another host, the pages are served there', async () => {
  const server = await startAuthServer()
  const other = server.issuer.replace('127.0.0.1', 'localhost')
  const upstreamProviders = (server.config().authServer?.upstreamProviders ?? []).map((provider) => ({
    ...provider,
    ...(provider.oidcConfig && { oidcConfig: { ...provider.oidcConfig, redirectUri: `${other}/oauth/callback` } }),
  }))
  const before = (await server.gateway.status()).config
  await server.gateway.configure(server.config({ upstreamProviders }))
  await eventually('the new configuration', async () => (await server.gateway.status()).config !== before)
  const client = await TestClient.register(server.issuer, { client_name: 'Editor' })
  await client.login()
  const { agent } = client
  const entry = await agent.get(`${server.issuer}/oauth/sessions`, { 'x-forwarded-host': 'evil.example' })
  assert.is(entry.headers.get('location'), `${other}/oauth/account`)
  assert.equal(entry.headers.getSetCookie(), [])
  const page = new SessionsPage(agent, other)
  const signedIn = await page.signIn()
  assert.match(signedIn.text, 'Editor')
  assert.is(new URL(signedIn.url).host, new URL(other).host)
  const after = await page.send({ token: signedIn.token, ...findButton(signedIn, 'Revoke Editor') })
  assert.match(after.text, 'Access is revoked.')
  assert.match(after.text, 'No program may act for you here.')
  await server.close()
})

test('if the issuer has a path, the pages are below it', async () => {
  const server = await startAuthServer({ path: '/team/tools' })
  const page = SessionsPage.of(server, new UserAgent())
  const signedIn = await page.signIn()
  assert.ok(signedIn.isSignedIn)
  assert.is(new URL(signedIn.url).pathname, '/team/tools/oauth/sessions')
  assert.not.ok((await page.send({ token: signedIn.token, action: 'sign-out' })).isSignedIn)
  await server.close()
})

test.run()
