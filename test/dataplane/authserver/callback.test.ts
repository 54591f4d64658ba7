/** Checks that a provider's callback is bound to its browser, works once, and is never repeated to another client. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AuthServerUnderTest, REDIRECT, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { UserAgent } from '../../support/identity/user-agent.ts'

let server: AuthServerUnderTest
let client: TestClient
let callbackUrl: string
test.before(async () => {
  server = await startAuthServer()
  client = await TestClient.register(server.issuer)
  callbackUrl = `${server.issuer}/oauth/callback`
})
test.before.each(() => {
  server.upstream.user = 'alice'
  server.upstream.before = undefined
})
test.after(() => server.close())

/** Logs in up to the provider's redirect. */
const toCallback = async (agent = client.agent) =>
  (await agent.follow(client.authorizeUrl(), (at) => at.startsWith(callbackUrl))).url

async function statusAt(url: string, agent = client.agent): Promise<number> {
  const response = await agent.get(url)
  assert.is(response.headers.get('location'), null)
  assert.match(await response.text(), '<h1>')
  return response.status
}

test('each login has a state, a nonce and a verifier of its own', async () => {
  server.upstream.authorizations.length = 0
  for (let count = 0; count < 3; count++) await toCallback()
  for (const name of ['state', 'nonce', 'code_challenge'])
    assert.is(new Set(server.upstream.authorizations.map((query) => query.get(name))).size, 3, name)
  for (const query of server.upstream.authorizations) {
    assert.is(query.get('code_challenge_method'), 'S256')
    assert.is(query.get('scope'), 'openid profile email')
    assert.match(query.get('state') ?? '', /^[\w-]{43}$/)
  }
})

test('a provider’s answer works once', async () => {
  const url = await toCallback()
  assert.is((await client.agent.get(url)).status, 303)
  assert.is(await statusAt(url), 400)
})

test('of many requests with the same answer, one gets the code', async () => {
  const url = await toCallback()
  const answers = await Promise.all(Array.from({ length: 8 }, () => client.agent.get(url)))
  assert.equal(answers.map(({ status }) => status).sort(), [303, ...Array(7).fill(400)])
  for (const answer of answers) await answer.body?.cancel()
})

test('an answer that arrives from another or an unknown browser is refused and used up', async () => {
  for (const other of [new UserAgent(), new UserAgent()]) {
    const url = await toCallback()
    // A cookie of another browser is no better than none.
    await (await other.get(client.authorizeUrl())).body?.cancel()
    assert.is(await statusAt(url, other), 400)
    assert.is(await statusAt(url), 400)
  }
  assert.is(await statusAt(await toCallback(), new UserAgent()), 400)
})

test('a malformed answer, or one of no login, shows the person a page and redirects nowhere', async () => {
  const url = await toCallback()
  for (const query of [
    '',
    '?code=x',
    '?state=x',
    `?code=x&state=${'A'.repeat(43)}`,
    '?code=x&state=../../x',
    '?error=access_denied',
    `?code=x&state=${'y'.repeat(10_000)}`,
  ])
    assert.is(await statusAt(callbackUrl + query), 400, query.slice(0, 40))
  for (const name of ['state', 'code', 'iss', 'error']) {
    const twice = `${url}&${name}=x&${name}=x`
    assert.is(await statusAt(twice), 400, name)
  }
  assert.is((await client.agent.get(url)).status, 303)
})

test('if the person or the provider refuses, the client gets an error without the provider’s text', async () => {
  server.upstream.user = undefined
  const answer = await new TestClient(server.issuer, client.id).authorize()
  assert.is(answer.get('error'), 'access_denied')
  assert.is(answer.get('state'), 'the-state')
  assert.is(answer.get('iss'), server.issuer)
  assert.is(answer.get('code'), null)
  // The client listens on another port this time.
  const elsewhere = await new TestClient(server.issuer, client.id).authorize({
    redirect_uri: 'http://127.0.0.1:50124/callback',
  })
  assert.is(elsewhere.get('error'), 'access_denied')
})

