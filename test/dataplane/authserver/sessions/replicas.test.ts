/** Checks that two replicas over one Redis show and end the same links, and what remains in Redis. */

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
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
import { findButton, SessionsPage } from './pages.ts'

const agentSecret = secret(randomBytes(24).toString('base64url'))
const hmacSecret = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

let redis: RedisServer
let commands: Redis
let server: AuthServerUnderTest
let other: GatewayUnderTest
const prepare = async (directory: string) => {
  await writeFile(join(directory, 'hmac'), hmacSecret)
  await writeFile(join(directory, 'key.pem'), key)
  await writeFile(join(directory, 'agent'), agentSecret)
}
test.before(async () => {
  redis = await startRedis()
  commands = openRedis(redis.port)
  server = await startAuthServer({
    authServer: {
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      insecureAllowConfidentialOverLoopbackHTTP: true,
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
    },
    prepare,
  })
  await server.gateway.configure(config())
  other = await startReplica()
})
const config = () => {
  const audiences = [server.resource]
  return server.config({
    delegateClients: [{ clientId: 'agent', clientSecretFile: 'agent', audiences, scopes: ['tools:call'] }],
  })
}
const startReplica = () =>
  startGateway(config(), async (directory) => {
    await writeFile(join(directory, 'upstream-secret'), server.upstream.client.secret)
    await prepare(directory)
  })
test.after(async () => {
  await other.close()
  await server.close()
  commands.disconnect()
  await redis.stop()
})

