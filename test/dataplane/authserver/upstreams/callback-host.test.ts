/** Checks that a login stays at one host wherever the authorization endpoint is: `localhost` and `127.0.0.1` are two. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { eventually } from '../../../support/eventually.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'

let server: AuthServerUnderTest
let client: TestClient
/** The issuer with the other name of its host. */
let other: string

test.before(async () => {
  server = await startAuthServer()
  other = server.issuer.replace('127.0.0.1', 'localhost')
  client = await TestClient.register(server.issuer)
})
test.after(() => server.close())

const providers = (redirectUri: string): AuthServerConfig['upstreamProviders'] =>
  (server.config().authServer?.upstreamProviders ?? []).map(({ oidcConfig, ...rest }) =>
    oidcConfig === undefined ? rest : { ...rest, oidcConfig: { ...oidcConfig, redirectUri } },
  )

/** Applies a configuration; returns its authorization endpoint. */
async function configure(base: string, redirectUri: string): Promise<string> {
  const more = { authorizationEndpointBaseUrl: base, upstreamProviders: providers(redirectUri) }
  const before = (await server.gateway.status()).config
  await server.gateway.configure(server.config(more))
  await eventually('the new configuration', async () => (await server.gateway.status()).config !== before)
  return `${base}/oauth/authorize`
}

const moveTo = (endpoint: string, url: string) => endpoint + new URL(url).search

test('the browser is redirected to the callback’s host once, before it gets its cookie', async () => {
  const table = [
    [other, `${server.issuer}/oauth/callback`],
    [server.issuer, `${other}/oauth/callback`],
  ] as const
  for (const [base, redirectUri] of table) {
    const endpoint = await configure(base, redirectUri)
    const url = moveTo(endpoint, client.authorizeUrl({ state: 'a&b=c d' }))
    const redirected = await client.agent.get(url)
    assert.is(redirected.status, 303)
    assert.equal(redirected.headers.getSetCookie(), [])
    assert.is(redirected.headers.get('location'), redirectUri.replace('/callback', '/login') + new URL(url).search)
    client.agent.visited.length = 0
    const end = await client.agent.follow(url, (url) => url.startsWith(REDIRECT))
    const found = new URL(end.url).searchParams
    assert.is(found.get('state'), 'a&b=c d')
    assert.is(found.get('iss'), server.issuer)
    assert.ok((await readTokens(await client.exchange(found.get('code') ?? ''))).access_token)
    // Only the first of our own pages is at the other host.
    const own = client.agent.visited.filter((url) => url.includes('/oauth/'))
    const { host } = new URL(redirectUri)
    assert.equal([...new Set(own.slice(1).map((url) => new URL(url).host))], [host])
    assert.is.not(new URL(own[0] ?? '').host, host)
  }
})

test('an authorization endpoint below a path of its own is served where the metadata names it', async () => {
  for (const base of [`${server.issuer}/sso/eu`, `${other}/sso`]) {
    const endpoint = await configure(base, `${server.issuer}/oauth/callback`)
    const metadata = await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)
    const { authorization_endpoint: advertised } = (await metadata.json()) as { authorization_endpoint: string }
    assert.is(advertised, endpoint)
    const end = await client.agent.follow(moveTo(advertised, client.authorizeUrl()), (url) => url.startsWith(REDIRECT))
    const code = new URL(end.url).searchParams.get('code') ?? ''
    assert.ok((await readTokens(await client.exchange(code))).access_token)
  }
})

test('the Host header does not change where the browser is redirected', async () => {
  const endpoint = await configure(other, `${server.issuer}/oauth/callback`)
  for (const headers of [{ 'x-forwarded-host': 'evil.example' }, { forwarded: 'host=evil.example' }] as Record<
    string,
    string
  >[]) {
    const redirected = await client.agent.get(moveTo(endpoint, client.authorizeUrl()), headers)
    assert.ok(redirected.headers.get('location')?.startsWith(`${server.issuer}/oauth/login?`))
  }
  const long = await client.agent.get(`${endpoint}?x=${'y'.repeat(16_400)}`)
  assert.is(long.status, 400)
})

test('errors in the request are shown at the callback’s host too', async () => {
  const endpoint = `${other}/oauth/authorize`
  const wrong = moveTo(endpoint, client.authorizeUrl({ client_id: 'A'.repeat(22) }))
  const end = await client.agent.follow(wrong, () => false)
  assert.is(end.response?.status, 400)
  assert.ok(end.url.startsWith(`${server.issuer}/oauth/login`))
})

test.run()
