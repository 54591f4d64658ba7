/** Checks that each optional parameter of an authorization request (OpenID Connect Core 3.1.2.1) works or is refused. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'

let server: AuthServerUnderTest
let client: TestClient
test.before(async () => {
  server = await startAuthServer({ gateway: { trustProxyHeaders: true } })
  client = await TestClient.register(server.issuer)
})
// Long requests count as several of one network, so each test uses another.
let networks = 0
test.before.each(() => {
  client.agent.headers['x-forwarded-for'] = `192.0.2.${++networks}`
})
test.after(() => server.close())

const scope = 'openid tools:call'
const long = 'x'.repeat(10_000)
const deep = '['.repeat(3_000)

for (const [name, values, code] of [
  ['prompt', ['none'], 'login_required'],
  ['prompt', ['select_account', 'create', 'none login', 'x', '\0', '%', long], 'invalid_request'],
  ['max_age', ['-1', 'x', '1.5', '1e999', '9007199254740993', '\0', long], 'invalid_request'],
  ['id_token_hint', ['x', 'eyJhbGciOiJub25lIn0.e30.', 'e30.e30.AAAA', '\0', long], 'invalid_request'],
  ['request', ['e30.e30.', '\0', long], 'request_not_supported'],
  [
    'request_uri',
    ['x', '\0', 'urn:ietf:params:oauth:request_uri:x', 'http://127.0.0.1:1/'],
    'request_uri_not_supported',
  ],
  ['registration', ['{}', deep], 'registration_not_supported'],
  ['response_mode', ['form_post', 'fragment', 'jwt', 'web_message', 'x', '\0', '__proto__'], 'invalid_request'],
  ['response_type', ['none', 'x', '\0'], 'unsupported_response_type'],
  ['code_challenge_method', ['plain', '__proto__', '\0'], 'invalid_request'],
  ['code_challenge', ['\0'.repeat(43), '%'.repeat(43), 'x'.repeat(42), long], 'invalid_request'],
  ['scope', ['\0', long, '%'], 'invalid_scope'],
  ['resource', ['\0', 'x', '__proto__', 'https://other.example/mcp'], 'invalid_target'],
] as const)
  test(`${name}: the client gets ${code} if it can’t be satisfied`, async () => {
    for (const value of values) {
      const answer = await client.authorize({ scope, [name]: value })
      const what = `${name} = ${JSON.stringify(value).slice(0, 40)}`
      assert.is(answer.get('error'), code, what)
      assert.is(answer.get('code'), null, what)
      assert.is(answer.get('state'), 'the-state', what)
      assert.is(answer.get('iss'), server.issuer, what)
    }
  })

test('any state comes back unchanged', async () => {
  for (const state of ['\0', '\r\nSet-Cookie: a=b', '%00&code=x', '"><script>', '\u202e😀', 's'.repeat(4_000)])
    assert.is((await client.authorize({ state })).get('state'), state, JSON.stringify(state).slice(0, 40))
})

const BREAKS = [
  '\r\nX-Injected: 1',
  '\nX-Injected: 1',
  '\rX-Injected: 1',
  '\u010d\u010aX-Injected: 1',
  '%0d%0aX-Injected: 1',
]
const SPLIT = ['state', 'scope', 'resource', 'redirect_uri', 'client_id', 'nonce', 'login_hint', 'prompt', 'display']

test('no parameter splits the headers of an answer', async () => {
  const places = [
    ...SPLIT.map((name) => (text: string) => client.authorizeUrl({ [name]: `openid${text}` })),
    ...['callback?error=x', 'callback?code=x&state=', 'sessions?done=', 'link?ticket=', 'key?ticket='].map(
      (path) => (text: string) => `${server.issuer}/oauth/${path}${encodeURIComponent(text)}`,
    ),
  ]
  for (const text of BREAKS)
    for (const place of places) {
      const url = place(text)
      // Each request comes from another network, so that none is refused for its number.
      const network = `198.51.${100 + (networks >> 8)}.${++networks & 255}`
      const answer = await client.agent.get(url, { 'x-forwarded-for': network })
      await answer.body?.cancel()
      assert.is(answer.headers.get('x-injected'), null, url)
      assert.ok(answer.status !== 429 && answer.status < 500, `${answer.status} ${url}`)
    }
})

// The provider may have authenticated the user earlier; max_age limits the age of that login.
test('a login with max_age has its time in the ID token', async () => {
  for (const age of [0, 1, 3600]) {
    const before = Math.floor(Date.now() / 1000)
    const { id_token: token = '' } = await client.login({ scope, max_age: `${age}` })
    const { auth_time: at } = decodeJwt(token)
    assert.ok(Number(at) >= before - age && Number(at) <= Date.now() / 1000, `${before} ${age} ${at}`)
  }
})

test('a nonce comes back in the ID token', async () => {
  for (const nonce of ['n', '\0', '"}', 'n'.repeat(4_000)]) {
    const { id_token: token = '' } = await client.login({ scope, nonce })
    assert.is(decodeJwt(token)['nonce'], nonce)
  }
})

// A server ignores unknown parameters (RFC 6749 section 3.1); requested claims may be ignored too (OpenID Connect Core
// 5.5).
test('a request for more than is supported still succeeds', async () => {
  for (const more of [
    { claims: '{"id_token":{"email":{"essential":true}}}' },
    { claims: '{"__proto__":{"id_token":[]}}' },
    { claims: deep },
    { response_mode: 'query' },
    { response_mode: '' },
    { prompt: 'consent' },
    { prompt: 'login' },
    { prompt: 'login consent' },
    { login_hint: '\0' },
    { acr_values: '__proto__', ui_locales: 'x', display: 'popup' },
    { dpop_jkt: 'x', authorization_details: '[' },
    { constructor: 'x', toString: 'x', ['__proto__']: 'x', 'a[b]': 'x' },
  ]) {
    const { id_token: token = '', ...tokens } = await client.login({ scope, ...more })
    assert.is(tokens.scope, scope, JSON.stringify(more).slice(0, 60))
    assert.is(decodeJwt(token)['email'], undefined)
  }
})

test('the log has no failure of the gateway’s own', () => {
  assert.equal(
    server.gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
})

test.run()