const ask = async (token: string, url: string) =>
  (await postModern(url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status
const keysWith = async (part: string) => (await commands.keys('*')).filter((name) => name.includes(part))

test('a user who signed in at one replica revokes at the other, and both refuse the revoked login', async () => {
  const client = await TestClient.register(server.issuer, { client_name: 'Editor' })
  const tokens = await client.login()
  const session = await client.login()
  for (const url of [server.gateway.url, other.url]) assert.is(await ask(tokens.access_token, url), 200)
  await SessionsPage.of(server, client.agent).signIn()
  // By another port of the same host: cookies belong to the host, as behind a load balancer.
  const there = new SessionsPage(client.agent, other.base)
  client.agent.share(new URL(server.issuer).host, new URL(other.base).host)
  const page = await there.open()
  assert.match(page.text, 'Person alice')
  await client.refresh(tokens.refresh_token)
  const fresh = await there.open()
  // The most recently used one is first.
  const after = await there.send({ token: fresh.token, ...findButton(fresh, 'Revoke Editor') })
  assert.match(after.text, 'Access is revoked.')
  assert.is(await ask(tokens.access_token, other.url), 401)
  await eventually(
    'the first replica refuses it',
    async () => (await ask(tokens.access_token, server.gateway.url)) === 401,
  )
  assert.is(await refusal(client.refresh(tokens.refresh_token)), '400 invalid_grant')
  for (const url of [server.gateway.url, other.url]) assert.is(await ask(session.access_token, url), 200)
  const { tsid, sub } = decodeJwt(tokens.access_token)
  assert.equal(await keysWith(String(tsid)), [])
  const [set = ''] = await keysWith(`user:${sub}`)
  assert.equal(await commands.zrange(set, '0', '-1'), [decodeJwt(session.access_token)['tsid']])
})

test('a user’s list of logins lasts as long as the login that was used last', async () => {
  server.upstream.user = 'bob'
  const client = await TestClient.register(server.issuer)
  const tokens = await client.login()
  const { tsid, sub } = decodeJwt(tokens.access_token)
  const [set = ''] = await keysWith(`user:${sub}`)
  const [grant = ''] = await keysWith(`grant:${tsid}`)
  await Promise.all([commands.pexpire(set, 60_000), commands.pexpire(grant, 60_000)])
  await client.refresh(tokens.refresh_token)
  const [ofSet, ofGrant] = await Promise.all([commands.pttl(set), commands.pttl(grant)])
  assert.ok(ofSet > 60_000 && Math.abs(ofSet - ofGrant) < 5_000, `${ofSet} ${ofGrant}`)
  assert.is((await client.post('revoke', { token: tokens.access_token, client_id: client.id })).status, 200)
  assert.equal(await keysWith(`user:${sub}`), [])
})

test('revoking everything removes all provider tokens, so that later logins find none', async () => {
  server.upstream.user = 'erin'
  const before = new Set(await keysWith(':upstream:'))
  const listAdded = async () => (await keysWith(':upstream:')).filter((name) => !before.has(name))
  const client = await TestClient.register(server.issuer, { client_name: 'Editor' })
  await client.login()
  await client.login()
  const page = SessionsPage.of(server, client.agent)
  const { token } = await page.signIn()
  assert.ok((await listAdded()).length > 0)
  assert.match((await page.send({ token, action: 'revoke-all' })).text, 'All access is revoked.')
  assert.equal(await listAdded(), [])
})

test('revoking everything ends unlisted logins too, at both replicas and at one that starts later', async () => {
  const client = await TestClient.register(server.issuer)
  const bystander = await client.login()
  server.upstream.user = 'fay'
  client.agent.forget(new URL(server.upstream.issuer).host)
  const [listed, hidden] = [await client.login(), await client.login()]
  const { sub, tsid } = decodeJwt(hidden.access_token)
  const [set = ''] = await keysWith(`user:${sub}`)
  await commands.zrem(set, String(tsid))
  const agent = new TestClient(server.issuer, 'agent')
  agent.secret = agentSecret
  const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
  const exchanged = await readTokens(
    await agent.token({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: hidden.access_token,
      subject_token_type: ACCESS_TOKEN,
    }),
  )
  const code = (await client.authorize()).get('code') ?? ''
  const isActive = async (token: string, at: string) => {
    const own = { client_id: agent.id, client_secret: agentSecret, token }
    const answer = await fetch(`${at}/oauth/introspect`, { method: 'POST', body: new URLSearchParams(own) })
    return ((await answer.json()) as { readonly active: boolean }).active
  }
  const all = [listed, hidden].flatMap((tokens) => [tokens.access_token, tokens.refresh_token])
  for (const token of [...all, exchanged.access_token]) assert.ok(await isActive(token, other.base))
  const page = SessionsPage.of(server, client.agent)
  const { token } = await page.signIn()
  assert.match((await page.send({ token, action: 'revoke-all' })).text, 'All access is revoked.')
  const later = await client.login()
  const late = await startReplica()
  for (const { base, url } of [server.gateway, other, late]) {
    for (const { access_token } of [listed, hidden])
      await eventually('the token ends', async () => (await ask(access_token, url)) === 401)
    for (const ended of [...all, exchanged.access_token]) assert.is(await isActive(ended, base), false)
    for (const { access_token } of [later, bystander]) assert.is(await ask(access_token, url), 200)
    assert.ok(await isActive(later.refresh_token, base))
  }
  for (const { refresh_token } of [listed, hidden])
    assert.is(await refusal(client.refresh(refresh_token)), '400 invalid_grant')
  assert.is(await refusal(client.exchange(code)), '400 invalid_grant')
  assert.ok((await readTokens(await client.refresh(later.refresh_token))).access_token)
  await late.close()
})

test('every stored key expires', async () => {
  const names = await commands.keys('*')
  assert.ok(names.length > 0)
  // -1: it has no expiry. One that has expired since then is reported as -2.
  for (const name of names) assert.is.not(await commands.pttl(name), -1, name)
})

test('a grant that a killed process left half written or half removed is not shown', async () => {
  server.upstream.user = 'carol'
  const client = await TestClient.register(server.issuer, { client_name: 'Editor' })
  const { sub, tsid } = decodeJwt((await client.login()).access_token)
  const [set = ''] = await keysWith(`user:${sub}`)
  await commands.zadd(set, Date.now() + 60_000, 'a'.repeat(43))
  const page = await SessionsPage.of(server, client.agent).signIn()
  assert.is(page.html.split('<li class="link">').length, 2)
  const [grant = ''] = await keysWith(`grant:${tsid}`)
  await commands.del(grant)
  assert.match((await SessionsPage.of(server, client.agent).open()).text, 'No program may act for you here.')
})

test('without Redis a revocation fails, and the page does not claim otherwise', async () => {
  server.upstream.user = 'dora'
  const client = await TestClient.register(server.issuer, { client_name: 'Editor' })
  await client.login()
  const page = SessionsPage.of(server, client.agent)
  const signedIn = await page.signIn()
  await redis.stop()
  const answer = await client.agent.post(page.url, { token: signedIn.token, ...findButton(signedIn, 'Revoke Editor') })
  assert.is(answer.status, 503)
  assert.not.match(await answer.text(), 'is revoked')
})

test.run()
