/** Tests links over Redis: every replica gives the same link, and linked accounts work at each of them. */

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { deleteKey, enterKey } from '../../../support/identity/key-entry.ts'
import { follow, linkIn, openLink } from '../../../support/identity/linking.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let redis: RedisServer
let store: Redis
let raw: RawServer
let server: AuthServerUnderTest
let replica: GatewayUnderTest

const hmac = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const prepare = async (directory: string) => {
  await writeFile(join(directory, 'hmac'), hmac)
  await writeFile(join(directory, 'key.pem'), key)
}

test.before(async () => {
  redis = await startRedis()
  store = openRedis(redis.port, '127.0.0.1')
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  server = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    gateway: { backends: [buildInjectingBackend('hub', raw.url)] },
    authServer: {
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      storage: { type: 'redis', redis: { mode: 'standalone', addresses: [redis.address] } },
    },
    prepare,
  })
  replica = await startGateway(server.config(), async (directory) => {
    await prepare(directory)
    for (const [index, { client }] of server.upstreams.entries())
      await writeFile(join(directory, index === 0 ? 'upstream-secret' : 'upstream-secret-2'), client.secret)
  })
})
test.after(async () => {
  await replica.close()
  await server.close()
  await raw.close()
  store.disconnect()
  await redis.stop()
})

const call = async (token: string, url: string) =>
  (await postModern(url, 'tools/call', { name: 'hub_t' }, { authorization: `Bearer ${token}` })).json
/** Returns everything in Redis as text. */
async function everything(): Promise<string[]> {
  const read: Record<string, (name: string) => Promise<unknown>> = {
    string: (name) => store.get(name),
    hash: (name) => store.hgetall(name),
    zset: (name) => store.zrange(name, '0', '-1'),
    set: (name) => store.smembers(name),
    list: (name) => store.lrange(name, 0, -1),
  }
  const names = await store.keys('*')
  return Promise.all(
    names.map(async (name) => {
      const kind = await store.type(name)
      // It may have expired after it was listed.
      return kind === 'none' ? name : JSON.stringify([name, await read[kind]?.(name)])
    }),
  )
}
const findKeys = async (part: string) => (await store.keys('*')).filter((name) => name.includes(part))

test('a thousand calls at two replicas create one link, which works at both', async () => {
  const client = await TestClient.register(server.issuer)
  const { access_token: token, refresh_token: refresh } = await client.login()
  const links = new Set<string>()
  for (let turn = 0; turn < 20; turn++) {
    const turns = Array.from({ length: 50 }, (_, index) => call(token, index % 2 ? replica.url : server.gateway.url))
    for (const { result } of await Promise.all(turns)) links.add(linkIn(result))
  }
  assert.is(links.size, 1)
  assert.is((await findKeys(':as:link:')).length, 1)
  const [record = ''] = await findKeys(':as:link:')
  const ttl = await store.ttl(record)
  assert.ok(ttl > 0 && ttl <= 600, String(ttl))
  // The link can't be derived from Redis.
  const ticket = new URL([...links][0] ?? '').searchParams.get('ticket') ?? ''
  assert.not.match((await store.get(record)) ?? '', ticket.split('.')[1] ?? '')
  const page = await follow(client.agent, [...links][0] ?? '')
  assert.is(page.status, 200)
  for (const url of [server.gateway.url, replica.url])
    assert.ok((await call(token, url)).result.content[0].text === 'ok')
  for (const part of [':as:link:', ':as:linking:', ':as:login:']) assert.equal(await findKeys(part), [], part)
  // Nothing is left of the visit to the providers: only the login itself, and what the user's later logins need.
  const logins = (await findKeys(':upstream:')).filter((name) => !name.includes(':lock:'))
  const providers = await Promise.all(
    // Another field names the share in which they count.
    logins.map(async (name) =>
      (await store.hkeys(name))
        .filter((field) => field !== '.share')
        .sort()
        .join(),
    ),
  )
  assert.equal(providers, ['corp,github', 'corp,github'])
  assert.is((await client.post('revoke', { client_id: client.id, token: refresh })).status, 200)
  for (const url of [server.gateway.url, replica.url])
    await eventually('its end is seen', async () => (await call(token, url)).error !== undefined)
  await eventually('its tokens’ end', async () => (await findKeys(':upstream:')).length === 1)
})

