/** Tests proofs of possession (DPoP) at two replicas of one gateway, which share state in Redis. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { calculateJwkThumbprint, exportJWK, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readGateway } from '../../../../dataplane/config/read/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { modern, post } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { Prover } from '../../../support/identity/prover.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { startRedis } from '../../../support/network/redis-server.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const RESOURCE = 'https://tools.example.com/mcp'

let backend: McpTestServer
let provider: IdentityProvider
let key: Prover
const stage = new RedisStage(test, () => backend.url)
test.before(async () => {
  backend = await startMcpServer({ name: 'b', mode: 'dual' })
  provider = await startIdentityProvider()
  key = await Prover.create()
})
test.after(async () => {
  await backend.close()
  await provider.close()
})

const configWithProofs = (dpop: object): Partial<TestConfig> =>
  ({
    resourceUrl: RESOURCE,
    incomingAuth: { type: 'oidc', oidc: { issuer: provider.issuer, audience: 'us', allowPrivateIP: true }, dpop },
  }) as Partial<TestConfig>

const list = modern('tools/list')
const send = (url: string, headers: Record<string, string>) => post(url, list.body, { ...list.headers, ...headers })
const mintBound = () => provider.mint({ aud: 'us', cnf: { jkt: key.jkt } })

test('a proof works once at two replicas, also if it is sent fifty times at once', async () => {
  const [one, two] = await stage.twoReplicas(configWithProofs({}))
  const token = await mintBound()
  const proof = await key.headers('POST', RESOURCE, token)
  assert.is((await send(one.url, proof)).status, 200)
  assert.is((await send(two.url, proof)).status, 401)
  const racing = await key.headers('POST', RESOURCE, token)
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => send(index % 2 === 0 ? one.url : two.url, racing)),
  )
  assert.is(answers.filter(({ status }) => status === 200).length, 1)
  assert.is(answers.filter(({ status }) => status === 401).length, 49)
})

test('with replays known per replica, the other replica accepts a proof once more', async () => {
  const [one, two] = await stage.twoReplicas(configWithProofs({ replay: 'replica' }))
  const proof = await key.headers('POST', RESOURCE, await mintBound())
  for (const status of [200, 401]) assert.is((await send(one.url, proof)).status, status)
  assert.is((await send(two.url, proof)).status, 200)
})

test('the nonce of one replica works at the other, also after the first one was killed', async () => {
  const [one, two] = await stage.oneToKill(configWithProofs({ nonce: 'required' }))
  await eventually('both are ready', async () => (await fetch(`${two.adminUrl}/readyz`)).ok)
  const token = await mintBound()
  const challenged = await send(one.url, await key.headers('POST', RESOURCE, token))
  assert.match(challenged.headers.get('www-authenticate') ?? '', /use_dpop_nonce/)
  const nonce = challenged.headers.get('dpop-nonce')
  assert.is((await send(two.url, await key.headers('POST', RESOURCE, token, { claims: { nonce } }))).status, 200)
  await one.end()
  assert.is((await send(two.url, await key.headers('POST', RESOURCE, token, { claims: { nonce } }))).status, 200)
})

test('while Redis is down requests with a proof get 503', async () => {
  const redis = await startRedis()
  const gateway = await startGateway({
    backends: [{ name: 'b', url: backend.url }],
    ...configWithProofs({}),
    sessionStorage: { redis: { addresses: [redis.address], dialTimeout: '1s', readTimeout: '1s', writeTimeout: '1s' } },
  })
  stage.cleanups.push(() => gateway.close())
  const token = await mintBound()
  assert.is((await send(gateway.url, await key.headers('POST', RESOURCE, token))).status, 200)
  await redis.stop()
  assert.is((await send(gateway.url, await key.headers('POST', RESOURCE, token))).status, 503)
})

test('the Redis of the authorization server is enough', async () => {
  const issuer = 'http://127.0.0.1:1'
  const config = {
    name: 'by-auth-server',
    backends: [{ name: 'b', url: backend.url }],
    ...configWithProofs({ replay: 'shared', nonce: 'required' }),
  } as TestConfig
  const oidc = { issuer, audience: 'us' }
  const own: TestConfig = {
    ...config,
    incomingAuth: { ...(config.incomingAuth as { type: 'oidc' }), oidc },
    authServer: {
      issuer,
      upstreamProviders: [{ name: 'x', type: 'oidc', oidcConfig: { issuerUrl: provider.issuer, clientId: 'c' } }],
      signingKeyFiles: ['key.pem'],
      hmacSecretFiles: ['hmac'],
      storage: { type: 'redis', redis: { addresses: [stage.redis.address] } },
    },
  }
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const start = async () => {
    const gateway = await startGateway(own, async (directory) => {
      writeFileSync(join(directory, 'key.pem'), pem)
      writeFileSync(join(directory, 'hmac'), 'h'.repeat(40))
    })
    stage.cleanups.push(() => gateway.close())
    await eventually('it is ready', async () => (await fetch(`${gateway.adminUrl}/readyz`)).ok)
    return gateway
  }
  const [one, two] = [await start(), await start()]
  const kid = await calculateJwkThumbprint(await exportJWK(createPublicKey(pem)))
  const token = await new SignJWT({ cnf: { jkt: key.jkt } })
    .setProtectedHeader({ alg: 'ES256', kid, typ: 'at+jwt' })
    .setIssuer(issuer)
    .setSubject('alice')
    .setAudience('us')
    .setIssuedAt()
    .setExpirationTime('5m')
    .sign(privateKey)
  const challenged = await send(one.url, await key.headers('POST', RESOURCE, token))
  const nonce = challenged.headers.get('dpop-nonce')
  const proof = await key.headers('POST', RESOURCE, token, { claims: { nonce } })
  assert.is((await send(two.url, proof)).status, 200)
  assert.is((await send(one.url, proof)).status, 401)
})

test('a configuration that shares replays among replicas without Redis is refused', async () => {
  const text = JSON.stringify({
    name: 'x',
    namespace: 'x',
    role: 'gateway',
    backends: [],
    ...configWithProofs({ replay: 'shared' }),
  })
  await assertRejects(() => readGateway(text, 'gateway.yaml'), /\/incomingAuth\/dpop\/replay: shared needs Redis/)
  const anonymous = JSON.stringify({ ...JSON.parse(text), incomingAuth: { type: 'anonymous', dpop: {} } })
  await assertRejects(() => readGateway(anonymous, 'gateway.yaml'), /\/incomingAuth\/dpop: must be left out/)
  const old = JSON.stringify({ ...JSON.parse(text), ...configWithProofs({ maxAge: '5m1s' }) })
  await assertRejects(() => readGateway(old, 'gateway.yaml'), /\/incomingAuth\/dpop\/maxAge: must be from 10s to 300s/)
})

async function assertRejects(run: () => unknown, message: RegExp): Promise<void> {
  try {
    await run()
  } catch (error) {
    assert.match((error as Error).message, message)
    return
  }
  assert.unreachable('it was accepted')
}

test.run()
