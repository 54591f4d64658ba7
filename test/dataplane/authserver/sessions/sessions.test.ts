/** Checks that users see and end their own links, and nobody else's. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { findButton, SessionsPage } from './pages.ts'

/** Consent is remembered only for redirects to web sites. */
const SITE = 'https://chat.example.com/cb'
const PROVIDERS = ['corp', 'code']

let server: AuthServerUnderTest
let raw: RawServer
let editor: TestClient
let chat: TestClient

test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const backends = PROVIDERS.map((name) => buildInjectingBackend(name, raw.url, name))
  server = await startAuthServer({ providers: PROVIDERS, gateway: { backends } })
  editor = await TestClient.register(server.issuer, {
    client_name: 'Editor',
    redirect_uris: [REDIRECT, SITE],
  })
  chat = await TestClient.register(server.issuer, {
    client_name: '<b>Chat</b>',
    redirect_uris: [REDIRECT, SITE, 'https://chat.example.com/other'],
  })
})
test.after(async () => {
  await server.close()
  await raw.close()
})

/** Returns a browser in which this user is logged in at the providers. */
function createBrowser(user: string): UserAgent {
  const agent = new UserAgent()
  switchUser(user, agent)
  return agent
}

/** Another user takes over a browser. */
function switchUser(user: string, agent: UserAgent): void {
  for (const [index, upstream] of server.upstreams.entries()) {
    upstream.user = index === 0 ? user : `${user}-there`
    agent.forget(new URL(upstream.issuer).host)
  }
}

/** Logs a client in with a browser. */
async function logIn(client: TestClient, agent: UserAgent, redirect = REDIRECT) {
  const authorizeUrl = client.authorizeUrl({ redirect_uri: redirect })
  const { url } = await agent.follow(authorizeUrl, (at) => at.startsWith(redirect))
  return readTokens(await client.exchange(new URL(url).searchParams.get('code') ?? '', { redirect_uri: redirect }))
}

const call = async (token: string, name = 'corp') =>
  postModern(server.gateway.url, 'tools/call', { name: `${name}_t` }, { authorization: `Bearer ${token}` })
async function isAccepted(token: string, name?: string): Promise<boolean> {
  const { result } = (await call(token, name)).json as { result?: { isError?: boolean } }
  return result !== undefined && result.isError !== true
}

test('without signing in a visitor sees nothing, and a visit begins nothing', async () => {
  const agent = createBrowser('alice')
  const before = server.upstream.authorizations.length
  const response = await agent.get(`${server.issuer}/oauth/sessions`)
  assert.is(response.status, 200)
  assert.is(response.headers.get('cache-control'), 'no-store')
  assert.match(response.headers.get('content-security-policy') ?? '', "frame-ancestors 'none'")
  assert.match(await response.text(), 'Sign in at 127.0.0.1')
  assert.is(server.upstream.authorizations.length, before)
})

test('a user signs in at the primary provider and sees the clients, their rights and their accounts', async () => {
  const agent = createBrowser('alice')
  await logIn(editor, agent)
  await logIn(chat, createBrowser('bob'))
  switchUser('alice', agent)
  const before = server.upstreams.map(({ authorizations }) => authorizations.length)
  const page = await SessionsPage.of(server, agent).signIn()
  assert.ok(page.isSignedIn, page.text)
  assert.equal(
    server.upstreams.map(({ authorizations }) => authorizations.length),
    [(before[0] ?? 0) + 1, before[1]],
  )
  assert.match(page.text, 'You are signed in as Person alice')
  assert.match(page.text, /Editor It registered itself under this name/)
  assert.match(page.text, /a program on this computer 127\.0\.0\.1:7777/)
  assert.match(page.text, 'tools:call tools:read')
  for (const { issuer } of server.upstreams)
    assert.match(page.text, new RegExp(`${new URL(issuer).host.replaceAll('.', '\\.')} linked since \\d`))
  assert.not.match(page.html, 'Chat')
  switchUser('bob', agent)
  const his = await SessionsPage.of(server, agent).send({ token: page.token, action: 'sign-out' })
  assert.not.ok(his.isSignedIn)
  const { html, text } = await SessionsPage.of(server, agent).signIn()
  assert.match(text, 'You are signed in as Person bob')
  assert.match(html, '&lt;b&gt;Chat&lt;/b&gt;')
  assert.is(text.split('chat.example.com').length, 2, 'each destination once')
  assert.not.match(text, 'Editor')
})

