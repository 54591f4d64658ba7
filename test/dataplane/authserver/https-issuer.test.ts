/** Tests an issuer with https, as in production, behind a proxy that terminates TLS. Its cookie is for this host alone. */
import { hash, X509Certificate } from 'node:crypto'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../secrets/watch.ts'
import { startBrowser } from '../../support/browser.ts'
import { postModern } from '../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  startAuthServer,
  TestClient,
} from '../../support/identity/auth-server.ts'
import { UserAgent } from '../../support/identity/user-agent.ts'
import { type Authority, createAuthority } from '../../support/network/certificates.ts'
import { startTcpFront, type TcpFront } from '../../support/network/tcp-front.ts'

const NAME = '__Host-portico-login'
const COOKIE = /^__Host-portico-login=[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; Secure; SameSite=Lax$/

let authority: Authority
let front: TcpFront
let server: AuthServerUnderTest
let plain: AuthServerUnderTest
let client: TestClient

test.before(async () => {
  authority = await createAuthority()
  setDefaultCACertificates([...getCACertificates('default'), authority.ca])
  front = await startTcpFront(0, { key: authority.key, cert: authority.cert })
  server = await startAuthServer({ origin: `https://localhost:${front.port}`, providers: ['corp', 'code'] })
  front.choose(Number(new URL(server.gateway.base).port))
  plain = await startAuthServer()
  client = await TestClient.register(server.issuer)
})
test.after(async () => {
  await Promise.all([server.close(), plain.close(), front.close(), authority.remove()])
})

/** Follows a login to the first provider's redirect. */
const toCallback = async (agent: UserAgent, url: string) =>
  (await agent.follow(url, (at) => at.includes('/oauth/callback?'))).url

test('the cookie is Secure, for all paths, and names no domain', async () => {
  const { headers } = await new UserAgent().get(client.authorizeUrl())
  const [cookie = '', ...more] = headers.getSetCookie()
  assert.equal(more, [])
  assert.match(cookie, COOKIE)
})

test('a complete login over TLS, with its tokens', async () => {
  const answer = await client.authorize()
  assert.is(answer.get('iss'), server.issuer)
  const tokens = await readTokens(await client.exchange(answer.get('code') as string))
  const { access_token: token } = await readTokens(await client.refresh(tokens.refresh_token))
  const discovery = await postModern(server.resource, 'server/discover', {}, { authorization: `Bearer ${token}` })
  assert.is(discovery.status, 200)
  const metadata = await (await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)).json()
  for (const [name, url] of Object.entries(metadata as Record<string, string>))
    if (name.endsWith('_endpoint') || name.endsWith('_uri')) assert.ok(url.startsWith(`${server.issuer}/`), name)
})

test('the gateway checks its own tokens without fetching keys from its own address', async () => {
  const answer = await client.authorize()
  const { access_token: token } = await readTokens(await client.exchange(answer.get('code') as string))
  const { port } = new URL(server.gateway.base)
  const before = front.connections(Number(port))
  const ask = async (bearer: string) =>
    (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${bearer}` })).status
  assert.is(await ask(token), 200)
  const [head = '', ...rest] = token.split('.')
  const header = { ...JSON.parse(Buffer.from(head, 'base64url').toString()), kid: 'unknown' }
  const unknown = [Buffer.from(JSON.stringify(header)).toString('base64url'), ...rest].join('.')
  for (const wrong of [unknown, `${token.slice(0, -8)}AAAAAAAA`]) assert.is(await ask(wrong), 401)
  assert.is(front.connections(Number(port)), before)
})

test('Chromium stores the cookie, and sends it on return from two providers', async () => {
  const { publicKey } = new X509Certificate(authority.cert)
  const pin = hash('sha256', publicKey.export({ type: 'spki', format: 'der' }), 'base64')
  const browser: Browser = await startBrowser(`--ignore-certificate-errors-spki-list=${pin}`)
  try {
    const page = await browser.newPage()
    const answered = page.waitForRequest((request) => request.url().startsWith(REDIRECT), { timeout: 60_000 })
    answered.catch(() => undefined)
    await page.goto(client.authorizeUrl({ state: 'from-chromium' }))
    const [cookie, ...more] = (await browser.cookies()).filter(({ name }) => name.includes('portico'))
    assert.equal(more, [])
    assert.equal(
      [cookie?.name, cookie?.secure, cookie?.httpOnly, cookie?.path, cookie?.domain, cookie?.sameSite],
      [NAME, true, true, '/', 'localhost', 'Lax'],
    )
    secret(cookie?.value as string)
    // Nothing listens at the last redirect's address.
    await Promise.all([page.waitForNavigation().catch(() => undefined), page.locator('button[value=allow]').click()])
    const found = new URL((await answered).url()).searchParams
    assert.is(found.get('state'), 'from-chromium')
    const { access_token: token } = await readTokens(await client.exchange(secret(found.get('code') as string)))
    assert.ok(token)
  } finally {
    await browser.close()
  }
})

test('a cookie without the __Host- prefix is ignored, since other hosts and plain http may set it', async () => {
  for (const name of ['portico-login', '__Secure-portico-login', '__host-portico-login', 'x__Host-portico-login']) {
    const agent = new UserAgent()
    const url = await toCallback(agent, client.authorizeUrl())
    const id = agent.cookie(new URL(server.issuer).host, NAME) as string
    assert.ok(id)
    const bare = await fetch(url, { redirect: 'manual', headers: { cookie: `${name}=${id}` } })
    assert.is(bare.status, 400, name)
    await bare.body?.cancel()
    // The stranger's attempt consumed it, so the user can't continue with an address that a stranger has seen.
    assert.is((await agent.get(url)).status, 400)
  }
})

test('an http issuer neither sets nor accepts a cookie with the prefix', async () => {
  const other = await TestClient.register(plain.issuer)
  const agent = new UserAgent()
  const { headers } = await agent.get(other.authorizeUrl())
  assert.equal(
    headers.getSetCookie().map((line) => /^[^=]+/.exec(line)?.[0]),
    ['portico-login'],
  )
  assert.not.match(headers.getSetCookie().join(), /secure/i)
  const url = await toCallback(agent, other.authorizeUrl())
  const id = agent.cookie(new URL(plain.issuer).host, 'portico-login') as string
  const prefixed = await fetch(url, { redirect: 'manual', headers: { cookie: `${NAME}=${id}` } })
  assert.is(prefixed.status, 400)
})

test.run()
