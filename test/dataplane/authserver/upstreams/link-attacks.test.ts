/** Checks that a link works only for its own user, once, in the browser that opened it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  startAuthServer,
  TestClient,
  type Tokens,
} from '../../../support/identity/auth-server.ts'
import { follow, linkIn, openLink, sendForm } from '../../../support/identity/linking.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let server: AuthServerUnderTest
let raw: RawServer
let client: TestClient
let tokens: Tokens
let link: string

test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  server = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    gateway: { backends: [buildInjectingBackend('hub', raw.url)] },
  })
  client = await TestClient.register(server.issuer)
})
test.before.each(async () => {
  server.upstream.user = 'alice'
  client = new TestClient(server.issuer, client.id)
  tokens = await client.login()
  link = linkIn((await call()).json)
  raw.seen.length = 0
  for (const { requests } of server.upstreams) requests.length = 0
})
test.after(async () => {
  await server.close()
  await raw.close()
})

const call = (token = tokens.access_token) =>
  postModern(server.gateway.url, 'tools/call', { name: 'hub_t' }, { authorization: `Bearer ${token}` })
const visits = (index: number) =>
  (server.upstreams[index] as LoginProvider).requests.filter((request) => request === 'GET /auth').length
const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
const isGithub = (url: string) => url.startsWith((server.upstreams[1] as LoginProvider).issuer)

/** Asserts that the call still asks for a login and that nothing was sent to the backend. */
async function assertUnlinked(): Promise<void> {
  linkIn((await call()).json.result)
  assert.is(raw.calls('tools/call').length, 0)
}

test('opening a link does not use it up', async () => {
  for (let looks = 0; looks < 10; looks++) assert.is((await openLink(new UserAgent(), link)).status, 200)
  assert.is((await fetch(link, { method: 'HEAD' })).status, 200)
  assert.is((await follow(client.agent, link)).status, 200)
  assert.ok((await call()).json.result.content)
})

test('a link is used once, by the first visitor', async () => {
  const { form } = await openLink(client.agent, link)
  const pages = await Promise.all(Array.from({ length: 10 }, () => sendForm(client.agent, form, isCallback)))
  assert.is(pages.filter(({ status }) => status === 0).length, 1)
  for (const { status, text } of pages) if (status !== 0) assert.match(`${status} ${text}`, '400 ')
  assert.is((await openLink(client.agent, link)).status, 400)
  assert.is.not(linkIn((await call()).json), link)
})

test('an attacker who sends a link gains nothing from those who follow it', async () => {
  server.upstream.user = 'bob'
  const victim = new UserAgent()
  const page = await openLink(victim, link)
  assert.match(page.text, 'alice@example.com')
  const end = await sendForm(victim, page.form)
  assert.is(end.status, 400)
  assert.match(end.text, 'This link belongs to another person.')
  assert.is(visits(0), 1)
  // The provider of these tokens was not contacted.
  assert.is(visits(1), 0)
  await assertUnlinked()
})

test('a login as the right person in one browser can’t be completed in another', async () => {
  const { form } = await openLink(client.agent, link)
  const { url } = await sendForm(client.agent, form, isGithub)
  const victim = new UserAgent()
  await victim.get(client.authorizeUrl())
  const end = await victim.follow(url, () => false)
  assert.is(end.response?.status, 400)
  await assertUnlinked()
})

test('the form works only in the browser in which it was shown', async () => {
  const { form } = await openLink(client.agent, link)
  const other = new UserAgent()
  await openLink(other, link)
  for (const agent of [other, new UserAgent()]) {
    const end = await sendForm(agent, form)
    assert.is(end.status, 400)
  }
  // That attempt did not use it up either.
  assert.is((await sendForm(client.agent, form)).status, 200)
})

test('only the page’s own form begins a link', async () => {
  const { form } = await openLink(client.agent, link)
  const { action, fields } = form ?? { action: '', fields: {} }
  const { ticket = '', token = '' } = fields
  const [name = '', proof = ''] = ticket.split('.')
  for (const wrong of [
    {},
    { ticket },
    { token },
    { ticket, token: `${token.slice(1)}a` },
    { ticket: `${name}.${'a'.repeat(43)}`, token },
    { ticket: `${'a'.repeat(43)}.${proof}`, token },
    { ticket: name, token },
    { ticket: `${ticket}.`, token },
    { ticket: `${'a'.repeat(60_000)}`, token },
  ] as Record<string, string>[])
    assert.is((await client.agent.post(action, wrong)).status, 400, Object.keys(wrong).join())
  for (const path of [
    'link',
    'link?ticket=',
    'link?ticket=x',
    `link?ticket=${name}.${'a'.repeat(43)}`,
    `link?ticket=${ticket}&ticket=${ticket}`,
  ])
    assert.is((await fetch(`${server.issuer}/oauth/${path}`)).status, 400, path)
  const json = await fetch(action, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(fields),
  })
  assert.is(json.status, 400)
  assert.is(visits(0), 0)
  assert.is((await sendForm(client.agent, form)).status, 200)
})

test('a login that ends before or during a link gets no tokens', async () => {
  const { form } = await openLink(client.agent, link)
  const { url } = await sendForm(client.agent, form, isGithub)
  assert.is((await client.post('revoke', { client_id: client.id, token: tokens.refresh_token })).status, 200)
  const { response } = await client.agent.follow(url, () => false)
  assert.is(response?.status, 400)
  assert.match((await response?.text()) ?? '', 'The login that the link belongs to has ended.')
})

test('the end of a login ends its links', async () => {
  await follow(client.agent, link)
  assert.ok((await call()).json.result.content)
  assert.is((await client.post('revoke', { client_id: client.id, token: tokens.refresh_token })).status, 200)
  await eventually('its end is seen', async () => (await call()).status === 401)
})

test('if the person refuses or the provider fails, nothing is linked', async () => {
  const github = server.upstreams[1] as LoginProvider
  github.user = undefined
  const end = await follow(client.agent, link)
  github.user = 'alice'
  assert.is(end.status, 400)
  assert.match(end.text, 'Nothing has been linked')
  await assertUnlinked()
})

test('another user of the same gateway gets a link of their own, and nothing of this one', async () => {
  await follow(client.agent, link)
  server.upstream.user = 'bob'
  const bob = new TestClient(server.issuer, client.id)
  const { access_token: token } = await bob.login()
  assert.is.not(linkIn((await call(token)).json.result), link)
})

test('a provider that every login visits by now, or that was removed, can’t be linked', async () => {
  const { form } = await openLink(client.agent, link)
  const { url } = await sendForm(client.agent, form, isGithub)
  const { upstreamProviders = [] } = server.config().authServer ?? {}
  const hubless = { backends: [] }
  await server.gateway.configure(server.config({ upstreamProviders: upstreamProviders.slice(0, 1) }, hubless))
  await eventually('the configuration', async () => (await server.gateway.status()).backends.length === 0)
  const { response } = await client.agent.follow(url, () => false)
  assert.is(response?.status, 400)
  await server.gateway.configure(server.config())
  await eventually('the configuration', async () => (await server.gateway.status()).backends[0]?.health === 'healthy')
  await assertUnlinked()
})

test('the log contains nothing of a link', () => {
  assert.not.match(JSON.stringify(server.gateway.lines), 'ticket')
})

test.run()