test('tokens of the sign-in are not stored, and no other login loses its refresh token', async () => {
  const agent = createBrowser('carol')
  const tokens = await logIn(editor, agent)
  const before = server.upstream.requests.length
  await SessionsPage.of(server, agent).signIn()
  assert.ok(server.upstream.requests.slice(before).includes('POST /token'))
  const page = await SessionsPage.of(server, agent).open()
  assert.is(page.html.split('<li class="link">').length, 2)
  assert.ok(await isAccepted(tokens.access_token))
})

test('no page contains an id of a login, a user or a token', async () => {
  const agent = createBrowser('dora')
  const tokens = await logIn(editor, agent)
  const { html } = await SessionsPage.of(server, agent).signIn()
  const { tsid, sub } = decodeJwt(tokens.access_token)
  const host = new URL(server.issuer).host
  const session = agent.cookie(host, 'portico-account')
  assert.is(session?.length, 43)
  for (const hidden of [tsid, sub, session, agent.cookie(host, 'portico-login'), editor.id])
    assert.not.match(html, String(hidden))
})

test('revoking a client ends only its login: 401, no refresh, and the user is asked for consent again', async () => {
  const agent = createBrowser('erin')
  const ended = await logIn(editor, agent, SITE)
  const chatTokens = await logIn(chat, agent, SITE)
  const page = new SessionsPage(agent, server.issuer)
  const before = await page.signIn()
  const after = await page.send({ token: before.token, ...findButton(before, 'Revoke Editor') })
  assert.match(after.text, 'Access is revoked.')
  assert.match(after.html, 'role="status"')
  assert.not.match(after.text, 'Editor')
  assert.match(after.html, 'Chat')
  assert.is((await call(ended.access_token)).status, 401)
  assert.is(await refusal(editor.refresh(ended.refresh_token)), '400 invalid_grant')
  assert.ok(await isAccepted(chatTokens.access_token))
  assert.ok((await readTokens(await chat.refresh(chatTokens.refresh_token))).access_token)
  const questions = agent.questions.length
  await logIn(chat, agent, SITE)
  assert.is(agent.questions.length, questions, 'access that was not revoked is remembered')
  await logIn(editor, agent, SITE)
  assert.is(agent.questions.length, questions + 1)
})

test('unlinking an account affects its own backend and no other one', async () => {
  const agent = createBrowser('fay')
  const tokens = await logIn(editor, agent)
  const others = await logIn(chat, agent)
  for (const name of PROVIDERS) assert.ok(await isAccepted(tokens.access_token, name))
  const page = new SessionsPage(agent, server.issuer)
  const before = await page.signIn()
  const host = new URL((server.upstreams[1] as { issuer: string }).issuer).host
  const button = findButton(before, `Unlink ${host} from Editor`)
  const after = await page.send({ token: before.token, ...button })
  assert.match(after.text, 'The account is unlinked.')
  assert.match(after.text, `${host} not linked`)
  assert.ok(await isAccepted(tokens.access_token, 'corp'))
  // A credential that was just fetched is used for five seconds more.
  await eventually('its backend fails', async () => !(await isAccepted(tokens.access_token, 'code')))
  for (const name of PROVIDERS) assert.ok(await isAccepted(others.access_token, name), name)
  const next = await readTokens(await editor.refresh(tokens.refresh_token))
  assert.ok(await isAccepted(next.access_token, 'corp'))
  assert.not.ok(await isAccepted(next.access_token, 'code'))
})

test('revoking everything ends all clients of the user, and of no other user', async () => {
  const agent = createBrowser('gina')
  const ended = [await logIn(editor, agent), await logIn(editor, agent), await logIn(chat, agent)]
  const other = await logIn(editor, createBrowser('hugo'))
  switchUser('gina', agent)
  const page = new SessionsPage(agent, server.issuer)
  const { token } = await page.signIn()
  const after = await page.send({ token, action: 'revoke-all' })
  assert.match(after.text, 'All access is revoked.')
  assert.match(after.text, 'No program may act for you here.')
  for (const { access_token } of ended) assert.is((await call(access_token)).status, 401)
  assert.ok(await isAccepted(other.access_token))
})

test('a refused or failed login is no sign-in', async () => {
  const agent = createBrowser('ivy')
  server.upstream.user = undefined
  const page = await SessionsPage.of(server, agent).signIn()
  assert.match(page.text, 'You are not signed in')
  assert.is(agent.cookie(new URL(server.issuer).host, 'portico-account'), undefined)
})

test.run()
