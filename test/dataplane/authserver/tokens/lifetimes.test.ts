/** Checks what logins leave in Redis: each key expires by itself, within the time that the documentation gives for it. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import type { UserAgent } from '../../../support/identity/user-agent.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { withClient } from '../../../support/network/redis-sets.ts'

const [ACCESS_S, REFRESH_S, CODE_S] = [60, 3600, 300]
const LOGIN_S = 600
const DAY_S = 24 * 60 * 60
/** Allows for a clock of Redis that is slightly ahead. */
const MARGIN_S = 30
/** A client on another computer: consent is remembered only for these. */
const AWAY = { redirect_uri: 'https://app.example/cb' }

/** The longest lifetime of each kind of key. */
const LONGEST_S: Readonly<Record<string, number>> = {
  newClient: 30 * DAY_S,
  client: 30 * DAY_S,
  consent: 30 * DAY_S,
  interaction: LOGIN_S,
  question: LOGIN_S,
  allowed: LOGIN_S,
  login: LOGIN_S,
  code: CODE_S,
  usedCode: CODE_S + MARGIN_S,
  grant: CODE_S + REFRESH_S,
  user: CODE_S + REFRESH_S,
  refresh: REFRESH_S,
  rotating: 5,
  rotated: 10,
  revoked: DAY_S + 3600,
  // The providers' tokens of a login, and those with which the user's next login continues.
  upstream: Math.max(CODE_S + REFRESH_S, LOGIN_S + MARGIN_S),
}

let redis: RedisServer
let server: AuthServerUnderTest
let client: TestClient
/** A client and its value in Redis: a network may register few clients at a time. */
let registered: { readonly id: string; readonly stored: readonly [string, string] }

test.before(async () => {
  redis = await startRedis()
  const hmac = secret(randomBytes(32).toString('base64url'))
  server = await startAuthServer({
    providers: ['corp', 'code'],
    authServer: {
      hmacSecretFiles: ['hmac'],
      tokenLifespans: {
        accessTokenLifespan: `${ACCESS_S}s`,
        refreshTokenLifespan: `${REFRESH_S}s`,
        authCodeLifespan: `${CODE_S}s`,
      },
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
    },
    prepare: (directory) => writeFile(join(directory, 'hmac'), hmac),
  })
  const { id } = await TestClient.register(server.issuer, { redirect_uris: [REDIRECT, AWAY.redirect_uri] })
  assert.equal(await listKinds(), ['newClient'])
  await new TestClient(server.issuer, id).login()
  const found = await withClient(redis, async (commands) => {
    // A second key names the first user of it.
    const [key = '', ...others] = (await commands.keys('*lient:*')).filter((name) => !/:(first|share):/.test(name))
    assert.is(readKind(key), 'client')
    assert.equal(others, [], 'it is new no more')
    assert.ok((await commands.ttl(key)) > (LONGEST_S['client'] as number) - 60)
    return [key, (await commands.get(key)) ?? ''] as const
  })
  registered = { id, stored: found }
})
test.before.each(async () => {
  const [key, record] = registered.stored
  await withClient(redis, async (commands) => {
    await commands.flushall()
    await commands.set(key, record, 'EX', LONGEST_S['client'] as number)
  })
  client = new TestClient(server.issuer, registered.id)
})
test.after(async () => {
  await server.close()
  await redis.stop()
})

/** Returns the kind of a key, or of the records that a share counts. */
const readKind = (key: string) => /\}:(?:as:)?(?:share:)?(\w+)/.exec(key)?.[1] ?? key

/** Returns whether a key counts the share of a user, issuer or network. */
const isShare = (key: string) => /[:-]share:/.test(key)

/** Returns the remaining lifetimes of all keys in milliseconds; throws if a key has none, or a longer one than documented. */
const lifetimes = (): Promise<ReadonlyMap<string, number>> =>
  withClient(redis, async (commands) => {
    const found = new Map<string, number>()
    for (const key of await commands.keys('*')) {
      const ttl = await commands.pttl(key)
      const longest = LONGEST_S[readKind(key)]
      // It expired after it was listed.
      if (ttl === -2) continue
      if (ttl < 0) throw new Error(`${key} never ends`)
      if (longest === undefined) throw new Error(`nothing is documented of ${key}`)
      if (ttl > longest * 1000) throw new Error(`${key} lives for ${ttl / 1000} s, which is over ${longest}`)
      found.set(key, ttl)
    }
    return found
  })

const listKinds = async () => [...new Set([...(await lifetimes()).keys()].map(readKind))].sort()

/** Moves Redis forward in time: shortens the lifetimes of all keys, and deletes those that expire. */
async function listKindsAfter(seconds: number): Promise<readonly string[]> {
  const found = await lifetimes()
  await withClient(redis, async (commands) => {
    for (const [key, ttl] of found)
      if (ttl <= seconds * 1000) await commands.del(key)
      else await commands.pexpire(key, ttl - Math.round(seconds * 1000))
  })
  return listKinds()
}

