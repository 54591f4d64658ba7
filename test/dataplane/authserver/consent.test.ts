/** Checks that a login needs consent: to this client, in this browser, from this user. */
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  startAuthServer,
  TestClient,
} from '../../support/identity/auth-server.ts'
import { parseConsent, type UserAgent } from '../../support/identity/user-agent.ts'

/** Consent is remembered only for redirects to web sites. */
const SITE = 'https://app.example.com/cb'

let server: AuthServerUnderTest
test.before(async () => {
  server = await startAuthServer()
})
test.before.each(() => {
  server.upstream.user = 'alice'
})
test.after(() => server.close())

/** After the first few, registrations are limited to one a second. */
async function register(name: string, redirects: readonly string[] = [REDIRECT]): Promise<TestClient> {
  for (;;) {
    try {
      return await TestClient.register(server.issuer, { client_name: name, redirect_uris: redirects })
    } catch (error) {
      if (!(error as Error).message.includes('429')) throw error
      await delay(250)
    }
  }
}

/** Logs a client in and returns whether its user was asked for consent. */
async function isAsked(client: TestClient, changes: Record<string, string> = {}): Promise<boolean> {
  const { length } = client.agent.questions
  assert.ok((await client.authorize({ redirect_uri: SITE, ...changes })).has('code'))
  return client.agent.questions.length > length
}

const sentToProvider = () => server.upstream.authorizations.length

/** Returns the consent page of an authorization request, unanswered. */
async function question(client: TestClient, agent: UserAgent = client.agent, changes: Record<string, string> = {}) {
  const url = client.authorizeUrl(changes)
  const page = await (await agent.get(url)).text()
  const form = parseConsent(page, url)
  assert.ok(form, page)
  return { page, ...form }
}

test('a person who follows a link is asked before anything goes to the provider', async () => {
  const victim = await register('Known program')
  await victim.login()
  const stranger = await register('Free gifts', ['https://gifts.example.com/cb'])
  const before = sentToProvider()
  victim.agent.answer = undefined
  const url = stranger.authorizeUrl({ redirect_uri: 'https://gifts.example.com/cb' })
  const { response } = await victim.agent.follow(url, (at) => at.startsWith('https://gifts.'))
  assert.is(response?.status, 200)
  assert.match(victim.agent.questions.at(-1) ?? '', 'Free gifts')
  assert.match(victim.agent.questions.at(-1) ?? '', 'gifts.example.com')
  assert.is(response?.headers.get('cache-control'), 'no-store')
  assert.match(response?.headers.get('content-security-policy') ?? '', "frame-ancestors 'none'")
  assert.is(sentToProvider(), before)
})

test('the client gets the denial, and nothing went to the provider', async () => {
  const client = await register('Denied')
  const before = sentToProvider()
  client.agent.answer = 'deny'
  const answer = await client.authorize()
  assert.is(answer.get('error'), 'access_denied')
  assert.is(answer.get('state'), 'the-state')
  assert.is(answer.get('iss'), server.issuer)
  assert.is(answer.get('code'), null)
  assert.is(sentToProvider(), before)
})

test('an answer is remembered for the client, its redirect URI and its scopes', async () => {
  const other = `${SITE}?other`
  const client = await register('Often used', [SITE, other])
  assert.ok(await isAsked(client, { scope: 'tools:read' }))
  assert.not(await isAsked(client, { scope: 'tools:read' }))
  assert.ok(await isAsked(client, { scope: 'tools:read tools:call' }))
  assert.not(await isAsked(client, { scope: 'tools:call' }))
  assert.ok(await isAsked(client, { redirect_uri: other }))
  assert.not(await isAsked(client))
  const namesake = await register('Often used', [SITE])
  const { length } = client.agent.questions
  namesake.agent.answer = 'allow'
  await question(namesake, client.agent, { redirect_uri: SITE })
  assert.is(client.agent.questions.length, length)
})

test('if any program on the computer could receive the answer, the user is asked for consent at each login', async () => {
  for (const redirect of [REDIRECT, 'com.example.app:/cb', 'cursor://anysphere.mcp/cb', 'https://localhost:1/cb']) {
    const client = await register('On this computer', [redirect, SITE])
    const site = await isAsked(client)
    assert.ok(site)
    for (let logins = 0; logins < 2; logins++) assert.ok(await isAsked(client, { redirect_uri: redirect }), redirect)
    assert.match(client.agent.questions.at(-1) ?? '', 'You are asked each time')
    assert.not(await isAsked(client))
  }
  const other = await register('On another port')
  assert.ok((await other.authorize()).has('code'))
  assert.ok(await isAsked(other, { redirect_uri: 'http://127.0.0.1:8888/callback' }))
})

