/** Tests revocation and introspection: a token that one replica revokes is refused by the other. */

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const hmacSecret = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

let redis: RedisServer
let server: AuthServerUnderTest
const prepare = async (directory: string) => {
  await writeFile(join(directory, 'hmac'), hmacSecret)
  await writeFile(join(directory, 'key.pem'), key)
}
test.before(async () => {
  redis = await startRedis()
  server = await startAuthServer({
    authServer: {
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      allowConfidentialClientRegistration: true,
      insecureAllowConfidentialOverLoopbackHTTP: true,
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
    },
    prepare,
  })
})
test.after(async () => {
  await server.close()
  await redis.stop()
})

const ask = async (token: string, url = server.gateway.url) =>
  (await postModern(url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status
const postToken = async (client: TestClient, endpoint: 'introspect' | 'revoke', token: string) => {
  const own = { client_id: client.id, ...(client.secret === undefined ? {} : { client_secret: client.secret }) }
  return client.post(endpoint, { ...own, token })
}
const introspect = async (client: TestClient, token: string) =>
  (await (await postToken(client, 'introspect', token)).json()) as Record<string, unknown>

for (const which of ['access_token', 'refresh_token'] as const)
  test(`revoking the ${which} ends the login, at the other replica within seconds`, async () => {
    const client = await TestClient.register(server.issuer)
    const tokens = await client.login()
    const session = await client.login()
    const other = await startGateway(server.config(), async (directory) => {
      await writeFile(join(directory, 'upstream-secret'), server.upstream.client.secret)
      await prepare(directory)
    })
    // Both replicas have cached the token.
    for (const url of [server.gateway.url, other.url]) assert.is(await ask(tokens.access_token, url), 200)
    const commands = openRedis(redis.port)
    const readKeys = async () =>
      (await commands.keys('*')).filter((name) => name.includes(String(decodeJwt(tokens.access_token)['tsid'])))
    assert.ok((await readKeys()).length > 0)
    const response = await postToken(client, 'revoke', tokens[which])
    assert.is(response.status, 200)
    assert.is(await response.text(), '')
    assert.is(await ask(tokens.access_token), 401)
    await eventually('the other replica refuses it', async () => (await ask(tokens.access_token, other.url)) === 401)
    assert.is(await refusal(client.refresh(tokens.refresh_token)), '400 invalid_grant')
    assert.equal(await introspect(client, tokens.access_token), { active: false })
    assert.equal(await readKeys(), [])
    for (const url of [server.gateway.url, other.url]) assert.is(await ask(session.access_token, url), 200)
    // A replica that starts later knows it at once.
    await other.close()
    const late = await startGateway(server.config(), async (directory) => {
      await writeFile(join(directory, 'upstream-secret'), server.upstream.client.secret)
      await prepare(directory)
    })
    assert.is(await ask(tokens.access_token, late.url), 401)
    assert.is(await ask(session.access_token, late.url), 200)
    await late.close()
    commands.disconnect()
  })

test('a refresh at the other replica works, and the same answer comes from both', async () => {
  const client = await TestClient.register(server.issuer)
  const tokens = await client.login()
  const other = await startGateway(server.config(), async (directory) => {
    await writeFile(join(directory, 'upstream-secret'), server.upstream.client.secret)
    await prepare(directory)
  })
  const fields = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token, client_id: client.id }
  const [here, there] = await Promise.all(
    [server.gateway.base, other.base].map(async (base) =>
      readTokens(await fetch(`${base}/oauth/token`, { method: 'POST', body: new URLSearchParams(fields) })),
    ),
  )
  assert.equal(here, there)
  await other.close()
})

test('a client may introspect and revoke only tokens that concern it', async () => {
  const client = await TestClient.register(server.issuer)
  const stranger = await TestClient.register(server.issuer)
  const server2 = await TestClient.register(server.issuer, {
    redirect_uris: ['https://app.example/cb'],
    token_endpoint_auth_method: 'client_secret_post',
  })
  const tokens = await client.login()
  const { sub, exp, iat, jti } = decodeJwt(tokens.access_token)
  const expected = {
    iss: server.issuer,
    sub,
    aud: server.resource,
    exp,
    iat,
    jti,
    client_id: client.id,
    token_type: 'Bearer',
  }
  for (const asking of [client, server2])
    assert.equal(await introspect(asking, tokens.access_token), {
      active: true,
      scope: 'tools:call tools:read',
      ...expected,
    })
  assert.is((await introspect(client, tokens.refresh_token))['active'], true)
  for (const token of [tokens.access_token, tokens.refresh_token])
    assert.equal(await introspect(stranger, token), { active: false })
  assert.is(await refusal(postToken(stranger, 'revoke', tokens.access_token)), '400 invalid_grant')
  assert.is(await ask(tokens.access_token), 200)
  assert.is(await refusal(client.post('introspect', { token: tokens.access_token })), '401 invalid_client')
  assert.is(await refusal(client.post('revoke', { token: tokens.access_token })), '401 invalid_client')
  assert.is(await refusal(client.post('introspect', { client_id: client.id })), '400 invalid_request')
})

test('a token of another issuer is inactive, and revoking it does nothing', async () => {
  const client = await TestClient.register(server.issuer)
  const tokens = await client.login()
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const claims = decodeJwt(tokens.access_token)
  const jwk = await exportJWK(privateKey)
  const forged = await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' }).sign(privateKey)
  const unsigned = `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.${tokens.access_token.split('.')[1]}.`
  for (const token of [forged, unsigned, 'x', '...', JSON.stringify(jwk).slice(0, 20), 'y'.repeat(50_000)]) {
    assert.equal(await introspect(client, token), { active: false })
    assert.is((await postToken(client, 'revoke', token)).status, 200)
  }
  for (const token of [forged, unsigned]) assert.is(await ask(token), 401)
  assert.is(await ask(tokens.access_token), 200)
  const { id_token: idToken } = await client.login({ scope: 'openid' })
  assert.is(await ask(idToken ?? ''), 401)
  assert.equal(await introspect(client, idToken ?? ''), { active: false })
})

test.run()
