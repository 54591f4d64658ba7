/** Checks metadata and keys at every URL where clients look for them; they depend only on the configuration. */
import { generateKeyPairSync } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readSigningKeys } from '../../../dataplane/authserver/keys/key-files.ts'
import { eventually } from '../../support/eventually.ts'
import { postModern } from '../../support/gateway/post.ts'
import { readTokens, SCOPES, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'

const json = async (url: string) => {
  const response = await fetch(url, { headers: { origin: 'https://inspector.example' } })
  assert.is(response.status, 200, url)
  assert.is(response.headers.get('access-control-allow-origin'), '*')
  assert.is(response.headers.get('x-content-type-options'), 'nosniff')
  return (await response.json()) as Record<string, unknown>
}
const ecKey = () =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

test('an issuer with a path serves its metadata at every well-known place, and its endpoints below the path', async () => {
  const server = await startAuthServer({
    path: '/t',
    authServer: { authorizationEndpointBaseUrl: 'https://login.example/x' },
  })
  const { origin } = new URL(server.issuer)
  const documents = await Promise.all(
    [
      '/.well-known/oauth-authorization-server/t',
      '/t/.well-known/oauth-authorization-server',
      '/.well-known/oauth-authorization-server',
      '/.well-known/openid-configuration/t',
      '/t/.well-known/openid-configuration',
      '/.well-known/openid-configuration',
    ].map((path) => json(origin + path)),
  )
  const [oauth, , , oidc] = documents as [Record<string, unknown>, unknown, unknown, Record<string, unknown>]
  assert.equal(documents, [oauth, oauth, oauth, oidc, oidc, oidc])
  const methods = ['none']
  const { subject_types_supported, claims_supported, ...rest } = oidc
  assert.equal(rest, oauth)
  assert.equal(subject_types_supported, ['public'])
  assert.ok(claims_supported)
  assert.equal(oauth, {
    issuer: server.issuer,
    authorization_endpoint: 'https://login.example/x/oauth/authorize',
    token_endpoint: `${server.issuer}/oauth/token`,
    registration_endpoint: `${server.issuer}/oauth/register`,
    revocation_endpoint: `${server.issuer}/oauth/revoke`,
    introspection_endpoint: `${server.issuer}/oauth/introspect`,
    jwks_uri: `${server.issuer}/.well-known/jwks.json`,
    scopes_supported: ['openid', 'profile', 'email', 'offline_access', ...SCOPES],
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: methods,
    revocation_endpoint_auth_methods_supported: methods,
    introspection_endpoint_auth_methods_supported: methods,
    authorization_response_iss_parameter_supported: true,
    id_token_signing_alg_values_supported: ['ES256'],
  })
  const resource = await json(`${origin}/.well-known/oauth-protected-resource/mcp`)
  assert.equal(resource['authorization_servers'], [server.issuer])
  const client = await TestClient.register(server.issuer)
  const tokens = await client.login()
  assert.is(decodeJwt(tokens.access_token).iss, server.issuer)
  // Members and claims that only a configuration adds are missing.
  assert.equal(Object.keys(tokens).sort(), ['access_token', 'expires_in', 'refresh_token', 'scope', 'token_type'])
  assert.is((tokens as { token_type?: string }).token_type, 'Bearer')
  const unknown = ['amr', 'cnf', 'groups', 'tiss'].filter((claim) => claim in decodeJwt(tokens.access_token))
  assert.equal(unknown, [])
  assert.equal(Object.keys(resource).sort(), [
    'authorization_servers',
    'bearer_methods_supported',
    'resource',
    'scopes_supported',
  ])
  const refused = await fetch(server.gateway.url, { method: 'POST', body: '{}' })
  assert.match(refused.headers.get('www-authenticate') ?? '', /^Bearer (?!.*DPoP)/)
  assert.is(refused.headers.get('dpop-nonce'), null)
  const answer = await postModern(
    server.gateway.url,
    'server/discover',
    {},
    { authorization: `Bearer ${tokens.access_token}` },
  )
  assert.is(answer.status, 200)
  for (const path of [
    '/oauth/other',
    '/t/oauth/other',
    '/u/oauth/token',
    '/t/mcp',
    '/.well-known/openid-configuration/u',
  ])
    assert.is((await fetch(origin + path)).status, 404, path)
  await server.close()
})

test('pages of other origins may call endpoints without cookies, and no answer repeats the Host header', async () => {
  const server = await startAuthServer()
  for (const endpoint of ['token', 'register', 'revoke', 'introspect']) {
    const response = await fetch(`${server.issuer}/oauth/${endpoint}`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://inspector.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type,authorization',
      },
    })
    assert.is(response.status, 204, endpoint)
    assert.is(response.headers.get('access-control-allow-origin'), '*')
    assert.is(response.headers.get('access-control-allow-credentials'), null)
    assert.match(response.headers.get('access-control-allow-headers') ?? '', /authorization/)
  }
  const visited = await fetch(`${server.issuer}/oauth/authorize`, { headers: { origin: 'https://inspector.example' } })
  assert.is(visited.headers.get('access-control-allow-origin'), null)
  const { hostname, port } = new URL(server.issuer)
  const { request } = await import('node:http')
  const ask = (host: string, path = '/.well-known/oauth-authorization-server') =>
    new Promise<readonly unknown[]>((resolve, reject) => {
      request({ hostname, port, path, headers: { host, origin: 'https://inspector.example' } }, (response) => {
        response.resume()
        resolve([response.statusCode, response.headers['access-control-allow-origin']])
      })
        .on('error', reject)
        .end()
    })
  assert.equal(await ask('evil.example'), [403, '*'])
  assert.equal(await ask('evil.example', '/oauth/token'), [403, '*'])
  assert.equal(await ask('evil.example', '/oauth/authorize'), [403, undefined])
  assert.equal(await ask(`localhost:${port}`), [200, '*'])
  assert.equal(await ask(`localhost:${port}`, '/oauth/token'), [405, '*'])
  await server.close()
})