test('consent is for one resource, which the page names', async () => {
  const second = 'https://second.example.com/mcp'
  const two = await startAuthServer({ authServer: { allowedAudiences: [second] } })
  try {
    const client = await TestClient.register(two.issuer, { redirect_uris: [SITE] })
    for (const resource of [two.resource, second]) {
      assert.ok(await isAsked(client, { resource }), resource)
      assert.match(client.agent.questions.at(-1) ?? '', `<td class="wrap">${resource}</td>`)
    }
    for (const resource of [two.resource, second]) assert.not(await isAsked(client, { resource }), resource)
  } finally {
    await two.close()
  }
})

test('the consent of one user does not count for another user of the same browser', async () => {
  const client = await register('Shared computer', [SITE])
  const alice = await client.login({ redirect_uri: SITE })
  client.agent.forget(new URL(server.upstream.issuer).host)
  server.upstream.user = 'bob'
  client.agent.answer = undefined
  const { response } = await client.agent.follow(client.authorizeUrl({ redirect_uri: SITE }), (at) =>
    at.startsWith(SITE),
  )
  assert.is(response?.status, 200)
  assert.is(client.agent.questions.length, 2)
  client.agent.answer = 'allow'
  const bob = await client.login({ redirect_uri: SITE })
  assert.is(client.agent.questions.length, 3)
  const subject = ({ access_token }: { access_token: string }) =>
    JSON.parse(Buffer.from(access_token.split('.')[1] ?? '', 'base64url').toString()).sub
  assert.is.not(subject(alice), subject(bob))
  assert.is(subject(await client.login({ redirect_uri: SITE })), subject(bob))
  assert.is(client.agent.questions.length, 3)
})

test('a consent page can be answered in its own browser only, and each answer begins a login of its own', async () => {
  const client = await register('Once')
  const stranger = await register('Another browser')
  const first = await question(client)
  const second = await question(client)
  await question(stranger)
  const answers = { decision: 'allow', token: first.token }
  const [one, other] = [await client.agent.post(first.action, answers), await client.agent.post(first.action, answers)]
  const states = [one, other].map(({ headers }) => new URL(headers.get('location') ?? '').searchParams.get('state'))
  assert.is.not(states[0], states[1])
  assert.is((await stranger.agent.post(second.action, { decision: 'allow', token: second.token })).status, 400)
  const noCookie = await fetch(second.action, {
    method: 'POST',
    body: new URLSearchParams({ decision: 'allow', token: second.token }),
    redirect: 'manual',
  })
  assert.is(noCookie.status, 400)
})

test('several pages open at once don’t disturb each other', async () => {
  const client = await register('Two tabs')
  const [first, second] = [await question(client), await question(client)]
  for (const { action, token } of [second, first]) {
    const answer = await client.agent.post(action, { decision: 'allow', token })
    const end = await client.agent.follow(answer.headers.get('location') ?? '', (at) => at.startsWith(REDIRECT))
    const code = new URL(end.url).searchParams.get('code') ?? ''
    await readTokens(await client.exchange(code))
  }
})

test('only a plain yes is consent', async () => {
  const client = await register('Odd forms')
  for (const decision of ['', 'Allow', 'allow ', 'yes', 'true']) {
    const { action, token } = await question(client)
    const answer = await client.agent.post(action, { token, decision })
    assert.match(answer.headers.get('location') ?? '', 'error=access_denied', decision)
  }
  const { action, token } = await question(client)
  const cookie = `portico-login=${client.agent.cookie(new URL(server.issuer).host, 'portico-login')}`
  const type = 'application/x-www-form-urlencoded'
  for (const [body, contentType, status] of [
    [`token=${token}&token=${token}&decision=allow`, type, 400],
    [`token=${token}&decision=deny&decision=allow`, type, 400],
    ['decision=allow', type, 400],
    ['token=&decision=allow', type, 400],
    [`token=${'a'.repeat(40_000)}&decision=allow`, type, 400],
    [JSON.stringify({ token, decision: 'allow' }), 'application/json', 400],
    [`token=${token}&decision=allow`, 'text/plain', 400],
    [`token=${token}&decision=allow&${'x'.repeat(70_000)}`, type, 400],
  ] as const) {
    const headers = { cookie, 'content-type': contentType }
    const answer = await fetch(action, { method: 'POST', body, headers, redirect: 'manual' })
    assert.is(answer.status, status, body.slice(0, 80))
    assert.not.match(await answer.text(), token)
  }
  assert.is((await fetch(action, { headers: { cookie } })).status, 404)
})

test.run()
