/** Tests clients that act for themselves (`client_credentials`), with a secret and with a key, at two replicas. */

import { randomBytes, randomUUID } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import {
  Client,
  ClientCredentialsProvider,
  PrivateKeyJwtProvider,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { decodeJwt, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import * as openid from 'openid-client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const OTHER = 'https://other.example/mcp'
const hmac = secret(randomBytes(32).toString('base64url'))
const secrets = { job: secret(randomUUID()), other: secret(randomUUID()) }
const keys = { robot: await generateKeyPair('ES256', { extractable: true }), far: await generateKeyPair('EdDSA') }
const buildKeySet = async (name: keyof typeof keys) => ({
  keys: [{ ...(await exportJWK(keys[name].publicKey)), kid: name }],
})

let redis: RedisServer
let raw: RawServer
/** The number of calls that reached the backend. */
let calls = 0
let server: AuthServerUnderTest
let replica: GatewayUnderTest
let grants: NonNullable<AuthServerConfig['inboundGrants']>
const host = createServer((request, response) => {
  const more = request.url === '/bundle' ? { kid: 'svid', use: 'jwt-svid' } : {}
  buildKeySet('far')
    .then(({ keys: [key] }) => ({ keys: [{ ...key, ...more }] }))
    .then((set) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(set)))
    .catch(() => response.destroy())
})

test.before(async () => {
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
  redis = await startRedis()
  raw = await startRawServer({
    era: 'modern',
    call(request) {
      calls++
      return answer(request, OK_RESULT)
    },
  })
  const prepare = async (folder: string) => {
    await writeFile(join(folder, 'hmac'), hmac)
    await writeFile(join(folder, 'job'), `${secrets.job}\n`)
    await writeFile(join(folder, 'other'), secrets.other)
    await writeFile(join(folder, 'robot.json'), JSON.stringify(await buildKeySet('robot')))
  }
  const storage = { type: 'redis' as const, redis: { addresses: [redis.address] } }
  const jwksUrl = `http://127.0.0.1:${(host.address() as AddressInfo).port}/keys`
  server = await startAuthServer({
    authServer: { hmacSecretFiles: ['hmac'], storage, allowedAudiences: [OTHER] },
    gateway: { backends: [{ name: 'b', url: raw.url }, buildInjectingBackend('c', raw.url, 'corp')] },
    prepare,
  })
  const { resource } = server
  grants = {
    clientCredentials: {
      clients: [
        {
          clientId: 'job',
          clientSecretFile: 'job',
          allowedResources: [resource],
          scopes: ['tools:call', 'tools:read'],
          groups: ['machines'],
        },
        { clientId: 'other', clientSecretFile: 'other', allowedResources: [resource, OTHER], scopes: ['tools:call'] },
        { clientId: 'robot', jwksFile: 'robot.json', allowedResources: [resource], scopes: ['tools:call'] },
        { clientId: 'far', jwksUrl, allowedResources: [resource], scopes: ['tools:call'] },
        { clientId: 'bare', clientSecretFile: 'other', allowedResources: [OTHER] },
      ],
    },
  }
  replica = await startGateway(server.config({ inboundGrants: grants }), async (folder) => {
    await prepare(folder)
    await writeFile(join(folder, 'upstream-secret'), 'nobody logs in here')
  })
  await use({})
})
test.after(async () => {
  host.close()
  await replica?.close()
  await server?.close()
  await raw?.close()
  await redis?.stop()
})

let inForce = ''
async function use(gateway: Partial<GatewayConfig>, authServer: Partial<AuthServerConfig> = { inboundGrants: grants }) {
  const text = JSON.stringify([gateway, authServer])
  if (text === inForce) return
  inForce = text
  const before = (await server.gateway.status()).config
  await server.gateway.configure(server.config(authServer, gateway))
  await eventually('it is in force', async () => (await server.gateway.status()).config !== before)
}

const nowInSeconds = () => Math.floor(Date.now() / 1000)
const GRANT = { grant_type: 'client_credentials' }
const basic = (id: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(password)}`).toString('base64')}`,
})
const ask = (fields: Record<string, string>, headers: Record<string, string> = {}, base = server.issuer) =>
  fetch(`${base}/oauth/token`, { method: 'POST', headers, body: new URLSearchParams({ ...GRANT, ...fields }) })