const follow = (agent: UserAgent, url: string, part: string) => agent.follow(url, (at) => at.includes(part))

/** Ways to abandon a login, and the kinds of keys that each leaves besides the client. */
const ABANDONED: Readonly<Record<string, { leave(): Promise<unknown>; left: readonly string[] }>> = {
  'at the question': {
    async leave() {
      client.agent.answer = undefined
      await client.agent.follow(client.authorizeUrl(), () => false)
    },
    left: [],
  },
  'at the first provider': {
    leave: () => follow(client.agent, client.authorizeUrl(), new URL(server.upstreams[0]?.issuer as string).host),
    left: ['allowed', 'interaction', 'login'],
  },
  'before the first provider’s answer': {
    leave: () => follow(client.agent, client.authorizeUrl(), '/oauth/callback?'),
    left: ['allowed', 'interaction', 'login'],
  },
  'at the second provider, with what the first one gave': {
    leave: () => follow(client.agent, client.authorizeUrl(), new URL(server.upstreams[1]?.issuer as string).host),
    left: ['allowed', 'interaction', 'login', 'upstream'],
  },
}

for (const [where, { leave, left }] of Object.entries(ABANDONED))
  test(`a login that is abandoned ${where} leaves nothing once it has expired`, async () => {
    await leave()
    assert.equal(await listKinds(), ['client', ...left].sort())
    assert.equal(await listKindsAfter(LOGIN_S + MARGIN_S + 1), ['client'])
    assert.equal(await listKindsAfter(30 * DAY_S), [])
  })

test('a code that is never redeemed leaves nothing once its tokens would have expired', async () => {
  await client.authorize(AWAY)
  assert.ok((await listKinds()).includes('grant'))
  const left = await listKindsAfter(LOGIN_S + MARGIN_S + 1)
  // A later login of the user may need the refresh tokens that providers issued for this one.
  assert.equal(left, ['client', 'consent', 'upstream'])
  const keys = [...(await lifetimes()).keys()]
  // The consent has two marks of its user.
  assert.is(keys.filter((key) => !isShare(key)).length, 5)
  // A list and its byte count, for the user's consents and for the providers' tokens.
  assert.is(keys.filter(isShare).length, 4)
  assert.equal(await listKindsAfter(CODE_S + REFRESH_S), ['client', 'consent'])
  assert.equal(await listKindsAfter(30 * DAY_S), [])
})

test('tokens that are minted, refreshed and revoked leave no key behind', async () => {
  const code = (await client.authorize(AWAY)).get('code') as string
  const first = await readTokens(await client.exchange(code, AWAY))
  await lifetimes()
  const second = await readTokens(await client.refresh(first.refresh_token))
  assert.is((await client.post('revoke', { token: second.refresh_token, client_id: client.id })).status, 200)
  // Grant, refresh token and the providers' tokens of this login are gone; only those of the next login stay.
  const passing = ['rotated', 'rotating']
  assert.equal(
    (await listKinds()).filter((kind) => !passing.includes(kind)),
    ['client', 'code', 'consent', 'revoked', 'upstream', 'usedCode'],
  )
  const ofProviders = [...(await lifetimes()).keys()].filter((key) => readKind(key) === 'upstream' && !isShare(key))
  assert.is(ofProviders.length, 1)
  assert.is(await refusal(client.refresh(second.refresh_token)), '400 invalid_grant')
  assert.equal(await listKindsAfter(11), ['client', 'code', 'consent', 'revoked', 'upstream', 'usedCode'])
  assert.equal(await listKindsAfter(CODE_S + MARGIN_S), ['client', 'consent', 'revoked', 'upstream'])
  assert.equal(await listKindsAfter(CODE_S + REFRESH_S), ['client', 'consent', 'revoked'])
  assert.equal(await listKindsAfter(DAY_S + 3600), ['client', 'consent'])
  assert.equal(await listKindsAfter(30 * DAY_S), [])
})

test('unused tokens leave no key behind either', async () => {
  const { refresh_token: token } = await client.login(AWAY)
  await readTokens(await client.refresh(token))
  assert.equal(await listKindsAfter(CODE_S + REFRESH_S), ['client', 'consent'])
  assert.equal(await listKindsAfter(30 * DAY_S), [])
})

test('a code that is used twice leaves no key of its tokens', async () => {
  const code = (await client.authorize(AWAY)).get('code') as string
  await readTokens(await client.exchange(code, AWAY))
  assert.is(await refusal(client.exchange(code, AWAY)), '400 invalid_grant')
  assert.equal(await listKinds(), ['client', 'code', 'consent', 'revoked', 'upstream', 'usedCode'])
  assert.equal(await listKindsAfter(CODE_S + REFRESH_S), ['client', 'consent', 'revoked'])
})

test.run()