test('a key entered at one replica works at the other, and can be opened under its own name alone', async () => {
  const KEY = secret('desk-0123456789-abcdefgh')
  const plain = server.config()
  const keys = { title: 'Desk', headerName: 'X-Api-Key', valueTemplate: '{key}' }
  const config = server.config(
    {
      upstreamProviders: [
        ...(plain.authServer?.upstreamProviders ?? []),
        { name: 'desk', type: 'key', keyConfig: keys as never },
      ],
    },
    { backends: [buildInjectingBackend('hub', raw.url, 'desk')] },
  )
  for (const gateway of [server.gateway, replica]) {
    const { config: before } = await gateway.status()
    await gateway.configure(config)
    await eventually('the configuration', async () => (await gateway.status()).config !== before)
  }
  /** Opens the page of a key as a new user and enters one. */
  const enter = async (user: string, key: string) => {
    server.upstream.user = user
    const client = await TestClient.register(server.issuer)
    const { access_token: token } = await client.login()
    const link = /http[^\s"]+\/oauth\/key\?[^\s"]+/.exec(JSON.stringify(await call(token, replica.url)))?.[0] ?? ''
    const signIn = await openLink(client.agent, link)
    const sent = await client.agent.post(signIn.form?.action ?? '', { ...signIn.form?.fields, action: 'sign-in' })
    const { url } = await client.agent.follow(sent.headers.get('location') ?? '', (at) => at.includes('/oauth/key?'))
    const { form } = await openLink(client.agent, url)
    assert.is((await client.agent.post(form?.action ?? '', { ...form?.fields, key })).status, 303)
    return { client, token }
  }
  const records = async () => (await findKeys(':upstream:')).filter((name) => !name.includes(':lock:'))
  const withKeys = async () => {
    const found = await Promise.all(
      (await records()).map(async (name) => [name, await store.hget(name, 'desk')] as const),
    )
    return found.filter(([, value]) => value !== null)
  }
  const ada = await enter('ada', KEY)
  const [adas] = await withKeys()
  for (const url of [server.gateway.url, replica.url])
    await eventually('the key', async () => (await call(ada.token, url)).result?.content?.[0]?.text === 'ok')
  assert.is(raw.calls('tools/call').at(-1)?.headers['x-api-key'], KEY)
  for (const value of await everything()) assert.not.ok(value.includes(KEY))

  const eve = await enter('eve', 'eves-own-key-0123456789')
  const [eves] = (await withKeys()).filter(([name]) => name !== adas?.[0])
  await store.hset(eves?.[0] ?? '', 'desk', adas?.[1] ?? '')
  await eventually('the copied record is useless', async () =>
    JSON.stringify(await call(eve.token, replica.url)).includes('/oauth/key?'),
  )
  const removed = await ada.client.agent.get(`${server.issuer}/oauth/sessions`)
  const text = await removed.text()
  const fields = {
    token: /name="token" value="([^"]+)"/.exec(text)?.[1] ?? '',
    'delete-key': /name="delete-key" value="([^"]+)"/.exec(text)?.[1] ?? '',
  }
  assert.is((await ada.client.agent.post(`${server.issuer}/oauth/sessions`, fields)).status, 303)
  const urls = [server.gateway.url, replica.url]
  const needsKey = async (url: string) => JSON.stringify(await call(ada.token, url)).includes('/oauth/key?')
  for (const url of urls) await eventually('its end at both', () => needsKey(url))

  // One replica replaces the key while the other deletes it: both agree on which came last, and neither uses the old
  // one.
  const { agent } = ada.client
  const toReplica = (url: string) => url.replace(server.issuer, new URL(replica.url).origin)
  agent.share(new URL(server.issuer).host, new URL(replica.url).host)
  const page = `${server.issuer}/oauth/key?provider=desk`
  for (let turn = 0; turn < 2; turn++) {
    const [old, next] = [secret(`desk-old-0123456789-${turn}`), secret(`desk-new-0123456789-${turn}`)]
    assert.match((await enterKey(agent, page, old)).text, 'The key is kept')
    for (const url of urls) await eventually('the old key', async () => !(await needsKey(url)))
    const { form } = await openLink(agent, toReplica(page))
    const replacing = { ...form?.fields, key: next }
    const [replaced] = await Promise.all([
      agent.post(toReplica(form?.action ?? ''), replacing),
      deleteKey(agent, server.issuer),
    ])
    assert.is(replaced.status, 303)
    /** Returns the key that a call at a replica is sent with; undefined if it is not sent. */
    const usedAt = async (url: string) =>
      (await needsKey(url)) ? undefined : raw.calls('tools/call').at(-1)?.headers['x-api-key']
    let used: unknown[] = []
    await eventually('the old one is used nowhere', async () => {
      used = [await usedAt(urls[0] as string), await usedAt(urls[1] as string)]
      return !used.includes(old)
    })
    assert.is(new Set(used).size, 1, 'both agree')
    assert.ok(used[0] === undefined || used[0] === next, String(used[0]))
  }
  for (const value of await everything()) assert.not.match(value, /desk-(old|new)/)
})

test.run()
