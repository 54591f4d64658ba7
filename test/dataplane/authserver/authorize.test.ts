/** Tests the authorization endpoint: which requests it redirects, which it refuses, and which parameters it accepts. */

import { request } from 'node:http'
import { buffer as buffered } from 'node:stream/consumers'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../support/identity/auth-server.ts'
import { parseConsent } from '../../support/identity/user-agent.ts'

let server: AuthServerUnderTest
let client: TestClient
test.before(async () => {
  server = await startAuthServer()
  client = await TestClient.register(server.issuer, {
    redirect_uris: [
      REDIRECT,
      'http://localhost/cb?x=1',
      'https://app.example/cb',
      'cursor://anysphere/cb',
      'https://localhost.example/cb',
    ],
  })
})
test.after(() => server.close())

/** Allows the client and returns where the authorization request redirects to, or the status if it does not redirect. */
async function followTo(url: string): Promise<string> {
  const response = await client.agent.get(url)
  const text = await response.text()
  const location = response.headers.get('location')
  assert.is(response.headers.get('cache-control'), 'no-store')
  assert.is(response.headers.get('referrer-policy'), 'no-referrer')
  if (location === null) {
    assert.match(response.headers.get('content-type') ?? '', 'text/html')
    assert.match(response.headers.get('content-security-policy') ?? '', "frame-ancestors 'none'")
    assert.match(text, '<h1>')
    const question = parseConsent(text, url)
    if (question === undefined) return `${response.status}`
    const { action, token } = question
    return (await client.agent.post(action, { token, decision: 'allow' })).headers.get('location') ?? ''
  }
  return location
}
const error = (location: string) => new URL(location).searchParams.get('error')

test('an unknown client, or one with another redirect URI, is not redirected', async () => {
  for (const changes of [
    { client_id: undefined },
    { redirect_uri: undefined },
    { client_id: 'AAAAAAAAAAAAAAAAAAAAAA' },
    { client_id: '../../x' },
    { client_id: 'a'.repeat(4000) },
    { redirect_uri: 'https://evil.example/cb' },
    { redirect_uri: 'https://app.example/cb/' },
    { redirect_uri: 'https://app.example.evil.example/cb' },
    { redirect_uri: 'https://app.example/cb?x=1' },
    { redirect_uri: 'https://app.example:8443/cb' },
    { redirect_uri: 'javascript:alert(1)' },
    { redirect_uri: 'not a uri' },
  ])
    assert.is(await followTo(client.authorizeUrl(changes)), '400', JSON.stringify(changes).slice(0, 80))
  for (const name of ['client_id', 'redirect_uri'])
    for (const value of [client.id, REDIRECT])
      assert.is(await followTo(`${client.authorizeUrl()}&${name}=${encodeURIComponent(value)}`), '400', name)
  assert.is(await followTo(`${client.authorizeUrl()}&x=${'y'.repeat(20_000)}`), '400')
})

test('a public client may take any port of a loopback address that it has registered, and nothing else', async () => {
  for (const uri of [
    'http://127.0.0.1:1/callback',
    'http://127.0.0.1/callback',
    'http://127.0.0.1:65535/callback',
    'http://LOCALHOST:99/cb?x=1',
    'http://localhost/cb?x=1',
    'https://app.example/cb',
    'cursor://anysphere/cb',
  ])
    assert.ok(
      (await followTo(client.authorizeUrl({ redirect_uri: uri }))).startsWith(`${server.upstream.issuer}/auth`),
      uri,
    )
  for (const uri of [
    'http://127.0.0.1:80800/callback',
    'http://127.0.0.1:7777/other',
    'http://127.0.0.1:7777/callback?',
    'http://127.0.0.1:7777/callback#x',
    'http://127.0.0.1:7777/%63allback',
    'http://127.0.0.1:7777/callback/../callback',
    'http://localhost:7777/callback',
    'http://[::1]:7777/callback',
    'http://127.0.0.2:7777/callback',
    'http://127.0.0.1.evil.example/callback',
    'http://user@127.0.0.1:7777/callback',
    'http://127.0.0.1:7777@evil.example/callback',
    'http://127.0.0.1\\@evil.example/callback',
    'https://127.0.0.1:7777/callback',
    'http://2130706433:7777/callback',
    'http://localhost:99/cb',
    'http://localhost:99/cb?x=2',
    'cursor://anysphere:99/cb',
  ])
    assert.is(await followTo(client.authorizeUrl({ redirect_uri: uri })), '400', uri)
})

