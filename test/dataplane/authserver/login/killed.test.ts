/** Kills a replica during logins: they continue at another one over the same Redis, or start again. */

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { GatewayReplica } from '../../../support/gateway/replica.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { parseConsent, UserAgent } from '../../../support/identity/user-agent.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { SessionsPage } from '../sessions/pages.ts'

/** The longest that an unfinished login may stay: the time for a login, and for its last step. */
const LONGEST_MS = 630_000

const hmacSecret = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

let redis: RedisServer
let commands: Redis
/** Its gateway is the replica that stays. */
let server: AuthServerUnderTest
/** The replica that is killed, in a separate process. */
let replica: GatewayReplica
let clientId: string

test.before(async () => {
  redis = await startRedis()
  commands = openRedis(redis.port)
  server = await startAuthServer({
    providers: ['corp', 'code'],
    authServer: {
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
    },
    async prepare(directory) {
      await writeFile(join(directory, 'hmac'), hmacSecret)
      await writeFile(join(directory, 'key.pem'), key)
    },
  })
  clientId = (await TestClient.register(server.issuer, { client_name: 'Editor' })).id
})
test.before.each(async () => {
  replica = await GatewayReplica.start(join(server.gateway.directory, 'gateway.yaml'))
})
test.after.each(async () => {
  for (const upstream of server.upstreams) upstream.before = undefined
  await replica.end()
})
test.after(async () => {
  await server.close()
  commands.disconnect()
  await redis.stop()
})

const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
const isRedirect = (url: string) => url.startsWith(REDIRECT)
/** Returns the address at the replica that will be killed, as a load balancer may choose it. */
const toReplica = (url: string) => url.replace(server.issuer, new URL(replica.url).origin)

/** Returns a client in a new browser, which sends its cookies to either replica. */
function person(name: string): TestClient {
  const client = new TestClient(server.issuer, clientId)
  client.agent.headers['x-person'] = name
  client.agent.share(new URL(server.issuer).host, new URL(replica.url).host)
  return client
}
/** Begins a login at the replica that will be killed; returns the address of the first provider's callback. */
const toCallback = async ({ agent }: TestClient, from: string) => (await agent.follow(from, isCallback)).url
const readOutcome = (answer: Promise<Response>) =>
  answer.then(
    ({ status }) => `answered ${status}`,
    () => 'no answer',
  )
const callWith = (token: string) =>
  postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })

test('a login with a code of the killed replica, or between two steps, continues at the other one', async () => {
  const [issued, questioned, atFirst, atSecond] = [person('alice'), person('ann'), person('ben'), person('cid')]
  const { url: answered } = await issued.agent.follow(
    toReplica(await toCallback(issued, toReplica(await toCallback(issued, toReplica(issued.authorizeUrl()))))),
    isRedirect,
  )
  const code = secret(new URL(answered).searchParams.get('code') ?? '')
  const url = toReplica(questioned.authorizeUrl())
  const question = parseConsent(await (await questioned.agent.get(url)).text(), url)
  const first = await toCallback(atFirst, toReplica(atFirst.authorizeUrl()))
  const second = await toCallback(atSecond, toReplica(await toCallback(atSecond, toReplica(atSecond.authorizeUrl()))))
  await replica.end()

  // The code is redeemed once.
  const answers = await Promise.all(Array.from({ length: 4 }, () => issued.exchange(code)))
  const accepted = answers.filter(({ ok }) => ok)
  assert.is(accepted.length, 1)
  for (const answer of accepted) await readTokens(answer)
  for (const answer of answers) if (!answer.ok) assert.is(await refusal(answer), '400 invalid_grant')
  assert.is(await refusal(issued.exchange(code)), '400 invalid_grant')
  // Another client may have had the code (RFC 6749 section 4.1.2), so the next login counts.
  const { access_token: next } = await issued.login()
  assert.is((await callWith(next)).status, 200)

  const { action = '', token = '' } = question ?? {}
  const here = action.replace(new URL(replica.url).origin, server.issuer)
  const allowed = await questioned.agent.post(here, { token, decision: 'allow' })
  for (const [client, at] of [
    [questioned, allowed.headers.get('location') ?? ''],
    [atFirst, first],
    [atSecond, second],
  ] as const) {
    const end = await client.agent.follow(at, isRedirect)
    const code = secret(new URL(end.url).searchParams.get('code') ?? '')
    assert.is((await callWith((await readTokens(await client.exchange(code))).access_token)).status, 200)
  }
})

test('a code is redeemed at most once if the replica is killed while redeeming it', async () => {
  const client = person('alice')
  const code = (await client.authorize()).get('code') as string
  const fields = { client_id: client.id, redirect_uri: REDIRECT, code_verifier: client.verifier, code }
  const body = new URLSearchParams({ grant_type: 'authorization_code', ...fields })
  await commands.call('CLIENT', 'PAUSE', '60000', 'WRITE')
  try {
    const outcome = readOutcome(fetch(toReplica(`${server.issuer}/oauth/token`), { method: 'POST', body }))
    const countBlocked = async () => /blocked_clients:(\d+)/.exec(await commands.info('clients'))?.[1]
    await eventually('it waits for Redis', async () => Number(await countBlocked()) > 0)
    await replica.end()
    assert.is(await outcome, 'no answer')
  } finally {
    await commands.call('CLIENT', 'UNPAUSE')
  }
  const answer = await client.exchange(code)
  if (answer.ok) await readTokens(answer)
  else assert.is(await refusal(answer), '400 invalid_grant')
  assert.is(await refusal(client.exchange(code)), '400 invalid_grant')
  assert.is((await callWith((await client.login()).access_token)).status, 200)
})

test('a login that was fetching tokens when the replica was killed begins again, and its parts are useless', async () => {
  for (const upstream of server.upstreams) upstream.user = ({ headers }) => String(headers['x-person'])
  const [atFirst, atSecond] = [person('dan'), person('eve')]
  const second = await toCallback(atSecond, toReplica(await toCallback(atSecond, toReplica(atSecond.authorizeUrl()))))
  const first = await toCallback(atFirst, toReplica(atFirst.authorizeUrl()))
  const before = new Set(await commands.keys('*'))
  const released = Promise.withResolvers<void>()
  let pending = 0
  for (const upstream of server.upstreams)
    upstream.before = async ({ url }) => {
      if (url !== '/token') return false
      pending++
      await released.promise
      return false
    }
  const ends = [
    [atFirst, first],
    [atSecond, second],
  ] as const
  const outcomes = ends.map(([{ agent }, url]) => readOutcome(agent.get(toReplica(url))))
  await eventually('it calls both', () => pending === 2)
  await replica.end()
  released.resolve()
  assert.equal(await Promise.all(outcomes), ['no answer', 'no answer'])

  for (const [{ agent }, url] of ends)
    for (const browser of [new UserAgent(), agent]) {
      const again = await browser.get(url)
      assert.is(again.status, 400)
      assert.match(await again.text(), 'This login can’t continue')
    }
  for (const name of await commands.keys('*')) {
    if (before.has(name)) continue
    assert.not.match(name, ':grant:')
    const left = await commands.pttl(name)
    // -1: it has no expiry; -2: it expired after it was listed.
    assert.ok(left !== -1 && left <= LONGEST_MS, `${name}: ${left}`)
  }
  for (const [client] of ends) {
    const page = await SessionsPage.of(server, client.agent).signIn()
    assert.match(page.text, 'No program may act for you here.')
    assert.is((await callWith((await client.login()).access_token)).status, 200)
    assert.is((await SessionsPage.of(server, client.agent).open()).html.split('<li class="link">').length, 2)
  }
})

test.run()
