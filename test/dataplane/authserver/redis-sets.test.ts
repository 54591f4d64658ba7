/** Tests the authorization server over Redis as in production: Sentinels with a failover, a Cluster, and an ACL user. */

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { secret } from '../../secrets/watch.ts'
import { eventually } from '../../support/eventually.ts'
import { startGateway } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { readTokens, refusal, startAuthServer, TestClient, type Tokens } from '../../support/identity/auth-server.ts'
import { attemptLogin } from '../../support/identity/login-attempt.ts'
import { openRedis } from '../../support/network/open-clients.ts'
import { startRedis } from '../../support/network/redis-server.ts'
import { field, MASTER_NAME, startCluster, startSentinelSet, withClient } from '../../support/network/redis-sets.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

type RedisSettings = NonNullable<NonNullable<AuthServerConfig['storage']>['redis']>

const hmacSecret = secret(randomBytes(32).toString('base64url'))
const password = secret(randomBytes(16).toString('hex'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const prepare = async (directory: string) => {
  await writeFile(join(directory, 'hmac'), hmacSecret)
  await writeFile(join(directory, 'key.pem'), key)
  await writeFile(join(directory, 'username'), 'portico')
  await writeFile(join(directory, 'password'), password)
}

const cleanups: (() => Promise<unknown>)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const serve = async (redis: RedisSettings) => {
  const server = await startAuthServer({
    authServer: { hmacSecretFiles: ['hmac'], signingKeyFiles: ['key.pem'], storage: { type: 'redis', redis } },
    prepare,
  })
  cleanups.push(server.close)
  return server
}
type Server = Awaited<ReturnType<typeof serve>>
const findReplica = async (server: Server) => {
  const replica = await startGateway(server.config(), prepare)
  cleanups.push(replica.close)
  return replica
}
const ask = async (token: string, url: string) =>
  (await postModern(url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status
const upstreamKeys = (server: { readonly port: number }) =>
  withClient(server, async (redis) => (await redis.keys('*:upstream:*')).filter((name) => !name.includes(':lock:')))
const messages = (lines: readonly Record<string, unknown>[]) => lines.map(({ msg }) => String(msg))
/** Returns whether replicas keep up with writes, according to the latest log line. */
const keepUp = (lines: readonly Record<string, unknown>[]) => {
  const changes = messages(lines).filter((text) => /replicas? of Redis ha/.test(text))
  return changes.at(-1)?.startsWith('no replica') !== true
}

/** The pause between two requests of a user. */
const PAUSE_MS = 200

test('a failover under load loses no login and no client, and people can log in', async () => {
  const set = await startSentinelSet()
  cleanups.push(set.close)
  const server = await serve({ mode: 'sentinel', addresses: [...set.sentinels], masterName: MASTER_NAME })
  const replica = await findReplica(server)
  const bases = [server.gateway.base, replica.base]
  // A gateway accepts five registrations at once.
  const ids = await Promise.all(Array.from({ length: 4 }, async () => (await TestClient.register(server.issuer)).id))
  const users = await Promise.all(
    [...ids, ...ids, ...ids].map(async (id) => {
      const client = new TestClient(server.issuer, id)
      return { client, tokens: await client.login(), after: 0 }
    }),
  )
  const stored = await upstreamKeys(set.master)
  // The tokens of these logins, and for each user one more set for their next login.
  assert.is(stored.length, users.length + 1)
  let isOver = false
  let isDown = false
  const refused: string[] = []

  /** Refreshes at both replicas in turn; a request without an answer is sent again unchanged. */
  async function use(user: { client: TestClient; tokens: Tokens; after: number }): Promise<void> {
    const { client } = user
    for (let times = 0; user.after < 4; times++) {
      const wasDown = isDown
      const body = { grant_type: 'refresh_token', refresh_token: user.tokens.refresh_token, client_id: client.id }
      const answer = await fetch(`${bases[times % 2]}/oauth/token`, { method: 'POST', body: new URLSearchParams(body) })
      if (answer.ok) {
        user.tokens = await readTokens(answer)
        if (wasDown) user.after++
      } else if (answer.status === 503) await answer.arrayBuffer()
      else return void refused.push(await refusal(answer))
      if (isOver) return void refused.push('the time was over')
      // More of them, or a higher pace, would starve the Sentinels, which share the cores.
      await wait(PAUSE_MS)
    }
  }
  // Other users keep logging in meanwhile, two of them just when the master stops.
  server.upstream.user = 'carol'
  const people = ids.map((id) => ({ client: new TestClient(server.issuer, id), after: 0 }))
  const endpoints = bases.map((base) => `${base}/oauth/token`)
  const redeemed: { readonly client: TestClient; readonly code: string; readonly tokens: Tokens }[] = []

  /** Repeats a failed login from its start, until two have succeeded since the failover began. */
  async function logIn(person: { readonly client: TestClient; after: number }, started?: string): Promise<void> {
    const { client } = person
    for (let from = started; person.after < 2; from = undefined) {
      const wasDown = isDown
      const ended = await attemptLogin(client, from ?? client.authorizeUrl(), endpoints)
      if ('tokens' in ended) redeemed.push({ client, ...ended })
      if ('tokens' in ended && wasDown) person.after++
      if (isOver) return void refused.push('the time was over')
      await wait(PAUSE_MS)
    }
  }
  const [one, two, ...others] = people as [(typeof people)[0], (typeof people)[0], ...typeof people]
  const noteFailure = (error: Error) => void refused.push(error.message)
  const used = Promise.all(
    [...users.map(use), ...others.map((person) => logIn(person))].map((work) => work.catch(noteFailure)),
  )
  await wait(500)
  // For five seconds the gateway does not wait for a late replica: writes of that time may be lost.
  await eventually('the replicas keep up', () => [server.gateway, replica].every(({ lines }) => keepUp(lines)))
  const before = await set.masterAddress()
  const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
  const toCallback = async ({ client }: typeof one) =>
    (await client.agent.follow(client.authorizeUrl(), isCallback)).url
  const started = [await toCallback(one), await toCallback(two)]
  await set.master.stop()
  isDown = true
  const deadline = setTimeout(() => {
    isOver = true
  }, 180_000)
  await Promise.all([one, two].map((person, index) => logIn(person, started[index]).catch(noteFailure)))
  await used
  clearTimeout(deadline)
  assert.equal(refused, [])
  assert.is.not(await set.masterAddress(), before)
  for (const { tokens } of users)
    for (const base of bases) assert.is(await ask(tokens.access_token, `${base}/mcp`), 200)
  // The providers' tokens survived too.
  const port = Number((await set.masterAddress()).split(':')[1])
  const there = new Set(await upstreamKeys({ port }))
  assert.equal(
    stored.filter((name) => !there.has(name)),
    [],
  )
  // Every other login completes, and none of their codes works a second time.
  assert.is(new Set(redeemed.map(({ tokens }) => tokens.refresh_token)).size, redeemed.length)
  for (const { client, code, tokens } of redeemed) {
    await readTokens(await client.refresh(tokens.refresh_token))
    assert.is(await refusal(client.exchange(code)), '400 invalid_grant')
  }
})

test('an answer that a client relies on waits until a Redis replica has the data, if there is one', async () => {
  const set = await startSentinelSet()
  cleanups.push(set.close)
  const server = await serve({ mode: 'sentinel', addresses: [...set.sentinels], masterName: MASTER_NAME })
  const waits = async () =>
    Number(/calls=(\d+)/.exec((await field(set.master, 'commandstats', 'cmdstat_wait')) ?? '')?.[1] ?? 0)
  const client = await TestClient.register(server.issuer)
  const registered = await waits()
  assert.ok(registered > 0, 'a registration waits')
  /**
   * Repeats an action until one waits for a replica, and returns its result. After a late replica the gateway does not
   * wait for a while.
   */
  async function expectWait<T>(what: string, act: () => Promise<T>): Promise<T> {
    let done: T | undefined
    await eventually(what, async () => {
      const before = await waits()
      done = await act()
      return (await waits()) > before
    })
    return done as T
  }
  let tokens = await expectWait('a login waits', () => client.login())
  tokens = await expectWait('a rotation waits', async () => {
    tokens = await readTokens(await client.refresh(tokens.refresh_token))
    return tokens
  })
  // The answer that carries a browser's code waits too.
  const watching = openRedis(set.master.port)
  const monitor = await watching.monitor()
  // A separate connection, which has none of the other's listeners.
  monitor.on('error', () => undefined)
  cleanups.push(async () => {
    for (const connection of [monitor, watching]) connection.disconnect()
  })
  const commands: string[] = []
  monitor.on('monitor', (_time, words: readonly string[]) => commands.push(words.slice(0, 2).join(' ')))
  const findWrite = () => commands.findLastIndex((one) => /^set \S+:as:code:/i.test(one))
  const findWait = () => commands.findLastIndex((one) => /^wait /i.test(one))
  const coming = await expectWait('a code waits', async () => {
    const code = (await client.authorize()).get('code') as string
    await eventually('it is seen', () => findWrite() >= 0)
    return code
  })
  await eventually('after it was written', () => findWait() > findWrite())
  await readTokens(await client.exchange(coming))
  // Without replicas it continues, and does not wait for any for a while.
  for (const other of set.replicas) await other.stop()
  await eventually('they are gone', async () => (await field(set.master, 'replication', 'connected_slaves')) === '0')
  using _clock = stoppedClock()
  const last = await readTokens(await client.refresh(tokens.refresh_token))
  const before = await waits()
  await readTokens(await client.refresh(last.refresh_token))
  assert.is(await waits(), before)
  const countLines = (what: RegExp) => messages(server.gateway.lines).filter((text) => what.test(text)).length
  assert.is(countLines(/no replica of Redis/) - countLines(/replicas of Redis have/), 1, 'it is logged once')
})

test('a Cluster of three nodes', async () => {
  const cluster = await startCluster()
  cleanups.push(cluster.close)
  const [first] = cluster.nodes.map(({ address }) => address) as [string]
  const server = await serve({ mode: 'cluster', addresses: [first] })
  const replica = await findReplica(server)
  const client = await TestClient.register(server.issuer)
  const tokens = await readTokens(await client.refresh((await client.login()).refresh_token))
  const again = await fetch(`${replica.base}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: tokens.refresh_token,
      client_id: client.id,
    }),
  })
  const last = await readTokens(again)
  assert.is(await ask(last.access_token, server.gateway.url), 200)
  assert.is((await client.post('revoke', { token: last.refresh_token, client_id: client.id })).status, 200)
  assert.is(await ask(last.access_token, server.gateway.url), 401)
  await eventually('the other replica refuses it', async () => (await ask(last.access_token, replica.url)) === 401)
  const counts = await Promise.all(cluster.nodes.map((node) => withClient(node, (redis) => redis.dbsize())))
  assert.is(counts.filter((count) => count > 0).length, 1, 'all keys of a gateway are in one slot')
})

test('a user of Redis with the keys and categories that docs name', async () => {
  const rights = '+@read +@write +@keyspace +@scripting +@transaction +@connection +@pubsub'
  const redis = await startRedis({
    settings: ['user default off', `user portico on >${password} ~portico:* &portico:* ${rights}`],
  })
  cleanups.push(redis.stop)
  const server = await serve({ addresses: [redis.address], usernameFile: 'username', passwordFile: 'password' })
  const client = await TestClient.register(server.issuer)
  const { refresh_token } = await client.login()
  const { access_token } = await readTokens(await client.refresh(refresh_token))
  assert.is(await ask(access_token, server.gateway.url), 200)
  const logged = messages(server.gateway.lines)
  assert.ok(
    logged.some((text) => text.includes('may not run INFO')),
    'nobody knows what Redis drops',
  )
  assert.not.ok(logged.some((text) => text.includes(password)))
})

for (const [what, settings, expected] of [
  ['a user who may run no scripts', `user portico on >${password} ~portico:* &portico:* +@all -@scripting`, /NOPERM/],
  ['a user of other keys', `user portico on >${password} ~other:* &portico:* +@all`, /NOPERM|ACL failure|script can't/],
  [
    'a user who may not write',
    `user portico on >${password} ~portico:* &portico:* +@all -@write`,
    /NOPERM|ACL failure|script can't/,
  ],
] as const)
  test(`${what} is reported in the log before anybody logs in`, async () => {
    const redis = await startRedis({ settings: ['user default off', settings] })
    cleanups.push(redis.stop)
    const server = await serve({ addresses: [redis.address], usernameFile: 'username', passwordFile: 'password' })
    const refusals = () => server.gateway.lines.filter(({ msg }) => String(msg).includes('Redis refuses'))
    await eventually('it is logged', () => refusals().length > 0)
    assert.match(JSON.stringify(refusals()[0]), expected)
    assert.not.match(JSON.stringify(refusals()), password)
    assert.is(
      await refusal(new TestClient(server.issuer).post('register', '{"redirect_uris":["https://a.example/"]}')),
      '503 temporarily_unavailable',
    )
  })

test('a Redis that runs out of memory is logged once, and logins continue when it has some', async () => {
  const redis = await startRedis({ settings: ['maxmemory 1', 'maxmemory-policy noeviction'] })
  cleanups.push(redis.stop)
  const server = await serve({ addresses: [redis.address] })
  const register = () => new TestClient(server.issuer).post('register', '{"redirect_uris":["https://a.example/"]}')
  for (let count = 0; count < 2; count++) assert.is(await refusal(register()), '503 temporarily_unavailable')
  assert.is(messages(server.gateway.lines).filter((text) => text.includes('Redis refuses')).length, 1)
  await withClient(redis, (commands) => commands.config('SET', 'maxmemory', '0'))
  assert.is((await register()).status, 201)
})

for (const [policy, limit, isWarned] of [
  ['allkeys-lru', '100mb', true],
  ['volatile-ttl', '100mb', true],
  ['noeviction', '100mb', false],
  ['allkeys-lru', '0', false],
] as const)
  test(`${policy} with maxmemory ${limit}: ${isWarned ? 'a warning' : 'nothing to say'}`, async () => {
    const redis = await startRedis({ settings: [`maxmemory ${limit}`, `maxmemory-policy ${policy}`] })
    cleanups.push(redis.stop)
    const server = await serve({ addresses: [redis.address] })
    await TestClient.register(server.issuer)
    const warning = () => messages(server.gateway.lines).find((text) => text.includes('noeviction'))
    if (isWarned) await eventually('it is logged', () => warning() !== undefined)
    else {
      await eventually('it was called', async () => ((await field(redis, 'commandstats', 'cmdstat_info')) ?? '') !== '')
      await wait(50)
      assert.is(warning(), undefined)
    }
  })

test.run()
