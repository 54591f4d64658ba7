/** Tests attacks on the page of linked clients and accounts. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'
import { findButton, type OpenPage, SessionsPage } from './pages.ts'

const FORM = 'application/x-www-form-urlencoded'

let server: AuthServerUnderTest
let editor: TestClient

test.before(async () => {
  server = await startAuthServer()
  editor = await TestClient.register(server.issuer, { client_name: 'Editor' })
})
test.after(() => server.close())

/** Returns a signed-in user in a new browser, with one client. */
async function person(user: string) {
  const agent = new UserAgent()
  server.upstream.user = user
  const { url } = await agent.follow(editor.authorizeUrl(), (at) => at.startsWith(REDIRECT))
  const tokens = await readTokens(await editor.exchange(new URL(url).searchParams.get('code') ?? ''))
  const page = SessionsPage.of(server, agent)
  const signedIn = await page.signIn()
  assert.ok(signedIn.isSignedIn)
  const isAccepted = async () =>
    (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${tokens.access_token}` }))
      .status === 200
  return { agent, page, account: signedIn, works: isAccepted, tokens }
}

const host = () => new URL(server.issuer).host
const readCookies = (agent: UserAgent): Record<string, string> =>
  Object.fromEntries(['portico-login', 'portico-account'].map((name) => [name, agent.cookie(host(), name) ?? '']))
/** Posts as a browser with these cookies does. */
const post = (cookies: Record<string, string>, body: URLSearchParams | string, type = FORM) =>
  fetch(`${server.issuer}/oauth/sessions`, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      'content-type': type,
      cookie: Object.entries(cookies)
        .map(([name, value]) => `${name}=${value}`)
        .join('; '),
    },
    body,
  })
const buildRevocation = ({ token, ...page }: OpenPage) =>
  new URLSearchParams({ token, ...findButton({ html: page.html }, 'Revoke Editor') })

test('a form of another user’s page does nothing', async () => {
  const [alice, bob] = [await person('alice'), await person('bob')]
  const stolen = findButton(bob.account, 'Revoke Editor')
  const answer = await alice.page.send({ token: alice.account.token, ...stolen })
  assert.match(answer.text, 'That is not linked to you any more')
  const unlink = findButton(bob.account, 'Unlink')
  assert.match((await alice.page.send({ token: alice.account.token, ...unlink })).text, 'not linked to you')
  for (const own of ['revoke', 'unlink'])
    for (const value of ['x', String(bob.tokens.refresh_token.split('.')[0]), 'a'.repeat(43), '../..'])
      assert.match((await alice.page.send({ token: alice.account.token, [own]: value })).text, 'not linked to you')
  assert.ok((await bob.works()) && (await alice.works()))
})

test('a form works only in its own browser and session', async () => {
  const [alice, mallory] = [await person('alice'), await person('mallory')]
  const [hers, his] = [readCookies(alice.agent), readCookies(mallory.agent)]
  const tries: Record<string, string>[] = [
    {},
    his,
    { 'portico-login': hers['portico-login'] as string },
    { 'portico-account': hers['portico-account'] as string },
    { ...his, 'portico-account': hers['portico-account'] as string },
    { ...hers, 'portico-account': his['portico-account'] as string },
  ]
  for (const cookies of tries) {
    const answer = await post(cookies, buildRevocation(alice.account))
    assert.is(answer.status, 400, JSON.stringify(Object.keys(cookies)))
    assert.equal(answer.headers.getSetCookie(), [])
    const seen = await fetch(`${server.issuer}/oauth/sessions`, {
      headers: {
        cookie: Object.entries(cookies)
          .map((pair) => pair.join('='))
          .join('; '),
      },
    })
    assert.not.match(await seen.text(), 'alice')
  }
  assert.ok((await alice.works()) && (await mallory.works()))
  assert.is((await post(hers, buildRevocation(alice.account))).status, 303)
  assert.not.ok(await alice.works())
})

test('a form without the token of its page does nothing', async () => {
  const alice = await person('alice')
  const cookies = readCookies(alice.agent)
  const button = findButton(alice.account, 'Revoke Editor')
  const fresh = new UserAgent()
  const signIn = (await SessionsPage.of(server, fresh).open()).token
  for (const token of ['', 'x', signIn, Object.values(button)[0] as string, cookies['portico-account'] as string]) {
    assert.is((await post(cookies, new URLSearchParams({ token, ...button }))).status, 400)
    assert.is((await post(cookies, new URLSearchParams({ token, action: 'revoke-all' }))).status, 400)
    assert.is((await post(cookies, new URLSearchParams({ token, action: 'sign-out' }))).status, 400)
  }
  const query = new URLSearchParams({ token: alice.account.token, ...button, action: 'revoke-all' })
  assert.ok((await alice.page.open(`${alice.page.url}?${query}`)).isSignedIn)
  assert.ok(await alice.works())
})

test('odd forms are refused', async () => {
  const alice = await person('alice')
  const cookies = readCookies(alice.agent)
  const { token } = alice.account
  const [[name, value] = ['', '']] = Object.entries(findButton(alice.account, 'Revoke Editor'))
  for (const [body, type] of [
    [`token=${token}&token=${token}&${name}=${value}`, FORM],
    [`token=${token}&${name}=${value}&${name}=${value}`, FORM],
    [`token=${token}`, FORM],
    [`token=${token}&action=revoke_all`, FORM],
    [`token=${token}&action=__proto__&constructor=1`, FORM],
    [`token=${token}&${name}=${value}`, 'text/plain'],
    [JSON.stringify({ token, [name]: value }), 'application/json'],
    [`token=${token}&${name}=${value}&${'x'.repeat(70_000)}`, FORM],
  ] as const) {
    const answer = await post(cookies, body, type)
    assert.is(answer.status, 400, body.slice(0, 80))
    assert.not.match(await answer.text(), token)
  }
  assert.ok(await alice.works())
})

test('only the user’s own page leads to a provider', async () => {
  const [agent, other] = [new UserAgent(), new UserAgent()]
  const own = (await SessionsPage.of(server, agent).open()).token
  const theirs = (await SessionsPage.of(server, other).open()).token
  const before = server.upstream.authorizations.length
  const cookies = { 'portico-login': agent.cookie(host(), 'portico-login') as string }
  const signIn = (token: string) => new URLSearchParams({ token, action: 'sign-in' })
  for (const token of ['', 'x', theirs, `${own}x`, cookies['portico-login']])
    assert.is((await post(cookies, signIn(token))).status, 400)
  assert.is((await post({}, signIn(own))).status, 400)
  assert.is((await post(cookies, signIn(own))).status, 302)
  assert.is(server.upstream.authorizations.length, before)
})

test('pages from before signing out, or before another user signed in, no longer work', async () => {
  const alice = await person('alice')
  const before = readCookies(alice.agent)
  await alice.page.send({ token: alice.account.token, action: 'sign-out' })
  assert.is(alice.agent.cookie(host(), 'portico-account'), undefined)
  assert.is((await post(before, buildRevocation(alice.account))).status, 400)
  server.upstream.user = 'bob'
  alice.agent.forget(new URL(server.upstream.issuer).host)
  assert.match((await alice.page.signIn()).text, 'Person bob')
  assert.is((await post(readCookies(alice.agent), buildRevocation(alice.account))).status, 400)
  assert.ok(await alice.works())
})

test('each sign-in gets a new session: a planted or earlier one ends', async () => {
  const alice = await person('alice')
  const mallory = await person('mallory')
  const planted = readCookies(mallory.agent)['portico-account'] as string
  const first = readCookies(alice.agent)
  server.upstream.user = 'alice'
  const out = new URLSearchParams({ token: '', action: 'sign-in' })
  const own = { 'portico-login': first['portico-login'] as string }
  const page = await (
    await fetch(alice.page.url, { headers: { cookie: `portico-login=${own['portico-login']}` } })
  ).text()
  out.set('token', /name="token" value="([\w-]+)"/.exec(page)?.[1] ?? '')
  const started = await post({ ...own, 'portico-account': planted }, out)
  assert.is(started.status, 302)
  // The agent holds her earlier session and comes back with a new one.
  const end = await alice.agent.follow(started.headers.get('location') ?? '', (at) => at.endsWith('/oauth/sessions'))
  assert.ok(end.url)
  const second = readCookies(alice.agent)
  assert.is.not(second['portico-account'], first['portico-account'])
  assert.is.not(second['portico-account'], planted)
  assert.is((await post(first, buildRevocation(alice.account))).status, 400)
  assert.ok((await alice.page.open()).isSignedIn)
})

test('a sign-in works only in the browser that began it', async () => {
  const victim = new UserAgent()
  await SessionsPage.of(server, victim).open()
  const mallory = new UserAgent()
  server.upstream.user = 'mallory'
  const { token } = await SessionsPage.of(server, mallory).open()
  const started = await mallory.post(`${server.issuer}/oauth/sessions`, { token, action: 'sign-in' })
  const { url } = await mallory.follow(started.headers.get('location') ?? '', (at) => at.includes('/oauth/callback'))
  const answer = await victim.get(url)
  assert.is(answer.status, 400)
  assert.equal(answer.headers.getSetCookie(), [])
  assert.not.ok((await SessionsPage.of(server, victim).open()).isSignedIn)
  assert.is((await mallory.get(url)).status, 400, 'and once alone')
})

test('a sign-in gives a client no code, and a client’s login is no sign-in', async () => {
  const agent = new UserAgent()
  server.upstream.user = 'alice'
  await agent.follow(editor.authorizeUrl(), (at) => at.startsWith(REDIRECT))
  assert.not.ok((await SessionsPage.of(server, agent).open()).isSignedIn)
  await SessionsPage.of(server, agent).signIn()
  assert.not.ok(agent.visited.some((url) => url.startsWith(REDIRECT)))
})

test('cookies are for this host and its pages alone', async () => {
  const agent = new UserAgent()
  server.upstream.user = 'alice'
  const { token } = await SessionsPage.of(server, agent).open()
  const started = await agent.post(`${server.issuer}/oauth/sessions`, { token, action: 'sign-in' })
  const { url } = await agent.follow(started.headers.get('location') ?? '', (at) => at.includes('/oauth/callback'))
  const answer = await agent.get(url)
  const [cookie = ''] = answer.headers.getSetCookie().filter((line) => line.startsWith('portico-account='))
  assert.match(cookie, /^portico-account=[\w-]{43}; Max-Age=900; Path=\/; HttpOnly; SameSite=Lax$/)
  assert.is(answer.headers.get('cache-control'), 'no-store')
  assert.is(answer.headers.get('location'), 'sessions')
})

test('a made-up link shows no message that is not true', async () => {
  const alice = await person('alice')
  const bob = await person('bob')
  const done = (await bob.page.send(Object.fromEntries(buildRevocation(bob.account)))).url.split('done=')[1] as string
  for (const value of ['revoked', 'revoked-all', done, '<script>'])
    assert.not.match(
      (await alice.page.open(`${alice.page.url}?done=${encodeURIComponent(value)}`)).html,
      'role="status"',
    )
})

test('sign-ins count against the limit of logins', async () => {
  using _clock = stoppedClock()
  const agent = new UserAgent()
  const page = SessionsPage.of(server, agent)
  const { token } = await page.open()
  const statuses = new Set<number>()
  for (let times = 0; times < 150 && !statuses.has(429); times++)
    statuses.add((await agent.post(page.url, { token, action: 'sign-in' })).status)
  assert.equal([...statuses], [302, 429])
})

test.run()