test('answers are not cached, and send no referrer to linked pages', async () => {
  const isPrivate = async (url: string) => {
    const { status, headers } = await client.agent.get(url)
    assert.is(headers.get('cache-control'), 'no-store', url)
    assert.is(headers.get('referrer-policy'), 'no-referrer', url)
    return status
  }
  assert.is(await isPrivate(await toCallback()), 303)
  assert.is(await isPrivate(`${callbackUrl}?code=x&state=x`), 400)
  server.upstream.user = undefined
  client.agent.forget(new URL(server.upstream.issuer).host)
  assert.is(await isPrivate(await toCallback()), 303)
})

test('an answer of another issuer is refused (mix-up), and so is one without an issuer if the provider always sends it', async () => {
  for (const change of [
    (query: URLSearchParams) => query.set('iss', 'https://evil.example'),
    (query: URLSearchParams) => query.delete('iss'),
  ]) {
    const url = new URL(await toCallback())
    change(url.searchParams)
    const page = await (await client.agent.get(url.href)).text()
    assert.match(page, /(no|wrong)_iss/)
    assert.ok(page.includes(`${REDIRECT}?error=access_denied`))
    assert.not.match(page, 'code=')
  }
})

test('if a provider’s token endpoint fails or lies, a page says so, and none of its text is logged', async () => {
  const canary = 'words-of-the-provider'
  const bodies = [
    [500, 'text/html', `<p>${canary}</p>`],
    [400, 'application/json', `{"error":"${canary}","error_text":"${canary}"}`],
    [200, 'application/json', `{"access_token":"${canary}","token_type":"mac","id_token":"${canary}"}`],
    [200, 'application/json', `{"access_token":"${canary}","token_type":"Bearer"}`],
    [200, 'application/json', '[]'],
    [200, 'application/json', `"${canary}`],
    [200, 'application/json', `{"x":"${'y'.repeat(1_200_000)}"}`],
    [302, 'text/plain', ''],
  ] as const
  for (const [status, type, body] of bodies) {
    const url = await toCallback()
    server.upstream.before = (request, response) => {
      if (!request.url?.startsWith('/token')) return false
      response.writeHead(status, { 'content-type': type, location: 'http://127.0.0.1:1/' }).end(body)
      return true
    }
    const answer = await client.agent.get(url)
    const page = await answer.text()
    assert.is(answer.status, 400)
    assert.ok(page.includes(`${REDIRECT}?error=access_denied`), `${status} ${body.slice(0, 60)}`)
    assert.not.ok(page.includes(canary))
  }
  assert.not.ok(JSON.stringify(server.gateway.lines).includes(canary))
})

test('users of the provider keep their subject, and different ones have different subjects', async () => {
  const subjects: (string | undefined)[] = []
  for (const user of ['alice', 'bob', 'alice']) {
    server.upstream.user = user
    const claims = decodeJwt((await new TestClient(server.issuer, client.id).login()).access_token)
    subjects.push(claims.sub)
    assert.is(claims['email'], `${user}@example.com`)
    assert.is(claims['name'], `Person ${user}`)
  }
  assert.is(subjects[0], subjects[2])
  assert.is.not(subjects[0], subjects[1])
})

test('fifty logins at once lose nothing', async () => {
  const logins = await Promise.all(
    Array.from({ length: 50 }, async (_, index) => {
      const own = new TestClient(server.issuer, client.id)
      const answer = await own.authorize({ state: `s${index}` })
      assert.is(answer.get('state'), `s${index}`)
      return own.exchange(answer.get('code') as string)
    }),
  )
  const tokens = await Promise.all(logins.map(async (response) => (await response.json()) as { access_token: string }))
  assert.is(new Set(tokens.map(({ access_token: token }) => decodeJwt(token)['tsid'])).size, 50)
})

test('the cookie is for this host alone, out of reach of scripts', async () => {
  const response = await new UserAgent().get(client.authorizeUrl())
  const [cookie = '', ...more] = response.headers.getSetCookie()
  assert.equal(more, [])
  assert.match(cookie, /^portico-login=[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; SameSite=Lax$/)
})

test.run()