test('keys: public halves are published, the first key signs, and changed files are read again', async () => {
  const [one, two] = [ecKey(), ecKey()]
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs1', format: 'pem' })
  const server = await startAuthServer({
    authServer: { signingKeyFiles: ['one.pem', 'two.pem'] },
    async prepare(directory) {
      await writeFile(join(directory, 'one.pem'), one)
      await writeFile(join(directory, 'two.pem'), two)
    },
  })
  const replace = async (name: string, text: string | Buffer) => {
    await writeFile(join(server.gateway.directory, 'next'), text)
    await rename(join(server.gateway.directory, 'next'), join(server.gateway.directory, name))
  }
  const keys = async () => (await json(`${server.issuer}/.well-known/jwks.json`))['keys'] as Record<string, unknown>[]
  const ids = async () => (await keys()).map(({ kid }) => kid)
  const before = await keys()
  for (const key of before) assert.equal(Object.keys(key).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  const [first, second] = before.map(({ kid }) => kid)
  const client = await TestClient.register(server.issuer)
  const old = await client.login({ scope: 'openid tools:call' })
  assert.is(decodeProtectedHeader(old.access_token).kid, first)

  await replace('one.pem', rsa)
  await replace('two.pem', one)
  await eventually('the keys are read again', async () => !(await ids()).includes(second))
  assert.is((await ids())[1], first)
  const fresh = await client.login({ scope: 'openid tools:call' })
  assert.is(decodeProtectedHeader(fresh.access_token).alg, 'RS256')
  assert.is(decodeProtectedHeader(fresh.id_token ?? '').alg, 'RS256')
  for (const { access_token: token } of [old, fresh]) {
    const answer = await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })
    assert.is(answer.status, 200)
  }
  const refreshed = await readTokens(await client.refresh(old.refresh_token))
  assert.is(decodeProtectedHeader(refreshed.access_token).alg, 'RS256')

  const now = await ids()
  await replace('one.pem', 'no key at all')
  await eventually('it is logged', async () => {
    await ids()
    return server.gateway.lines.some((line) => /can’t be used/.test(String(line['msg'])))
  })
  assert.equal(await ids(), now)
  assert.not.match(JSON.stringify(server.gateway.lines), /no key at all|PRIVATE KEY/)
  await server.close()
})

test('without key files the log warns, and a reload of other settings keeps keys and logins', async () => {
  // An empty list counts as absent.
  const server = await startAuthServer({ authServer: { signingKeyFiles: [], hmacSecretFiles: [] } })
  try {
    const client = await TestClient.register(server.issuer)
    const tokens = await client.login()
    for (const what of ['signing keys', 'hmac secrets'])
      assert.ok(
        server.gateway.lines.some((line) => String(line['msg']).includes(`${what} are not configured`)),
        what,
      )
    await server.gateway.configure(server.config({ tokenLifespans: { accessTokenLifespan: '5m' } }))
    // Logins in progress continue when the configuration changes.
    await eventually('the new lifespan', async () => (await client.login()).expires_in === 300)
    const next = await readTokens(await client.refresh(tokens.refresh_token))
    assert.is(next.expires_in, 300)
    const { authServer: _none, ...plain } = server.config()
    await server.gateway.configure({ ...plain, incomingAuth: { type: 'anonymous' } })
    await eventually('it is gone', async () => (await fetch(`${server.issuer}/.well-known/jwks.json`)).status === 404)
  } finally {
    await server.close()
  }
})

test('a login that is fetching tokens while the configuration changes continues', async () => {
  const server = await startAuthServer()
  try {
    const client = await TestClient.register(server.issuer)
    let reloads = 0
    server.upstream.before = async ({ url = '' }) => {
      if (!url.startsWith('/token')) return false
      const before = (await server.gateway.status()).config
      await server.gateway.configure(server.config({ tokenLifespans: { accessTokenLifespan: '5m' } }))
      await eventually('it is in force', async () => (await server.gateway.status()).config !== before)
      await wait(100)
      reloads++
      return false
    }
    // The provider's keys are fetched later, by the server that was in force before.
    assert.is((await client.login()).expires_in, 300)
    assert.is(reloads, 1)
  } finally {
    await server.close()
  }
})

test('kinds of keys', () => {
  const pem = (curve: string) =>
    generateKeyPairSync('ec', { namedCurve: curve }).privateKey.export({ type: 'sec1', format: 'pem' }).toString()
  assert.equal(
    ['P-256', 'P-384', 'P-521'].map((curve) => readSigningKeys([pem(curve)]).alg),
    ['ES256', 'ES384', 'ES512'],
  )
  const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ type: 'pkcs8', format: 'pem' })
  const ed = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' })
  for (const text of [weak, ed, pem('secp256k1'), 'x', ''])
    assert.throws(() => readSigningKeys([text.toString()]), /^signing key 1 is/)
  assert.throws(() => readSigningKeys([]), /no signing key/)
})

test.run()
