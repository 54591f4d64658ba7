/**
 * Tests assertions of trusted issuers as a grant (RFC 7523): their subject, audience and single use, over each kind of
 * storage.
 */

import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import {
  type IdentityProvider,
  type MintOptions,
  startIdentityProvider,
} from '../../../support/network/identity-provider.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const OTHER = 'https://other.example/mcp'
const LISTED = 'https://listed.example'
const ID_JAG = { header: { typ: 'oauth-id-jag+jwt' } }

const agentSecret = secret(randomBytes(24).toString('base64url'))
const hmac = secret(randomBytes(32).toString('base64url'))

for (const type of ['memory', 'redis'] as const) {
  const test = suite(`assertions in ${type}`)
  let redis: RedisServer | undefined
  let server: AuthServerUnderTest
  let replica: GatewayUnderTest | undefined
  let idp: IdentityProvider
  let quiet: IdentityProvider
  let anybody: TestClient
  let agent: TestClient

  test.before(async () => {
    redis = type === 'redis' ? await startRedis() : undefined
    idp = await startIdentityProvider()
    quiet = await startIdentityProvider()
    const binding = { subject: 'ci', allowedResources: [OTHER] }
    const grant = { maxAssertionAge: '2m', acceptedAudiences: [LISTED], defaultScopes: ['tools:read'] }
    const authServer: Partial<AuthServerConfig> = {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      allowedAudiences: [OTHER],
      hmacSecretFiles: ['hmac'],
      storage: redis === undefined ? { type } : { type, redis: { addresses: [redis.address] } },
      delegateClients: [
        { clientId: 'agent', clientSecretFile: 'agent', audiences: [OTHER], scopes: ['tools:call'] },
        { clientId: 'bot', clientSecretFile: 'agent', audiences: [OTHER], scopes: ['tools:call'] },
      ],
      trustedIssuers: [
        {
          issuerUrl: idp.issuer,
          jwtBearerGrant: {
            ...grant,
            subjectBindings: [binding, { subject: 'deploy', allowedResources: [OTHER, 'https://third.example'] }],
          },
        },
        { issuerUrl: quiet.issuer, allowedDelegateClients: ['*'] },
      ],
    }
    const prepare = async (folder: string) => {
      await writeFile(join(folder, 'agent'), agentSecret)
      await writeFile(join(folder, 'hmac'), hmac)
      await writeFile(join(folder, 'upstream-secret'), 'not used here')
    }
    server = await startAuthServer({ authServer, prepare })
    if (redis !== undefined) replica = await startGateway(server.config(), prepare)
    anybody = new TestClient(server.issuer)
    agent = new TestClient(server.issuer, 'agent')
    agent.secret = agentSecret
  })
  test.after(async () => {
    await replica?.close()
    await server?.close()
    await redis?.stop()
    await idp?.close()
    await quiet?.close()
  })

  const mint = (claims: object = {}, options: MintOptions = {}) =>
    idp.mint({ sub: 'ci', aud: server.issuer, ...claims }, options)
  const fields = (assertion: string, more: Record<string, string> = {}) => ({ grant_type: BEARER, assertion, ...more })
  const redeem = (assertion: string, more: Record<string, string> = {}) =>
    anybody.post('token', fields(assertion, more))
  const nowInSeconds = () => Math.floor(Date.now() / 1000)

  test('an assertion gives a token without a client', async () => {
    const response = await redeem(await mint({ act: { sub: 'pipeline' } }))
    assert.is(response.headers.get('cache-control'), 'no-store')
    const tokens = await readTokens(response)
    assert.equal(Object.keys(tokens).sort(), ['access_token', 'expires_in', 'scope', 'token_type'])
    assert.equal([tokens.expires_in, tokens.scope], [3600, 'tools:call tools:read'])
    const claims = decodeJwt(tokens.access_token)
    const name = `${idp.issuer}#ci`
    assert.equal([claims.iss, claims.sub, claims.aud, claims['client_id']], [server.issuer, name, OTHER, name])
    assert.equal(claims['act'], { iss: idp.issuer, sub: 'pipeline' })
    assert.is(claims['tsid'], undefined)
    const headers = { authorization: `Bearer ${tokens.access_token}` }
    assert.is((await postModern(server.gateway.url, 'server/discover', {}, headers)).status, 401)
    assert.is((await redeem(await mint({ aud: [LISTED] }))).status, 200)
    assert.is((await redeem(await mint({}, { header: { typ: undefined } }))).status, 200)
    assert.is((await redeem(await mint({ jti: undefined }, { algorithm: 'ES256' }))).status, 200)
  })

  test('an assertion works once, at whichever replica', async () => {
    const token = await mint()
    // A refused request does not use the assertion up.
    assert.is(await refusal(redeem(token, { resource: 'https://evil.example' })), '400 invalid_target')
    assert.is(await refusal(redeem(token, { scope: 'all' })), '400 invalid_scope')
    const post = (base: string) =>
      fetch(`${base}/oauth/token`, { method: 'POST', body: new URLSearchParams(fields(token)) })
    const bases = [server.gateway.base, replica?.base ?? server.gateway.base]
    const all = await Promise.all(Array.from({ length: 10 }, (_, index) => post(bases[index % 2] as string)))
    assert.equal(all.map(({ status }) => status).sort(), [200, ...Array(9).fill(400)])
    for (const one of all.filter(({ status }) => status === 200)) await readTokens(one)
    assert.is(await refusal(redeem(token)), '400 invalid_grant')
    // Another assertion with the same `jti`.
    const { jti } = decodeJwt(token)
    assert.is(await refusal(redeem(await mint({ jti, nonce: 1 }))), '400 invalid_grant')
    for (const jti of [undefined, 7, '']) {
      const nameless = await mint({ jti, nonce: String(jti) }, { algorithm: 'ES256' })
      assert.is((await redeem(nameless)).status, 200)
      assert.is(await refusal(redeem(nameless)), '400 invalid_grant')
      // The other valid signature of the same text (ECDSA is malleable).
      const [head, body, signature] = nameless.split('.') as [string, string, string]
      const bytes = Buffer.from(signature, 'base64url')
      const order = BigInt('0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551')
      const s = order - BigInt(`0x${bytes.subarray(32).toString('hex')}`)
      const other = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex')])
      const again = secret(`${head}.${body}.${other.toString('base64url')}`)
      assert.is(await refusal(redeem(again)), '400 invalid_grant')
    }
  })

  test('an assertion for another audience, or of an issuer that is not trusted for it, is refused', async () => {
    const stranger = await startIdentityProvider()
    try {
      const forged = await stranger.mint({ sub: 'ci', aud: server.issuer, iss: idp.issuer })
      for (const [name, token] of Object.entries({
        'another gateway': await mint({ aud: 'https://another.example' }),
        'this and another': await mint({ aud: [server.issuer, 'https://another.example'] }),
        'no audience': await mint({ aud: undefined }),
        'an empty list': await mint({ aud: [] }),
        'the token endpoint': await mint({ aud: `${server.issuer}/oauth/token` }),
        'another subject': await mint({ sub: 'somebody' }),
        'a prefix': await mint({ sub: 'ci2' }),
        'a pattern': await mint({ sub: '*' }),
        'no subject': await mint({ sub: undefined }),
        'too old': await mint({ iat: nowInSeconds() - 200 }),
        'of the future': await mint({ iat: nowInSeconds() + 100 }),
        'of no time': await mint({ iat: undefined }),
        expired: await mint({ iat: nowInSeconds() - 100, exp: nowInSeconds() - 40 }),
        'without an end': await mint({ exp: undefined }),
        'not yet': await mint({ nbf: nowInSeconds() + 100 }),
        'an access token': await mint({}, { header: { typ: 'at+jwt' } }),
        'another type': await mint({}, { header: { typ: 'logout+jwt' } }),
        'a scope that is a list': await mint({ scope: ['tools:call'] }),
        'an issuer without this grant': await quiet.mint({ sub: 'ci', aud: server.issuer }),
        'another issuer': await stranger.mint({ sub: 'ci', aud: server.issuer }),
        'a forged one': forged,
        'our name': await idp.mint({ sub: 'ci', aud: server.issuer, iss: server.issuer }),
        'one that is bound to a key': await mint({ cnf: { jkt: 'x' } }),
        'one for some details alone': await mint({ authorization_details: [{ type: 'payment' }] }),
        'details that are empty': await mint({ authorization_details: [] }),
        'another one by sub_id': await mint({ sub_id: { format: 'iss_sub', iss: idp.issuer, sub: 'cj' } }),
        'the subject of another issuer by sub_id': await mint({
          sub_id: { format: 'iss_sub', iss: quiet.issuer, sub: 'ci' },
        }),
        'an e-mail by sub_id': await mint({ sub_id: { format: 'email', email: 'ci' } }),
        'a sub_id that is a text': await mint({ sub_id: 'ci' }),
        'no signature': `${Buffer.from('{"alg":"none"}').toString('base64url')}.${forged.split('.')[1]}.`,
        rubbish: 'x',
        'a lot of it': 'x.'.repeat(10_000),
      }))
        assert.is(await refusal(redeem(secret(token))), '400 invalid_grant', name)
      assert.is(await refusal(anybody.post('token', { grant_type: BEARER })), '400 invalid_request')
      const twice = [...Object.entries(fields('a')), ['assertion', 'b']] as [string, string][]
      assert.is(await refusal(anybody.post('token', twice)), '400 invalid_request')
      assert.equal([...stranger.requests.keys()], [])
    } finally {
      await stranger.close()
    }
  })

  test('resources and scopes are bounded by the subject’s rule and by the assertion', async () => {
    const ask = async (claims: object, more: Record<string, string> = {}) => {
      const response = await redeem(await mint(claims), more)
      if (response.status !== 200) return refusal(response)
      const { access_token, scope } = await readTokens(response)
      return `${decodeJwt(access_token).aud} ${scope}`
    }
    const both = 'tools:call tools:read'
    assert.is(await ask({}, { resource: OTHER }), `${OTHER} ${both}`)
    assert.is(await ask({}, { resource: server.resource }), '400 invalid_target')
    assert.is(await ask({ sub: 'deploy' }), '400 invalid_target')
    assert.is(await ask({ sub: 'deploy' }, { resource: 'https://third.example' }), `https://third.example ${both}`)
    assert.is(await ask({ sub: 'deploy', resource: OTHER }), `${OTHER} ${both}`)
    assert.is(await ask({ sub: 'deploy', resource: [OTHER] }), `${OTHER} ${both}`)
    assert.is(
      await ask({ sub: 'deploy', resource: OTHER }, { resource: 'https://third.example' }),
      '400 invalid_target',
    )
    for (const resource of [[OTHER, 'https://third.example'], 7, {}, null, server.resource])
      assert.is(await ask({ resource }), '400 invalid_target', JSON.stringify(resource))
    assert.is(await ask({ scope: 'tools:read of-another-server' }), `${OTHER} tools:read`)
    assert.is(await ask({ scope: 'tools:read' }, { scope: 'tools:call' }), '400 invalid_scope')
    assert.is(await ask({ scope: '' }), '400 invalid_scope')
    for (const scope of ['openid', 'offline_access', 'tools:call other'])
      assert.is(await ask({}, { scope }), '400 invalid_scope')
  })

  test('an assertion for a client can be redeemed only by this client, with its secret', async () => {
    const jag = (claims: object = {}) => mint({ client_id: 'agent', ...claims }, ID_JAG)
    const tokens = await readTokens(await agent.token(fields(await jag({ scope: 'tools:call', resource: OTHER }))))
    assert.is(decodeJwt(tokens.access_token)['client_id'], 'agent')
    assert.is(await refusal(redeem(await jag())), '401 invalid_client')
    assert.is(await refusal(redeem(await jag(), { client_id: 'agent', client_secret: 'x' })), '401 invalid_client')
    const bot = new TestClient(server.issuer, 'bot')
    bot.secret = agentSecret
    assert.is(await refusal(bot.token(fields(await jag()))), '400 invalid_grant')
    const open = await TestClient.register(server.issuer)
    assert.is(await refusal(open.token(fields(await jag({ client_id: open.id })))), '401 invalid_client')
    for (const client_id of [undefined, ['agent'], 'Agent'])
      assert.is(await refusal(agent.token(fields(await jag({ client_id })))), '400 invalid_grant')
    // A request that names a client must authenticate it, for other assertions too.
    assert.is(await refusal(redeem(await mint(), { client_id: 'agent' })), '401 invalid_client')
    assert.is((await open.token(fields(await mint()))).status, 200)
    const revoke = { client_id: 'agent', client_secret: agentSecret, token: tokens.access_token }
    assert.is((await agent.post('revoke', revoke)).status, 200)
    const introspected = await agent.post('introspect', revoke)
    assert.is(((await introspected.json()) as { active: boolean }).active, false)
  })

  test('an assertion for a client needs all its claims, and its scopes and resources bound the request', async () => {
    const jag = async (claims: object, more: Record<string, string> = {}, header: object = {}) => {
      const options = { header: { ...ID_JAG.header, ...header } }
      const response = await agent.token(fields(await mint({ client_id: 'agent', ...claims }, options), more))
      if (response.status !== 200) return refusal(response)
      const { access_token, scope, refresh_token } = await readTokens(response)
      assert.is(refresh_token, undefined)
      return `${decodeJwt(access_token).aud} ${scope}`
    }
    const iat = nowInSeconds()
    for (const [name, claims] of Object.entries({
      'no jti': { jti: undefined },
      'a jti that is empty': { jti: '' },
      'a jti that is a number': { jti: 7 },
      'a jti of 300 bytes': { jti: 'é'.repeat(150) },
      'no iat': { iat: undefined },
      'eleven minutes': { iat, exp: iat + 660 },
      'an audience that is accepted of others': { aud: LISTED },
      'the token endpoint': { aud: `${server.issuer}/oauth/token` },
      'a slash more': { aud: `${server.issuer}/` },
      'a tenant': { tenant: 't' },
      'a tenant of this server': { aud_tenant: 't' },
      'a key': { cnf: { jkt: 'x' } },
      'some details': { authorization_details: [{ type: 'x' }] },
      'somebody else': { sub_id: { format: 'opaque', id: 'cj' } },
      'scopes that are a list': { scope: ['tools:read'] },
      'no scope': { scope: '' },
      'no scope that is known here': { scope: 'of-another-server' },
      'no resource': { resource: [] },
      'a resource that is null': { resource: null },
      'a resource that is a number': { resource: [7] },
      'two resources': { resource: [OTHER, 'https://third.example'] },
    }))
      assert.is(await jag(claims), '400 invalid_grant', name)
    assert.is(await jag({ aud: [server.issuer], iat, exp: iat + 600, jti: 'j'.repeat(256) }), `${OTHER} tools:read`)
    assert.is(await jag({ sub_id: { format: 'iss_sub', iss: idp.issuer, sub: 'ci' } }), `${OTHER} tools:read`)
    assert.is(await jag({}, {}, { typ: 'application/OAuth-ID-JAG+jwt' }), `${OTHER} tools:read`)
    const stated = { scope: 'tools:call other' }
    assert.is(await jag(stated), `${OTHER} tools:call`)
    assert.is(await jag(stated, { scope: 'tools:read tools:call openid' }), `${OTHER} tools:call`)
    assert.is(await jag(stated, { scope: 'tools:read' }), '400 invalid_grant')
    // Scopes that the assertion does not state come from `defaultScopes`.
    assert.is(await jag({}, { scope: 'tools:call' }), '400 invalid_grant')
    const two = { sub: 'deploy', resource: [OTHER, 'https://third.example'] }
    assert.is(await jag(two, { resource: 'https://third.example' }), 'https://third.example tools:read')
    assert.is(await jag(two, { resource: `${OTHER}/` }), `${OTHER} tools:read`)
    assert.is(await jag(two, { resource: 'https://fourth.example' }), '400 invalid_grant')
    assert.is(await jag({ sub: 'deploy', resource: OTHER }, { resource: 'https://third.example' }), '400 invalid_grant')
  })

  test('openid-client redeems one, and the metadata names the grant', async () => {
    const config = await openid.discovery(
      new URL(server.issuer),
      'agent',
      undefined,
      openid.ClientSecretBasic(agentSecret),
      { execute: [openid.allowInsecureRequests] },
    )
    const tokens = await openid.genericGrantRequest(config, BEARER, { assertion: await mint() })
    secret(tokens.access_token)
    const metadata = config.serverMetadata()
    assert.ok(metadata.grant_types_supported?.includes(BEARER))
    assert.equal(metadata['authorization_grant_profiles_supported'], ['urn:ietf:params:oauth:grant-profile:id-jag'])
    const plain = await startAuthServer()
    try {
      const document = (await (await fetch(`${plain.issuer}/.well-known/oauth-authorization-server`)).json()) as {
        grant_types_supported: string[]
      }
      assert.not(document.grant_types_supported.includes(BEARER))
      assert.not('authorization_grant_profiles_supported' in document)
      const posted = new TestClient(plain.issuer).post('token', fields(await mint()))
      assert.is(await refusal(posted), '400 invalid_grant')
    } finally {
      await plain.close()
    }
  })

  if (type === 'redis')
    test('the store keeps a digest of an assertion, as long as the assertion could be used', async () => {
      const client = openRedis(redis?.port ?? 0)
      try {
        const token = await mint({ exp: nowInSeconds() + 60 })
        await readTokens(await redeem(token))
        const name = createHash('sha256')
          .update(JSON.stringify(['jti', idp.issuer, decodeJwt(token).jti]))
          .digest('base64url')
        const [key] = await client.keys(`*as:assertion:${name}`)
        assert.ok(key)
        const left = await client.ttl(key as string)
        assert.ok(left > 60 && left <= 92, String(left))
      } finally {
        client.disconnect()
      }
    })

  test.run()
}