const askAs = (id: 'job' | 'other', fields: Record<string, string> = {}) =>
  ask({ client_id: id, client_secret: secrets[id], ...fields })

/** Returns an assertion of a client with a key. */
async function proof(name: keyof typeof keys, claims: Record<string, unknown> = {}) {
  const usual = {
    iss: name,
    sub: name,
    aud: server.issuer,
    jti: randomUUID(),
    iat: nowInSeconds(),
    exp: nowInSeconds() + 300,
  }
  const alg = name === 'robot' ? 'ES256' : 'EdDSA'
  const jwt = new SignJWT({ ...usual, ...claims }).setProtectedHeader({ alg, kid: name })
  return { client_assertion: secret(await jwt.sign(keys[name].privateKey)), client_assertion_type: TYPE }
}

const call = (token: string, tool = 'b_t') =>
  postModern(server.gateway.url, 'tools/call', { name: tool }, { authorization: `Bearer ${token}` })
const metadata = async () =>
  (await (await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)).json()) as Record<string, string[]>

test('a client gets a token by Basic, in the form and by its key, wherever its key is', async () => {
  await use({})
  const answers = [
    await ask({}, basic('job', secrets.job)),
    await askAs('job'),
    await ask({ client_id: 'robot', ...(await proof('robot')) }),
    await ask(await proof('far', { aud: `${server.issuer}/oauth/token` })),
  ]
  for (const [index, response] of answers.entries()) {
    assert.is(response.status, 200, String(index))
    assert.is(response.headers.get('cache-control'), 'no-store')
    const tokens = await readTokens(response)
    assert.equal(Object.keys(tokens).sort(), ['access_token', 'expires_in', 'scope', 'token_type'])
    const id = ['job', 'job', 'robot', 'far'][index] as string
    const claims = decodeJwt(tokens.access_token)
    assert.equal(
      [claims.iss, claims.sub, claims['client_id'], claims.aud],
      [server.issuer, `client#${id}`, id, server.resource],
    )
    assert.equal(claims['groups'], id === 'job' ? ['machines'] : undefined)
    assert.is(claims['scope'], id === 'job' ? 'tools:call tools:read' : 'tools:call')
    assert.is((claims.exp as number) - (claims.iat as number), 3600)
    assert.is((await call(tokens.access_token)).status, 200)
  }
})

test('openid-client gets a token by secret and by key', async () => {
  await use({})
  const options = { execute: [openid.allowInsecureRequests] }
  const url = new URL(server.issuer)
  for (const config of [
    await openid.discovery(url, 'job', secrets.job, openid.ClientSecretBasic(secrets.job), options),
    await openid.discovery(url, 'job', secrets.job, openid.ClientSecretPost(secrets.job), options),
    await openid.discovery(
      url,
      'robot',
      undefined,
      openid.PrivateKeyJwt({ key: keys.robot.privateKey, kid: 'robot' }),
      options,
    ),
  ]) {
    const tokens = await openid.clientCredentialsGrant(config, { resource: server.resource, scope: 'tools:call' })
    assert.is((await call(secret(tokens.access_token))).status, 200)
  }
})

test('clients of the SDK get tokens and call tools, by secret, by key and by an assertion of their platform', async () => {
  const platform = await startIdentityProvider()
  const { issuer, resource } = server
  const jwtBearerGrant = {
    maxAssertionAge: '5m',
    replay: 'reusable' as const,
    subjectBindings: [{ subject: 'workload', allowedResources: [resource] }],
  }
  await use({}, { inboundGrants: grants, trustedIssuers: [{ issuerUrl: platform.issuer, jwtBearerGrant }] })
  const assertion = secret(await platform.mint({ sub: 'workload', aud: issuer }))
  /** A workload with a token of its platform (workload identity federation): it has no client and no registration. */
  const workload = new ClientCredentialsProvider({ clientId: 'unused', clientSecret: 'unused', expectedIssuer: issuer })
  workload.prepareTokenRequest = () =>
    new URLSearchParams({ grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion })
  const federated = Object.assign(workload, { addClientAuthentication: () => undefined })
  try {
    for (const [subject, authProvider] of [
      [
        'client#job',
        new ClientCredentialsProvider({ clientId: 'job', clientSecret: secrets.job, expectedIssuer: issuer }),
      ],
      [
        'client#robot',
        new PrivateKeyJwtProvider({
          clientId: 'robot',
          privateKey: await exportJWK(keys.robot.privateKey),
          algorithm: 'ES256',
          expectedIssuer: issuer,
        }),
      ],
      [`${platform.issuer}#workload`, federated],
    ] as const) {
      const client = new Client({ name: 'machine', version: '1' })
      await client.connect(new StreamableHTTPClientTransport(new URL(server.gateway.url), { authProvider }))
      const { access_token: token } = unwrap(authProvider.tokens())
      assert.is(decodeJwt(secret(token)).sub, subject)
      const { tools } = await client.listTools()
      assert.ok(tools.some(({ name }) => name === 'b_t'))
      await client.close()
    }
  } finally {
    await platform.close()
  }
})

