/** Tests policies that use the login at one provider instead of the gateway's own token. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const hmacSecret = secret(randomBytes(32).toString('base64url'))
const EVERYTHING = 'permit(principal, action, resource);'
const FOR_DEV =
  'permit(principal == Client::"dev", action, resource) when { principal has claim_email && principal.claim_email == "dev@example.com" };'

let redis: RedisServer
let raw: RawServer
let server: AuthServerUnderTest
let client: TestClient

test.before(async () => {
  redis = await startRedis()
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  server = await startAuthServer({
    providers: ['corp', 'code'],
    authServer: {
      hmacSecretFiles: ['hmac'],
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
    },
    gateway: { backends: [buildInjectingBackend('b', raw.url, 'corp')] },
    prepare: (directory) => writeFile(join(directory, 'hmac'), hmacSecret),
  })
  client = await TestClient.register(server.issuer)
})
test.after(async () => {
  await server.close()
  await raw.close()
  await redis.stop()
})

const judge = async (...policies: string[]) => {
  await use({ authz: { policies, primaryUpstreamProvider: 'code' } })
}
let inForce = ''
async function use(changes: Partial<GatewayConfig>, authServer = {}): Promise<void> {
  const text = JSON.stringify([changes, authServer])
  if (text === inForce) return
  inForce = text
  const before = (await server.gateway.status()).config
  await server.gateway.configure(server.config(authServer, changes))
  await eventually('it is in force', async () => (await server.gateway.status()).config !== before)
}
async function loginAs(corp: string, code: string): Promise<string> {
  for (const [index, user] of [corp, code].entries()) {
    const upstream = server.upstreams[index]
    if (upstream === undefined) continue
    upstream.user = user
    client.agent.forget(new URL(upstream.issuer).host)
  }
  return (await client.login()).access_token
}
const post = (method: string, params: Record<string, unknown>, token: string) =>
  postModern(server.gateway.url, method, params, { authorization: `Bearer ${token}` })
const call = async (token: string) => (await post('tools/call', { name: 'b_t' }, token)).status
const listTools = async (token: string) => {
  const { json } = await post('tools/list', {}, token)
  return json.result.tools.map(({ name }) => name)
}

test('subject and claims are those of the ID token of that provider', async () => {
  await judge(FOR_DEV)
  const dev = await loginAs('alice', 'dev')
  const other = await loginAs('alice', 'other')
  assert.is(decodeJwt(dev).sub, decodeJwt(other).sub, 'one user of the gateway')
  assert.is(await call(dev), 200)
  assert.equal(await listTools(dev), ['b_t'])
  assert.is(await call(other), 403)
  assert.equal(await listTools(other), [])
  assert.is(await call(dev), 200, 'neither changes the rights of the other')
})

test('the gateway’s own subject and claims are not used', async () => {
  const token = await loginAs('dev', 'other')
  const { sub, email } = decodeJwt(token)
  assert.is(email, 'dev@example.com')
  await judge(FOR_DEV, `permit(principal == Client::"${sub}", action, resource);`)
  assert.is(await call(token), 403)
  assert.equal(await listTools(token), [])
})

test('a token from an assertion is judged by the assertion’s claims if its provider is the judging one', async () => {
  const [corp, code] = server.upstreams as [LoginProvider, LoginProvider]
  const issuer = ({ issuer: issuerUrl }: LoginProvider, linkTo?: string) => ({
    issuerUrl,
    jwtBearerGrant: {
      maxAssertionAge: '5m',
      subjectRules: [{ name: 'all', matcher: 'true', allowedResources: [server.resource] }],
      ...(linkTo !== undefined && { linkTo }),
    },
  })
  const policies = [
    'permit(principal == Client::"dev", action, resource) when { principal has claim_team && principal.claim_team == "x" };',
    'permit(principal == Client::"mail", action, resource) when { principal has claim_email };',
    ...['scope', 'client_id', 'jti', 'act', 'resource'].map(
      (name) => `forbid(principal, action, resource) when { principal has claim_${name} };`,
    ),
  ]
  const backends = [{ name: 'b', url: raw.url }]
  const restartWithPrimary = (primaryUpstreamProvider: string) =>
    use(
      { backends, authz: { policies, primaryUpstreamProvider } },
      { trustedIssuers: [issuer(corp, 'corp'), issuer(code)] },
    )
  const redeem = async (from: LoginProvider, claims: Record<string, unknown>) => {
    const assertion = await from.mint(
      { aud: server.issuer, resource: server.resource, scope: 'tools:call', ...claims },
      'JWT',
    )
    const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }
    return client.post('token', grant)
  }
  const readStatus = async (...args: Parameters<typeof redeem>) =>
    call((await readTokens(await redeem(...args))).access_token)
  await restartWithPrimary('corp')
  const token = (await readTokens(await redeem(corp, { sub: 'dev', team: 'x' }))).access_token
  assert.is(await call(token), 200)
  assert.not('team' in decodeJwt(token))
  assert.is(await readStatus(corp, { sub: 'dev', team: 'y' }), 403)
  assert.is(await readStatus(corp, { sub: 'other', team: 'x' }), 403)
  // This provider does not know the user of the same name at another issuer.
  assert.is(await readStatus(code, { sub: 'dev', team: 'x' }), 403)
  for (const [verified, status] of [
    [undefined, 200],
    [true, 200],
    [false, 403],
    ['false', 403],
  ] as const)
    assert.is(
      await readStatus(corp, { sub: 'mail', email: 'm@example.com', email_verified: verified }),
      status,
      String(verified),
    )
  assert.is(await readStatus(corp, { sub: 'dev', team: 'x', act: { sub: 'agent' } }), 200)
  assert.is(await refusal(redeem(corp, { sub: 'dev', team: 'x', more: 'x'.repeat(8192) })), '400 invalid_grant')
  await restartWithPrimary('code')
  assert.is(await call(token), 403)
  assert.is(await readStatus(corp, { sub: 'dev', team: 'x', more: 'x'.repeat(8192) }), 403)
})

test('policies don’t see an e-mail address that the provider has not verified', async () => {
  const forEmail =
    'permit(principal, action, resource) when { principal has claim_email && principal.claim_email == "dev@example.com" };'
  for (const provider of [undefined, 'code']) {
    await use({ authz: { policies: [forEmail], ...(provider && { primaryUpstreamProvider: provider }) } })
    for (const [isEmailVerified, status] of [
      [true, 200],
      ['true', 200],
      [false, 403],
      ['false', 403],
      [undefined, 403],
    ] as const) {
      for (const upstream of server.upstreams) upstream.isEmailVerified = isEmailVerified
      const token = await loginAs('dev', 'dev')
      assert.is(await call(token), status, `${provider} ${isEmailVerified}`)
      assert.is(decodeJwt(token)['email'] !== undefined, status === 200)
    }
  }
  for (const upstream of server.upstreams) upstream.isEmailVerified = true
})

test('a login without the judging provider is denied everything', async () => {
  const { upstreamProviders } = server.config().authServer as NonNullable<GatewayConfig['authServer']>
  await use({}, { upstreamProviders: upstreamProviders.slice(0, 1) })
  const token = await loginAs('alice', 'dev')
  assert.is(await call(token), 200)
  await judge(EVERYTHING)
  assert.is(await call(token), 403)
  assert.equal(await listTools(token), [])
  assert.is(await call(await loginAs('alice', 'dev')), 200)
  // Without the provider, policies use the token itself again.
  await use({ authz: { policies: [EVERYTHING] } })
  assert.is(await call(token), 200)
})

test('while provider tokens can’t be read, calls fail for the moment and nothing is denied for good', async () => {
  await judge(FOR_DEV)
  const token = await loginAs('alice', 'dev')
  await redis.stop()
  const { status, json } = await post('tools/call', { name: 'b_t' }, token)
  assert.is(status, 503)
  assert.not.match(JSON.stringify(json), /redis|127\.0\.0\.1/i)
  redis = await startRedis({ port: redis.port })
})

test('POST /explain uses the claims in its request', async () => {
  await judge(FOR_DEV)
  const explain = async (caller: object | undefined) => {
    const body = JSON.stringify({ caller, tool: 'b_t' })
    const response = await fetch(`${server.gateway.adminUrl}/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    assert.is(response.status, 200, await response.clone().text())
    return (await response.json()) as { allowed: boolean; reason: string }
  }
  assert.ok((await explain({ sub: 'dev', email: 'dev@example.com' })).allowed)
  assert.not.ok((await explain({ sub: 'dev' })).allowed)
  const nobody = await explain(undefined)
  assert.not.ok(nobody.allowed)
  assert.match(nobody.reason, /has not logged in at "code"/)
})

test('a judging provider that does not exist, or has no ID tokens, makes the configuration invalid', async () => {
  for (const provider of ['other', 'corp']) {
    const oauth2 = {
      name: 'corp',
      type: 'oauth2' as const,
      oauth2Config: {
        authorizationEndpoint: 'http://127.0.0.1:1/a',
        tokenEndpoint: 'http://127.0.0.1:1/t',
        clientId: 'x',
      },
    }
    const authz = { policies: [EVERYTHING], primaryUpstreamProvider: provider }
    await server.gateway.configure(server.config({ upstreamProviders: [oauth2] }, { authz, backends: [] }))
    const findRefusal = async () =>
      (await server.gateway.status()).refused.find(({ pointer }) => pointer === '/authz/primaryUpstreamProvider')
    await eventually('it is refused', async () => (await findRefusal()) !== undefined)
    assert.match((await findRefusal())?.message ?? '', provider === 'corp' ? /of type oidc/ : /must name one of/)
    await server.gateway.configure(server.config())
    await eventually('it is good again', async () => (await server.gateway.status()).refused.length === 0)
  }
})

test('a judging provider that no login visits makes the configuration invalid', async () => {
  const { upstreamProviders = [] } = server.config().authServer ?? {}
  const later = {
    ...(upstreamProviders[0] as (typeof upstreamProviders)[number]),
    name: 'later',
    loginPolicy: 'onDemand' as const,
  }
  const authz = { policies: [EVERYTHING], primaryUpstreamProvider: 'later' }
  await server.gateway.configure(server.config({ upstreamProviders: [...upstreamProviders, later] }, { authz }))
  const findRefusal = async () => (await server.gateway.status()).refused[0]
  await eventually('it is refused', async () => (await findRefusal()) !== undefined)
  assert.match((await findRefusal())?.message ?? '', 'whose loginPolicy is required')
  await server.gateway.configure(server.config())
  await eventually('it is good again', async () => (await server.gateway.status()).refused.length === 0)
})

test.run()
