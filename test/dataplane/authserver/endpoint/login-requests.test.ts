/** Tests clients that request a certain user, a new login or the consent page (OpenID Connect Core 1.0 section 3.1.2.1). */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type AuthServerUnderTest,
  REDIRECT,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'

/** Consent is remembered only for redirects to web sites. */
const SITE = 'https://app.example.com/cb'

let server: AuthServerUnderTest
let id: string
let client: TestClient
test.before(async () => {
  server = await startAuthServer({ providers: ['corp', 'files'] })
  id = (await TestClient.register(server.issuer, { redirect_uris: [REDIRECT, SITE] })).id
})
// Each test uses a new browser.
test.before.each(() => {
  for (const upstream of server.upstreams) Object.assign(upstream, { user: 'alice', loggedInAt: undefined })
  client = new TestClient(server.issuer, id)
})
test.after(() => server.close())

const scope = 'openid tools:call'
const nowS = () => Math.floor(Date.now() / 1000)
const idToken = async (changes = {}) => (await client.login({ scope, ...changes })).id_token as string
/** Returns how many logins each provider had, not counting users that it still knew. */
const visits = () =>
  server.upstreams.map(({ requests }) => requests.filter((one) => one.startsWith('GET /interaction/')).length)
/** Returns a parameter of each provider's newest authorization request. */
const readSent = (name: string) => server.upstreams.map(({ authorizations }) => authorizations.at(-1)?.get(name))

test('a user with a session at the providers does not log in again unless the client asks for it', async () => {
  await client.login()
  const before = visits()
  await client.login()
  assert.equal(visits(), before)
  assert.equal([...readSent('prompt'), ...readSent('max_age')], [null, null, null, null])
})

for (const params of [{ prompt: 'login' }, { max_age: '0' }])
  test(`${Object.keys(params)[0]} makes the user log in again at each provider`, async () => {
    await client.login()
    const before = visits()
    const since = nowS()
    const { auth_time: at } = decodeJwt(await idToken({ ...params, max_age: '0' }))
    assert.equal(
      visits(),
      before.map((count) => count + 1),
    )
    assert.equal(readSent('prompt'), ['login', 'login'])
    assert.ok(Number(at) >= since && Number(at) <= nowS())
  })

test('max_age is passed on, and the ID token has the time of the login at the provider', async () => {
  const at = nowS() - 3600
  server.upstream.loggedInAt = at
  assert.is(decodeJwt(await idToken({ max_age: '7200' }))['auth_time'], at)
  assert.equal(readSent('max_age'), ['7200', '7200'])
  assert.equal(readSent('prompt'), [null, null])
})

test('a login at a provider that is older than max_age is refused', async () => {
  for (const upstream of server.upstreams)
    for (const params of [{ prompt: 'login' }, { max_age: '0' }, { max_age: '60' }]) {
      for (const one of server.upstreams) one.loggedInAt = one === upstream ? nowS() - 3600 : undefined
      client.agent.forget(new URL(upstream.issuer).host)
      const answer = await client.authorize({ scope, ...params })
      assert.is(answer.get('error'), 'login_required', JSON.stringify(params))
      assert.is(answer.get('code'), null)
      assert.is(answer.get('iss'), server.issuer)
    }
  for (const one of server.upstreams) one.loggedInAt = undefined
  assert.ok((await client.authorize({ scope, prompt: 'login' })).get('code'))
})

test('a login time in the future counts as now', async () => {
  server.upstream.loggedInAt = nowS() + 3600
  const { auth_time: at } = decodeJwt(await idToken({ max_age: '60' }))
  assert.ok(Number(at) <= nowS(), `${at}`)
})

/** Another user takes over the same browser. */
function switchUser(user: string): void {
  for (const upstream of server.upstreams) {
    upstream.user = user
    client.agent.forget(new URL(upstream.issuer).host)
  }
}

test('a client that asks for a certain user gets no code for another one', async () => {
  const hint = await idToken()
  // Bob has allowed the client himself, in this browser too.
  switchUser('bob')
  const others = await idToken()
  const seen = server.upstreams.map(({ authorizations }) => authorizations.length)
  for (const params of [{}, { prompt: 'login' }, { prompt: 'consent' }]) {
    const answer = await client.authorize({ scope, id_token_hint: hint, ...params })
    assert.is(answer.get('error'), 'login_required')
    assert.is(answer.get('code'), null)
    assert.is(answer.get('state'), 'the-state')
  }
  // It ended at the provider that identifies the user.
  assert.equal(
    server.upstreams.map(({ authorizations }) => authorizations.length),
    [(seen[0] as number) + 3, seen[1] as number],
  )
  assert.is(decodeJwt(await idToken({ id_token_hint: others })).sub, decodeJwt(others).sub)
  switchUser('alice')
  assert.is(decodeJwt(await idToken({ id_token_hint: hint })).sub, decodeJwt(hint).sub)
})

test('an ID token hint of another client is refused', async () => {
  const hint = await idToken()
  client = await TestClient.register(server.issuer)
  assert.is((await client.authorize({ scope, id_token_hint: hint })).get('error'), 'invalid_request')
})

test('prompt=consent asks again although the user has consented before', async () => {
  const site = { redirect_uri: SITE }
  await client.login(site)
  await client.login(site)
  assert.is(client.agent.questions.length, 1)
  await client.login({ ...site, prompt: 'consent' })
  assert.is(client.agent.questions.length, 2)
  client.agent.answer = 'deny'
  assert.is((await client.authorize({ ...site, prompt: 'consent' })).get('error'), 'access_denied')
})

test('prompt=none is answered with an error, also after earlier logins', async () => {
  const hint = await idToken()
  const before = server.upstream.authorizations.length
  for (const params of [{}, { id_token_hint: hint }, { max_age: '3600' }])
    assert.is((await client.authorize({ scope, prompt: 'none', ...params })).get('error'), 'login_required')
  assert.is(server.upstream.authorizations.length, before)
})

test.run()