test('each mistake gets its error code and no token', async () => {
  await use({})
  for (const [what, response, expected] of [
    ['a wrong secret', ask({}, basic('job', secrets.other)), '401 invalid_client'],
    ['a wrong secret in the form', ask({ client_id: 'job', client_secret: 'x' }), '401 invalid_client'],
    ['an empty secret', ask({ client_id: 'job', client_secret: '' }), '401 invalid_client'],
    ['no secret', ask({ client_id: 'job' }), '401 invalid_client'],
    ['nobody', ask({}), '401 invalid_client'],
    ['an unknown client', ask({}, basic('nobody', secrets.job)), '401 invalid_client'],
    ['the subject in place of the id', ask({}, basic('client#job', secrets.job)), '401 invalid_client'],
    ['a secret of a client with a key', ask({}, basic('robot', 'x')), '401 invalid_client'],
    ['a key of a client with a secret', ask(await proof('robot', { iss: 'job', sub: 'job' })), '401 invalid_client'],
    ['the key of another client', ask(await proof('far', { iss: 'robot', sub: 'robot' })), '401 invalid_client'],
    ['both', ask(await proof('robot'), basic('robot', 'x')), '400 invalid_request'],
    ['another resource', askAs('job', { resource: OTHER }), '400 invalid_target'],
    ['an unknown resource', askAs('job', { resource: 'https://evil.example' }), '400 invalid_target'],
    ['one of two resources, unsaid', askAs('other'), '400 invalid_target'],
    ['another scope', askAs('other', { resource: OTHER, scope: 'tools:read' }), '400 invalid_scope'],
    ['one scope too many', askAs('job', { scope: 'tools:call admin' }), '400 invalid_scope'],
    [
      'a scope of a client without any',
      ask({ scope: 'tools:call' }, basic('bare', secrets.other)),
      '400 invalid_scope',
    ],
    [
      'a refresh',
      ask({ grant_type: 'refresh_token', refresh_token: 'x' }, basic('job', secrets.job)),
      '400 unauthorized_client',
    ],
    [
      'a code',
      ask({ grant_type: 'authorization_code', code: 'x' }, basic('job', secrets.job)),
      '400 unauthorized_client',
    ],
    [
      'an exchange',
      ask({ grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange' }, basic('job', secrets.job)),
      '400 unauthorized_client',
    ],
  ] as const)
    assert.is(await refusal(response), expected, what)
  const registered = await TestClient.register(server.issuer)
  assert.is(await refusal(ask({ client_id: registered.id })), '400 unauthorized_client')
  assert.is(((await (await askAs('other', { resource: OTHER })).json()) as { scope: string }).scope, 'tools:call')
  const bare = await readTokens(await ask({}, basic('bare', secrets.other)))
  assert.equal([bare.scope, decodeJwt(bare.access_token)['scope']], [undefined, ''])
})

test('no login is possible for a machine client', async () => {
  await use({})
  const client = new TestClient(server.issuer, 'job')
  const response = await client.agent.get(client.authorizeUrl({}))
  assert.is(response.status, 400)
})

test('a client’s assertion works once, at whichever replica', async () => {
  await use({})
  const assertion = await proof('robot')
  const bases = [server.gateway.base, replica.base]
  const all = await Promise.all(Array.from({ length: 10 }, (_, index) => ask(assertion, {}, bases[index % 2])))
  assert.equal(all.map(({ status }) => status).sort(), [200, ...Array(9).fill(401)])
  for (const one of all) if (one.status === 200) await readTokens(one)
  assert.is(await refusal(ask(assertion, {}, replica.base)), '401 invalid_client')
})

test('policies see the client as the subject, which no person can have', async () => {
  const rule = 'permit(principal == Client::"client#job", action, resource);'
  await use({ authz: { policies: [rule] } })
  const machine = (await readTokens(await askAs('job'))).access_token
  assert.is((await call(machine)).status, 200)
  const client = await TestClient.register(server.issuer)
  for (const user of ['client#job', 'job']) {
    server.upstream.user = user
    client.agent.forget(new URL(server.upstream.issuer).host)
    const { access_token: token } = await client.login({ resource: server.resource })
    assert.not.match(String(decodeJwt(token).sub), '#')
    assert.is((await call(token)).status, 403, user)
  }
  // If policies use the login at a provider, its users can't have the name of a client either.
  await use({ authz: { policies: [rule], primaryUpstreamProvider: 'corp' } })
  server.upstream.user = 'client#job'
  client.agent.forget(new URL(server.upstream.issuer).host)
  assert.is((await call((await client.login({ resource: server.resource })).access_token)).status, 403)
  assert.is((await call(machine)).status, 403)
  server.upstream.user = 'alice'
})

test('policies see the groups of the configuration', async () => {
  await use({ authz: { policies: ['permit(principal in Group::"machines", action, resource);'] } })
  assert.is((await call((await readTokens(await askAs('job'))).access_token)).status, 200)
  assert.is((await call((await readTokens(await ask(await proof('robot')))).access_token)).status, 403)
})

test('if a backend needs the token of a login, a machine gets a clear error and nothing is sent', async () => {
  await use({})
  const before = calls
  const { access_token: token } = await readTokens(await askAs('job'))
  const { status, json, text } = await call(token, 'c_t')
  assert.is(calls, before)
  assert.ok(status >= 400 || json?.error !== undefined || json?.result?.isError === true, text)
  assert.match(text, /corp|log in/)
  assert.is((await call(token)).status, 200)
})

test('a client revokes and introspects its token; when the client is gone, so is the token', async () => {
  await use({})
  const one = (await readTokens(await askAs('job'))).access_token
  const two = (await readTokens(await askAs('job'))).access_token
  const credentials = { client_id: 'job', client_secret: secrets.job }
  const client = new TestClient(server.issuer, 'job')
  const introspect = async (token: string) =>
    (await (await client.post('introspect', { token, ...credentials })).json()) as Record<string, unknown>
  assert.is((await introspect(one))['sub'], 'client#job')
  const foreign = { token: one, client_id: 'other', client_secret: secrets.other }
  assert.is(await refusal(client.post('revoke', foreign)), '400 invalid_grant')
  assert.is((await client.post('revoke', { token: one, ...credentials })).status, 200)
  assert.equal(await introspect(one), { active: false })
  assert.is((await call(one)).status, 401)
  assert.is((await call(two)).status, 200)
  const clients = grants.clientCredentials?.clients.filter(({ clientId }) => clientId !== 'job') ?? []
  await use({}, { inboundGrants: { clientCredentials: { clients } } })
  assert.is(await refusal(askAs('job')), '401 invalid_client')
  assert.is((await call(two)).status, 401)
  const introspection = await client.post('introspect', {
    token: two,
    client_id: 'other',
    client_secret: secrets.other,
  })
  assert.equal(await introspection.json(), { active: false })
})

test('secrets and keys are read again when their files change', async () => {
  await use({})
  const write = async (name: string, text: string) => {
    await writeFile(join(server.gateway.directory, `${name}.new`), text)
    await rename(join(server.gateway.directory, `${name}.new`), join(server.gateway.directory, name))
  }
  const fresh = secret(randomUUID())
  const readStatus = async (password: string) => (await ask({}, basic('job', password))).status
  await write('job', fresh)
  await eventually('the new secret', async () => (await readStatus(fresh)) === 200)
  assert.is(await readStatus(secrets.job), 401)
  for (const text of ['', '{', '{"keys":[]}', '{"keys":[{"kty":"oct","k":"AAAA"}]}']) {
    await write('robot.json', text)
    await eventually('the file', async () => (await ask(await proof('robot'))).status === 503)
  }
  await write('robot.json', JSON.stringify({ keys: [{ ...(await exportJWK(keys.far.publicKey)), kid: 'robot' }] }))
  await eventually('other keys', async () => (await ask(await proof('robot'))).status === 401)
  await write('robot.json', JSON.stringify(await buildKeySet('robot')))
  await eventually('the keys', async () => (await ask(await proof('robot'))).status === 200)
  await write('job', secrets.job)
  await eventually('the secret', async () => (await readStatus(secrets.job)) === 200)
})

const SPIFFE = 'urn:ietf:params:oauth:client-assertion-type:jwt-spiffe'

/** Returns an SVID as a SPIFFE agent issues it to a workload: without `iss`, `jti` and `iat`. */
async function svid(
  sub: unknown,
  claims: object = {},
  { key = keys.robot.privateKey, kid = 'robot', typ = 'JWT' } = {},
) {
  const jwt = new SignJWT({ sub, aud: [server.issuer], exp: nowInSeconds() + 300, ...claims } as JWTPayload)
  return secret(await jwt.setProtectedHeader({ alg: 'ES256', kid, typ }).sign(key))
}
const withSvid = async (text: string, fields: Record<string, string> = {}, base?: string) =>
  ask({ client_assertion: text, client_assertion_type: SPIFFE, ...fields }, {}, base)

test('a SPIFFE workload gets tokens by its SVID repeatedly; other SVIDs are refused', async () => {
  const publish = async (folder: string) => {
    const key = await exportJWK(keys.robot.publicKey)
    const bundle = {
      keys: [
        { ...key, kid: 'robot', use: 'jwt-svid' },
        { ...key, kid: 'x', use: 'x509-svid' },
      ],
    }
    await writeFile(join(folder, 'bundle.json'), JSON.stringify({ spiffe_sequence: 1, ...bundle }))
  }
  await publish(server.gateway.directory)
  const methods = ['spiffe_jwt' as const]
  const clients = { scopes: ['tools:call'], resources: [server.resource], methods }
  await use(
    {},
    {
      spiffeTrustDomains: [
        { name: 'near', trustDomain: 'near.example', methods, bundleSource: { type: 'file', file: 'bundle.json' } },
        {
          name: 'far',
          trustDomain: 'far.example',
          methods,
          bundleSource: {
            type: 'bundle_endpoint',
            endpoint: { url: `http://127.0.0.1:${(host.address() as AddressInfo).port}/bundle`, profile: 'https_web' },
          },
        },
      ],
      inboundGrants: {
        spiffeClientAuth: [
          { ...clients, trustDomainRef: 'near', principalPattern: 'spiffe://near.example/ns/a/*', clientId: 'team-a' },
          { ...clients, trustDomainRef: 'near', principalPattern: 'spiffe://near.example/ns/a/one', clientId: 'one' },
          { ...clients, trustDomainRef: 'far', principalPattern: 'spiffe://far.example/job', clientId: 'far-job' },
        ],
      },
    },
  )
  const readSubject = async (response: Response) => decodeJwt((await readTokens(response)).access_token).sub
  const two = await svid('spiffe://near.example/ns/a/two')
  for (let count = 0; count < 3; count++) assert.is(await readSubject(await withSvid(two)), 'client#team-a')
  assert.is(await readSubject(await ask({ client_assertion: two, client_assertion_type: TYPE })), 'client#team-a')
  assert.is(await readSubject(await withSvid(two, { client_id: 'team-a' })), 'client#team-a')
  assert.is(await readSubject(await withSvid(two, { client_id: 'spiffe://near.example/ns/a/two' })), 'client#team-a')
  const one = await svid('spiffe://near.example/ns/a/one', { iss: 'https://spire.example' })
  assert.is(await readSubject(await withSvid(one)), 'client#one')
  assert.is(await readSubject(await withSvid(one, { client_id: 'team-a' })), 'client#team-a')
  const mintFar = async (sub = 'spiffe://far.example/job', more = {}) =>
    secret(
      await new SignJWT({ sub, aud: server.issuer, exp: nowInSeconds() + 300, ...more })
        .setProtectedHeader({ alg: 'EdDSA', kid: 'svid' })
        .sign(keys.far.privateKey),
    )
  const token = (await readTokens(await withSvid(await mintFar()))).access_token
  assert.is((await call(token)).status, 200)
  const UNKNOWN = '401 invalid_client'
  for (const [what, text] of Object.entries({
    'the same path in another domain': await mintFar('spiffe://far.example/ns/a/two'),
    'the same path in a domain of nobody': await svid('spiffe://else.example/ns/a/two'),
    'a domain whose keys are others': await svid('spiffe://far.example/job'),
    'another path': await svid('spiffe://near.example/ns/b/two'),
    'a path that only begins so': await svid('spiffe://near.example/ns/ab'),
    'the path itself': await svid('spiffe://near.example/ns/a'),
    'a path that leads up': await svid('spiffe://near.example/ns/a/../b'),
    'a slash at its end': await svid('spiffe://near.example/ns/a/'),
    'a port': await svid('spiffe://near.example:1/ns/a/two'),
    'another server': await svid('spiffe://near.example/ns/a/two', { aud: ['https://other.example'] }),
    'this and another server': await svid('spiffe://near.example/ns/a/two', { aud: [server.issuer, 'x'] }),
    'no server': await svid('spiffe://near.example/ns/a/two', { aud: undefined }),
    'no end': await svid('spiffe://near.example/ns/a/two', { exp: undefined }),
    'its end': await svid('spiffe://near.example/ns/a/two', { exp: nowInSeconds() - 60 }),
    'two hours': await svid('spiffe://near.example/ns/a/two', { exp: nowInSeconds() + 7200 }),
    'another key': await svid(
      'spiffe://near.example/ns/a/two',
      {},
      { key: (await generateKeyPair('ES256')).privateKey },
    ),
    'a key for certificates': await svid('spiffe://near.example/ns/a/two', {}, { kid: 'x' }),
    'an access token': await svid('spiffe://near.example/ns/a/two', {}, { typ: 'at+jwt' }),
    'a list': await svid(['spiffe://near.example/ns/a/two']),
    'a client with a key': (await proof('robot')).client_assertion,
    rubbish: 'x',
  }))
    assert.is(await refusal(withSvid(text)), UNKNOWN, what)
  assert.is(await refusal(withSvid(two, { client_id: 'one' })), UNKNOWN, 'another client')
  assert.is(await refusal(withSvid(two, { client_id: 'far-job' })), UNKNOWN, 'another domain’s client')
  assert.is(await refusal(ask({ client_id: 'team-a' })), UNKNOWN, 'no proof')
  assert.is(await refusal(ask({ client_id: 'team-a', client_secret: '' })), UNKNOWN, 'an empty secret')
  assert.is(await refusal(withSvid(two, { resource: OTHER })), '400 invalid_target')
  assert.is(await refusal(withSvid(two, { scope: 'tools:read' })), '400 invalid_scope')
  assert.is(
    await refusal(withSvid(two, { grant_type: 'refresh_token', refresh_token: 'x' })),
    '400 unauthorized_client',
  )
  const { token_endpoint_auth_methods_supported: methodsListed = [] } = await metadata()
  assert.equal(methodsListed, ['none', 'spiffe_jwt'])
})

test('metadata lists the grant and its authentication methods only if there are machine clients', async () => {
  await use({})
  const listed = await metadata()
  assert.ok(listed['grant_types_supported']?.includes('client_credentials'))
  const methods = ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt']
  assert.equal(listed['token_endpoint_auth_methods_supported'], methods)
  assert.ok(listed['token_endpoint_auth_signing_alg_values_supported']?.includes('ES256'))
  assert.not.match(JSON.stringify(listed), 'robot')
  const clients = grants.clientCredentials?.clients.filter(({ clientSecretFile }) => clientSecretFile) ?? []
  await use({}, { inboundGrants: { clientCredentials: { clients } } })
  assert.equal((await metadata())['token_endpoint_auth_methods_supported'], methods.slice(0, 3))
  await use({}, {})
  assert.equal((await metadata())['token_endpoint_auth_methods_supported'], ['none'])
  assert.not.ok((await metadata())['grant_types_supported']?.includes('client_credentials'))
  assert.is(await refusal(askAs('job')), '400 unsupported_grant_type')
})

test.run()