test('all other errors go to the client’s redirect URI, at its own port, with its state and our issuer', async () => {
  const redirect = 'http://127.0.0.1:50123/callback'
  for (const [changes, code] of [
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ response_type: 'id_token' }, 'unsupported_response_type'],
    [{ response_type: 'code id_token' }, 'unsupported_response_type'],
    [{ response_type: undefined }, 'invalid_request'],
    [{ code_challenge: undefined }, 'invalid_request'],
    [{ code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
    [{ code_challenge_method: 'plain' }, 'invalid_request'],
    [{ code_challenge_method: undefined }, 'invalid_request'],
    [{ code_challenge: 'short' }, 'invalid_request'],
    [{ scope: 'unknown' }, 'invalid_scope'],
    [{ resource: 'https://other.example/mcp' }, 'invalid_target'],
    [{ resource: '/mcp' }, 'invalid_target'],
    [{ resource: `${server.resource}#x` }, 'invalid_target'],
    [{ resource: `${server.resource}//` }, 'invalid_target'],
    [{ resource: `${server.resource}?x` }, 'invalid_target'],
    [{ resource: server.resource.replace('/mcp', '/x/../mcp') }, 'invalid_target'],
    [{ resource: server.resource.replace('//', '//x@') }, 'invalid_target'],
    [{ response_mode: 'form_post' }, 'invalid_request'],
    [{ response_mode: 'fragment' }, 'invalid_request'],
    [{ request: 'eyJ' }, 'request_not_supported'],
    [{ request_uri: 'https://evil.example/r' }, 'request_uri_not_supported'],
    [{ prompt: 'none' }, 'login_required'],
  ] as const) {
    const location = await followTo(client.authorizeUrl({ ...changes, redirect_uri: redirect }))
    assert.ok(location.startsWith(redirect), `${JSON.stringify(changes)}: ${location}`)
    const answer = new URL(location.replace('#', '?')).searchParams
    assert.is(answer.get('error'), code, JSON.stringify(changes))
    assert.is(answer.get('state'), 'the-state')
    assert.is(answer.get('iss'), server.issuer)
    assert.is(answer.get('code'), null)
  }
})

test('a refused link leads to a page first, and to no site or app by itself', async () => {
  for (const redirect of ['https://app.example/cb', 'cursor://anysphere/cb', 'https://localhost.example/cb'])
    for (const [changes, code] of [
      [{ scope: 'unknown' }, 'invalid_scope'],
      [{ response_type: 'token' }, 'unsupported_response_type'],
      [{ response_mode: 'form_post' }, 'invalid_request'],
      [{ response_mode: 'fragment' }, 'invalid_request'],
      [{ code_challenge: undefined }, 'invalid_request'],
      [{ resource: 'https://other.example/mcp' }, 'invalid_target'],
      [{ request: 'eyJ' }, 'request_not_supported'],
      [{ prompt: 'none' }, 'login_required'],
      [{ max_age: 'x' }, 'invalid_request'],
    ] as const) {
      const url = client.authorizeUrl({ state: '"><b>', ...changes, redirect_uri: redirect })
      const response = await client.agent.get(url)
      const page = await response.text()
      assert.is(response.status, 400, url)
      assert.is(response.headers.get('location'), null, url)
      assert.is(response.headers.get('refresh'), null)
      const link = /<a href="([^"]+)" rel="noreferrer">go on to <bdi>([^<]+)</.exec(page)
      const to = new URL((link?.[1] ?? '').replaceAll('&amp;', '&').replace('#', '?'))
      assert.ok(to.href.startsWith(redirect), to.href)
      assert.is(to.searchParams.get('error'), code, url)
      assert.is(to.searchParams.get('state'), '"><b>')
      assert.match(link?.[2] ?? '', redirect.startsWith('https:') ? new URL(redirect).host : 'cursor:')
      assert.match(page, code)
    }
})

