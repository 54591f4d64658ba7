/**
 * Checks that a provider's tokens are refreshed before they expire, once for all callers of their owner and for no
 * other user.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { type StoppedClock, stoppedClock } from '../../../support/stopped-clock.ts'

const LIFE_S = 60

let clock: StoppedClock
let server: AuthServerUnderTest
let raw: RawServer
/** Headers that the backend no longer accepts. */
const refused = new Set<string | undefined>()

test.before(async () => {
  clock = stoppedClock()
  raw = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before: ({ headers }, res) => {
      if (headers.authorization === undefined || !refused.has(headers.authorization)) return false
      res.writeHead(401).end()
      return true
    },
  })
  server = await startAuthServer({
    gateway: { backends: [buildInjectingBackend('own', raw.url, 'corp'), { name: 'open', url: raw.url }] },
  })
})
test.before.each(() => {
  raw.seen.length = 0
  refused.clear()
  server.upstream.before = undefined
})
test.after(async () => {
  await server.close()
  await raw.close()
  clock[Symbol.dispose]()
})

const call = async (token: string, name = 'own_t') =>
  (await postModern(server.gateway.url, 'tools/call', { name }, { authorization: `Bearer ${token}` })).json
const listSent = () => raw.calls('tools/call').map(({ headers }) => headers.authorization)
const refreshes = () => server.upstream.requests.filter((request) => request === 'POST /token').length

/** Returns a caller whose provider's access token lives this long; refreshed ones live for an hour. */
async function loggedIn(accessTokenS: number): Promise<string> {
  const client = await TestClient.register(server.issuer)
  server.upstream.accessTokenS = accessTokenS
  const { access_token: token } = await client.login()
  server.upstream.accessTokenS = 3600
  server.upstream.requests.length = 0
  return token
}

test('a token that is about to expire is refreshed once for all concurrent calls', async () => {
  const token = await loggedIn(LIFE_S)
  clock.pass(LIFE_S * 1000)
  const answers = await Promise.all(Array.from({ length: 30 }, () => call(token)))
  for (const { result } of answers) assert.ok(result)
  assert.is(refreshes(), 1)
  assert.is(new Set(listSent()).size, 1)
})

test('a token with a life of a minute is not refreshed at each call', async () => {
  const token = await loggedIn(LIFE_S)
  for (let calls = 0; calls < 3; calls++) assert.ok((await call(token)).result)
  assert.is(refreshes(), 0)
})

test('a token that the backend refuses is replaced once, and the call succeeds', async () => {
  const token = await loggedIn(3600)
  assert.ok((await call(token)).result)
  refused.add(listSent()[0])
  assert.ok((await call(token)).result)
  assert.is(refreshes(), 1)
  assert.not.ok(refused.has(listSent().at(-1)))
})

test('each refresh uses the refresh token of the one before', async () => {
  const token = await loggedIn(LIFE_S)
  for (let turn = 1; turn <= 3; turn++) {
    server.upstream.accessTokenS = turn === 3 ? 3600 : LIFE_S
    clock.pass(LIFE_S * 1000)
    assert.ok((await call(token)).result, String(turn))
    assert.is(refreshes(), turn)
  }
})

test('a provider that refuses to refresh is asked once, and its backend has no credential', async () => {
  const token = await loggedIn(LIFE_S)
  server.upstream.before = (request, response) => {
    if (request.url !== '/token') return false
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end('{"error":"invalid_grant","error_description":"secret details of the provider"}')
    return true
  }
  clock.pass(LIFE_S * 1000)
  for (let calls = 0; calls < 3; calls++) {
    const { error } = await call(token)
    assert.match(error.message, 'you have to log in at the provider "corp" again')
  }
  assert.is(refreshes(), 1)
  assert.ok((await call(token, 'open_t')).result)
  assert.not.match(JSON.stringify(server.gateway.lines), 'secret details')
})

test('a provider that was down is asked again by a later call', async () => {
  const token = await loggedIn(LIFE_S)
  server.upstream.before = (request, response) => {
    if (request.url !== '/token') return false
    response.writeHead(503).end('secret details of the provider')
    return true
  }
  clock.pass(LIFE_S * 1000)
  const { error } = await call(token)
  assert.match(error.message, 'the provider "corp" can’t be asked at the moment')
  assert.ok((await call(token, 'open_t')).result)
  server.upstream.before = undefined
  await eventually('a call that succeeds', async () => {
    clock.pass(1_000)
    return (await call(token)).result !== undefined
  })
  assert.not.match(JSON.stringify(server.gateway.lines), 'secret details')
})

for (const [what, status, body] of [
  ['403 unauthorized_client', 403, '{"error":"unauthorized_client"}'],
  ['401 invalid_token', 401, '{"error":"invalid_token"}'],
  ['400 with a code of its own', 400, '{"error":"session_expired"}'],
  ['400 with an error that is no text', 400, '{"error":{"code":7}}'],
  ['404 without a body', 404, ''],
  ['an error at 200', 200, '{"error":"invalid_grant"}'],
] as const)
  test(`a refresh that is refused by ${what} asks for a new login, once`, async () => {
    const token = await loggedIn(LIFE_S)
    server.upstream.before = (request, response) => {
      if (request.url !== '/token') return false
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
      return true
    }
    clock.pass(LIFE_S * 1000)
    for (let calls = 0; calls < 2; calls++)
      assert.match((await call(token)).error.message, 'you have to log in at the provider "corp" again')
    assert.is(refreshes(), 1)
  })

for (const [what, status, body] of [
  ['408', 408, '{"error":"request_timeout"}'],
  ['429', 429, '{"error":"slow_down"}'],
  ['an error at 200 that passes', 200, '{"error":"temporarily_unavailable"}'],
  ['a page at 200', 200, '<p>maintenance'],
] as const)
  test(`a refresh that is answered by ${what} is tried again by a later call`, async () => {
    const token = await loggedIn(LIFE_S)
    server.upstream.before = (request, response) => {
      if (request.url !== '/token') return false
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
      return true
    }
    clock.pass(LIFE_S * 1000)
    assert.match((await call(token)).error.message, 'the provider "corp" can’t be asked at the moment')
    server.upstream.before = undefined
    await eventually('a call that succeeds', async () => {
      clock.pass(1_000)
      return (await call(token)).result !== undefined
    })
  })

test('a revoked login is no longer refreshed', async () => {
  const client = await TestClient.register(server.issuer)
  server.upstream.accessTokenS = LIFE_S
  const tokens = await client.login()
  clock.pass(LIFE_S * 1000)
  server.upstream.requests.length = 0
  assert.is((await client.post('revoke', { client_id: client.id, token: tokens.refresh_token })).status, 200)
  const { status } = await postModern(
    server.gateway.url,
    'tools/call',
    { name: 'own_t' },
    { authorization: `Bearer ${tokens.access_token}` },
  )
  assert.is(status, 401)
  assert.is(refreshes(), 0)
})

test.run()
