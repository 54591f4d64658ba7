/** Tests client registration: what is accepted and refused, and its limits. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { NetworkLimit } from '../../../../dataplane/authserver/clients/network-limit.ts'
import { RegistrationRefused, readRegistration } from '../../../../dataplane/authserver/clients/registration.ts'
import { REDIRECT, refusal, SCOPES, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

const scopes = ['openid', 'profile', 'email', 'offline_access', ...SCOPES]
const rules = { scopes, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
const ok = { redirect_uris: [REDIRECT] }

function readCode(document: unknown, changes = {}): string {
  try {
    readRegistration(document, { ...rules, ...changes })
    return 'ok'
  } catch (error) {
    if (!(error instanceof RegistrationRefused)) throw error
    return error.code
  }
}

test('redirect URIs', () => {
  for (const uri of [
    'https://app.example/cb',
    'https://app.example:8443/cb?x=1',
    'http://localhost/cb',
    'http://localhost:3000/cb',
    'http://127.0.0.1/cb',
    'http://[::1]:1/cb',
    'https://localhost/cb',
    'cursor://anysphere.cursor-retrieval/oauth/callback',
    'vscode://x/y',
    'com.example.app:/cb',
    'https://claude.ai/api/mcp/auth_callback',
  ])
    assert.is(readCode({ redirect_uris: [uri] }), 'ok', uri)
  for (const uri of [
    'http://app.example/cb',
    'http://localhost.evil.example/cb',
    'http://localhost./cb',
    'http://127.0.0.2/cb',
    'http://2130706433/cb',
    'http://0x7f000001/cb',
    'http://[::ffff:127.0.0.1]/cb',
    'http://localhost@evil.example/cb',
    'https://user:pass@app.example/cb',
    'https://@app.example/cb',
    'https://app.example/cb#',
    'https://app.example/cb#x',
    'https://app.example/c b',
    'https://app.example\\@evil.example/',
    'https://аpp.example/cb',
    'https://app.example/\n',
    'javascript:alert(1)',
    'JAVASCRIPT:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'blob:https://x/y',
    'vbscript:x',
    '/cb',
    'app.example/cb',
    '//app.example/cb',
    'http:app.example',
    'https://',
    '',
    `https://app.example/${'x'.repeat(2048)}`,
    1,
    null,
    {},
    [],
  ])
    assert.is(readCode({ redirect_uris: [uri] }), 'invalid_redirect_uri', String(uri))
  for (const uris of [
    undefined,
    null,
    [],
    'https://app.example/cb',
    {},
    Array.from({ length: 10 }, (_, i) => `https://a.example/${i}${'x'.repeat(1_000)}`),
    Array.from({ length: 11 }, (_, i) => `https://a.example/${i}`),
  ])
    assert.is(readCode({ redirect_uris: uris }), 'invalid_redirect_uri')
})

test('other metadata', () => {
  for (const [fields, expected] of [
    [{ client_name: 'x'.repeat(256) }, 'ok'],
    [{ client_name: 'x'.repeat(257) }, 'invalid_client_metadata'],
    [{ client_name: 'Cl\u0430ude' }, 'invalid_client_metadata'],
    [{ client_name: 'x\u202Ey' }, 'invalid_client_metadata'],
    [{ client_name: 'x\ny' }, 'invalid_client_metadata'],
    [{ client_name: { toString: 'x' } }, 'invalid_client_metadata'],
    [{ software_id: 5 }, 'invalid_client_metadata'],
    [{ grant_types: ['authorization_code'] }, 'ok'],
    [{ grant_types: ['refresh_token'] }, 'invalid_client_metadata'],
    [{ grant_types: ['authorization_code', 'client_credentials'] }, 'ok'],
    [{ grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:token-exchange'] }, 'ok'],
    [{ grant_types: 'authorization_code' }, 'invalid_client_metadata'],
    [{ response_types: ['code'] }, 'ok'],
    [{ response_types: ['token'] }, 'invalid_client_metadata'],
    [{ response_types: ['code', 'token'] }, 'ok'],
    [{ response_types: [] }, 'invalid_client_metadata'],
    [{ token_endpoint_auth_method: 'client_secret_basic' }, 'invalid_client_metadata'],
    [{ token_endpoint_auth_method: 'private_key_jwt' }, 'invalid_client_metadata'],
    [{ token_endpoint_auth_method: ['none'] }, 'invalid_client_metadata'],
    [{ application_type: 'native' }, 'ok'],
    [{ application_type: 'other' }, 'invalid_client_metadata'],
    [{ scope: 'openid tools:call' }, 'ok'],
    [{ scope: ['openid', 'tools:call', 'openid'] }, 'ok'],
    [{ scope: 'tools' }, 'ok'],
    [{ scope: 'tools:callx openid' }, 'ok'],
    [{ scope: 7 }, 'invalid_client_metadata'],
    [{ scope: [7] }, 'invalid_client_metadata'],
    [{ unknown: { any: 'thing' }, client_id: 'mine', client_secret: 'mine' }, 'ok'],
  ] as const)
    assert.is(readCode({ ...ok, ...fields }), expected, JSON.stringify(fields).slice(0, 80))
  for (const document of [null, [], 'x', 5, undefined]) assert.is(readCode(document), 'invalid_client_metadata')
  assert.is(
    readRegistration({ ...ok, scope: 'openid' }, { ...rules, baselineScopes: ['tools:read'] }).scope,
    'openid tools:read',
  )
  assert.is(readCode(JSON.parse('{"__proto__":{"redirect_uris":["https://x.example/"]}}')), 'invalid_redirect_uri')
})

test('a client registers with keys only where that is allowed, and with keys that can be used', () => {
  const keys = (count: number, more = {}) =>
    Array.from({ length: count }, () => ({ kty: 'RSA', n: 'x', e: 'y', ...more }))
  const method = { token_endpoint_auth_method: 'private_key_jwt' }
  const address = 'https://app.example/keys'
  for (const [fields, expected] of [
    [{ jwks: { keys: keys(1) } }, 'ok'],
    [{ jwks: { keys: keys(20) } }, 'ok'],
    [{ jwks_uri: address }, 'ok'],
    [{ jwks_uri: address, token_endpoint_auth_signing_alg: 'ES256' }, 'ok'],
    [{ jwks_uri: address, token_endpoint_auth_signing_alg: null }, 'ok'],
    [{ jwks_uri: address, redirect_uris: ['cursor://x/y'] }, 'ok'],
    [{}, 'invalid_client_metadata'],
    [{ jwks: { keys: keys(1) }, jwks_uri: address }, 'invalid_client_metadata'],
    [{ jwks: { keys: keys(21) } }, 'invalid_client_metadata'],
    [{ jwks: { keys: keys(1, { x5c: ['x'.repeat(9_000)] }) } }, 'invalid_client_metadata'],
    [{ jwks: { keys: keys(1, { d: 'z' }) } }, 'invalid_client_metadata'],
    [{ jwks: { keys: [] } }, 'invalid_client_metadata'],
    [{ jwks: { keys: [{ kty: 'oct', k: 'AAAA' }] } }, 'invalid_client_metadata'],
    [{ jwks: '{"keys":[]}' }, 'invalid_client_metadata'],
    [{ jwks_uri: 'http://app.example/keys' }, 'invalid_client_metadata'],
    [{ jwks_uri: 'http://127.0.0.1/keys' }, 'invalid_client_metadata'],
    [{ jwks_uri: [address] }, 'invalid_client_metadata'],
    [{ jwks_uri: `https://app.example/${'x'.repeat(2_048)}` }, 'invalid_client_metadata'],
    [{ jwks_uri: address, token_endpoint_auth_signing_alg: 'HS256' }, 'invalid_client_metadata'],
    [{ jwks_uri: address, token_endpoint_auth_signing_alg: 'none' }, 'invalid_client_metadata'],
    [{ jwks_uri: address, token_endpoint_auth_signing_alg: ['RS256'] }, 'invalid_client_metadata'],
  ] as const) {
    const document = { ...ok, ...method, ...fields }
    assert.is(readCode(document, { allowKeys: true }), expected, JSON.stringify(fields).slice(0, 80))
    assert.is(readCode(document, { allowConfidential: true }), 'invalid_client_metadata')
  }
  const onLoopback = { ...ok, ...method, jwks_uri: 'http://127.0.0.1:1/keys' }
  assert.is(readCode(onLoopback, { allowKeys: true, isLocal: true }), 'ok')
  const secrets = { ...ok, token_endpoint_auth_method: 'client_secret_basic' }
  assert.is(readCode(secrets, { allowKeys: true }), 'invalid_client_metadata')
  // Keys that a client does not use are not stored.
  const registered = readRegistration(
    { ...ok, jwks: { keys: keys(1) }, jwks_uri: address },
    { ...rules, allowKeys: true },
  )
  assert.not.ok('jwks' in registered || 'jwks_uri' in registered)
})

test('a client gets the supported part of its request, and null counts as absent', () => {
  const registered = readRegistration(
    {
      ...ok,
      client_name: null,
      software_id: null,
      token_endpoint_auth_method: null,
      application_type: null,
      client_uri: null,
      grant_types: ['implicit', 'authorization_code', 'urn:x', 7],
      response_types: ['code', 'id_token', 'code token'],
      scope: 'mcp:all tools:call offline tools:call',
    },
    rules,
  )
  assert.equal(registered, {
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'web',
    scope: 'tools:call',
  })
  const least = readRegistration({ ...ok, scope: 'claudeai', grant_types: null, response_types: null }, rules)
  assert.is(least.scope, scopes.join(' '))
  assert.equal(least.grant_types, ['authorization_code', 'refresh_token'])
  const many = Array.from({ length: 1_000 }, (_, index) => `s${index}`).join(' ')
  assert.is(readRegistration({ ...ok, scope: `openid ${many}` }, rules).scope, 'openid')
})

test('clients with a secret, where they are allowed', async () => {
  const forced = 'https://forced.example/cb'
  const server = await startAuthServer({
    authServer: {
      allowConfidentialClientRegistration: true,
      insecureAllowConfidentialOverLoopbackHTTP: true,
      forceConfidentialRedirectUris: [forced],
    },
  })
  const redirect = 'https://app.example/cb'
  for (const method of ['client_secret_basic', 'client_secret_post']) {
    const client = await TestClient.register(server.issuer, {
      redirect_uris: [redirect],
      token_endpoint_auth_method: method,
    })
    const other = await TestClient.register(server.issuer, {
      redirect_uris: [redirect],
      token_endpoint_auth_method: method,
    })
    assert.match(client.secret ?? '', /^[\w-]{43}$/)
    assert.is.not(client.secret, other.secret)
    const { refresh_token: token } = await client.login({ redirect_uri: redirect })
    const fields = { grant_type: 'refresh_token', refresh_token: token }
    assert.is(await refusal(client.post('token', { ...fields, client_id: client.id })), '401 invalid_client')
    assert.is(
      await refusal(client.post('token', { ...fields, client_id: client.id, client_secret: 'x' })),
      '401 invalid_client',
    )
    assert.is(
      await refusal(client.post('token', { ...fields, client_id: client.id, client_secret: other.secret ?? '' })),
      '401 invalid_client',
    )
    const authorization = `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString('base64')}`
    assert.is(
      await refusal(client.post('token', { ...fields, client_secret: client.secret ?? '' }, { authorization })),
      '400 invalid_request',
    )
    assert.is((await client.post('token', fields, { authorization })).status, 200)
    // These clients need PKCE too.
    const refused = await client.agent.get(client.authorizeUrl({ redirect_uri: redirect, code_challenge: undefined }))
    assert.match(await refused.text(), 'error=invalid_request')
  }
  const created = await TestClient.register(server.issuer, { redirect_uris: [forced] })
  assert.match(created.secret ?? '', /^[\w-]{43}$/)
  assert.not.match(JSON.stringify(server.gateway.lines), created.secret ?? '')
  await server.close()
  for (const uri of ['http://localhost/cb', 'https://localhost/cb', 'https://127.0.0.1/cb', 'cursor://x/y'])
    assert.is(
      readCode({ redirect_uris: [uri], token_endpoint_auth_method: 'client_secret_post' }, { allowConfidential: true }),
      'invalid_redirect_uri',
      uri,
    )
})

test('over HTTP: the answer, invalid bodies, and a limit on registrations', async () => {
  using _clock = stoppedClock()
  const server = await startAuthServer()
  const client = new TestClient(server.issuer)
  const response = await client.post(
    'register',
    JSON.stringify({ ...ok, client_name: 'Name', client_secret: 'mine', x: 1 }),
  )
  assert.is(response.status, 201)
  assert.is(response.headers.get('cache-control'), 'no-store')
  const { client_id: id, client_id_issued_at: at, ...rest } = (await response.json()) as Record<string, unknown>
  assert.match(id as string, /^[\w-]{22}$/)
  assert.ok(Math.abs((at as number) - Date.now() / 1000) < 60)
  assert.equal(rest, {
    client_name: 'Name',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'web',
    scope: scopes.join(' '),
  })
  assert.is(await refusal(client.post('register', '{')), '400 invalid_client_metadata')
  assert.is(await refusal(client.post('register', JSON.stringify({ x: 'y'.repeat(70_000) }))), '413 invalid_request')
  assert.is(await refusal(client.post('register', { redirect_uris: REDIRECT })), '400 invalid_client_metadata')
  const answers: string[] = []
  for (let count = 0; count < 4; count++) answers.push(await refusal(client.post('register', JSON.stringify(ok))))
  assert.is(answers.at(-1), '429 temporarily_unavailable')
  await server.close()
})

test('a network may register one client a second without affecting others, up to a limit for all', () => {
  let now = 0
  const limit = new NetworkLimit({ now: () => now })
  const countAccepted = (address: string, times: number) =>
    Array.from({ length: times }, () => limit.take(address)).filter(Boolean).length
  assert.is(countAccepted('192.0.2.1', 9), 5)
  assert.is(countAccepted('2001:db8::1', 9), 5)
  assert.is(countAccepted('2001:db8::2', 9), 0)
  now += 1_000
  assert.is(countAccepted('192.0.2.1', 9), 1)
  let all = 0
  for (let host = 2; host < 200; host++) all += countAccepted(`192.0.2.${host}`, 5)
  assert.ok(all >= 40 && all <= 50, String(all))
  now += 10_000
  assert.ok(limit.take('192.0.2.1', 3))
  // A request for the whole limit at once is allowed.
  assert.not.ok(limit.take('192.0.2.1', 100))
  assert.ok(limit.take('198.51.100.1', 100))
  assert.not.ok(limit.take('198.51.100.1'))
})

test('neither a wide IPv6 network nor ten addresses use up the limit of others', () => {
  const ipv6 = (host: number, group: string) => `2001:db8:1:${group}${host.toString(16).padStart(2, '0')}::1`
  const floods: Readonly<Record<string, (host: number) => string>> = {
    'a /64': (host) => `2001:db8:1:1::${host.toString(16)}`,
    'a /56': (host) => ipv6(host % 256, 'aa'),
    'a /48': (host) => `2001:db8:1:${(host * 97).toString(16)}::1`,
    'ten addresses': (host) => `192.0.2.${host % 10}`,
    'ten networks of /48': (host) => `2001:db8:${(host % 10).toString(16)}:${host.toString(16)}::1`,
  }
  for (const [what, addressOf] of Object.entries(floods)) {
    let now = 0
    const limit = new NetworkLimit({ now: () => now })
    let taken = 0
    for (let round = 0; round < 60; round++, now += 100)
      for (let host = 0; host < 300; host++) if (limit.take(addressOf(host))) taken++
    const isOne = what.startsWith('a ')
    assert.ok(taken <= (isOne ? 50 : 100), `${what}: ${taken}`)
    for (let person = 0; person < 3; person++) assert.ok(limit.take(`198.51.100.${person}`), what)
    assert.ok(limit.take('2001:db8:ffff::1'), what)
  }
})

test.run()