test('a parameter that comes twice is refused', async () => {
  for (const name of ['scope', 'state', 'code_challenge', 'resource', 'response_type'])
    assert.is(
      error(await followTo(`${client.authorizeUrl({ resource: server.resource })}&${name}=x`)),
      'invalid_request',
      name,
    )
})

test('a token is for the requested resource, or for this gateway if none was requested', async () => {
  const spellings = [`${server.resource}/`, server.resource.replace('http', 'HTTP')]
  for (const resource of [undefined, '', server.resource, ...spellings]) {
    const { access_token: token } = await client.login({ resource })
    assert.is(decodeJwt(token).aud, server.resource)
  }
  const code = (await client.authorize({ resource: server.resource })).get('code') as string
  assert.is(await refusal(client.exchange(code, { resource: 'https://other.example/mcp' })), '400 invalid_target')
})

test('scopes are the requested ones that exist, or the gateway’s if none were requested', async () => {
  const readScope = async (scope: string | undefined) => (await client.login({ scope })).scope
  assert.is(await readScope('tools:read'), 'tools:read')
  assert.is(await readScope('tools:read unknown openid'), 'tools:read openid')
  assert.is(await readScope(undefined), 'tools:call tools:read')
  const narrow = await TestClient.register(server.issuer, { scope: 'tools:read' })
  const refused = await narrow.authorize({ scope: 'tools:call' })
  assert.is(refused.get('error'), 'invalid_scope')
  assert.is((await narrow.login({ scope: undefined })).scope, 'tools:read')
})

test('two tabs of one browser log in at the same time, each with its own answer', async () => {
  const [one, two] = [client.authorizeUrl({ state: 'one' }), client.authorizeUrl({ state: 'two' })]
  const started = [await followTo(one), await followTo(two)]
  for (const [index, state] of [[1, 'two'] as const, [0, 'one'] as const]) {
    const end = await client.agent.follow(started[index] as string, (at) => at.startsWith(REDIRECT))
    const answer = new URL(end.url).searchParams
    assert.is(answer.get('state'), state)
    await readTokens(await client.exchange(answer.get('code') as string))
  }
})

test('only GET is served, and nothing is taken from a Host header', async () => {
  const posted = await fetch(client.authorizeUrl(), { method: 'POST', redirect: 'manual' })
  assert.is(posted.status, 404)
  const { hostname, port } = new URL(server.issuer)
  const send = (method: string, path: string, more: Record<string, string> = {}, body?: string) =>
    new Promise<{ location: string | undefined; cookie: string; text: string }>((resolve, reject) => {
      const forwarded = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' }
      const headers = { host: `localhost:${port}`, ...forwarded, ...more }
      request({ hostname, port, method, path, headers }, (response) => {
        const cookie = (response.headers['set-cookie']?.[0] ?? '').split(';')[0] as string
        buffered(response).then((bytes) => {
          resolve({ location: response.headers.location, cookie, text: bytes.toString() })
        }, reject)
      })
        .on('error', reject)
        .end(body)
    })
  const url = new URL(client.authorizeUrl())
  const page = await send('GET', url.pathname + url.search)
  assert.not.match(page.text, 'evil.example')
  assert.not.match(page.text, 'localhost')
  const { action = '', token = '' } = parseConsent(page.text, url.href) ?? {}
  const form = { cookie: page.cookie, 'content-type': 'application/x-www-form-urlencoded' }
  const { location } = await send('POST', new URL(action).pathname, form, `token=${token}&decision=allow`)
  assert.is(new URL(location as string).searchParams.get('redirect_uri'), `${server.issuer}/oauth/callback`)
})

test.run()
