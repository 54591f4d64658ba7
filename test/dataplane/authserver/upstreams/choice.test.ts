/**
 * Each login visits one of several providers that identify users, chosen by the request or by the user, at either
 * replica.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { startBrowser } from '../../../support/browser.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
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
import { linkIn, openLink, sendForm } from '../../../support/identity/linking.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { parseConsent } from '../../../support/identity/user-agent.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const PROVIDERS = ['corp', 'partner', 'code', 'github']
const ADDRESS = 'alice@no-identity.example'

let redis: RedisServer
let raw: RawServer
let server: AuthServerUnderTest
let replica: GatewayUnderTest
let id: string

const hmac = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const prepare = async (directory: string) => {
  await writeFile(join(directory, 'hmac'), hmac)
  await writeFile(join(directory, 'key.pem'), key)
}

test.before(async () => {
  redis = await startRedis()
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const domains = [
    ['corp.example', 'no-identity.example'],
    ['Partner.Example', 'xn--bcher-kva.example'],
  ]
  server = await startAuthServer({
    providers: PROVIDERS,
    onDemand: ['github'],
    gateway: { backends: PROVIDERS.flatMap((name) => buildInjectingBackend(name, raw.url, name)) },
    authServer: {
      primaryProviders: ['corp', 'partner'],
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      storage: { type: 'redis', redis: { mode: 'standalone', addresses: [redis.address] } },
    },
    change: (config) => {
      for (const [index, emailDomains] of domains.entries())
        Object.assign(config.authServer?.upstreamProviders[index] ?? {}, { emailDomains })
    },
    prepare,
  })
  replica = await startGateway(server.config(), async (directory) => {
    await prepare(directory)
    for (const [index, { client }] of server.upstreams.entries())
      await writeFile(join(directory, index === 0 ? 'upstream-secret' : `upstream-secret-${index + 1}`), client.secret)
  })
  for (const upstream of server.upstreams) upstream.user = 'alice'
  id = (await TestClient.register(server.issuer)).id
})
test.after(async () => {
  await replica.close()
  await server.close()
  await raw.close()
  await redis.stop()
})

const readHost = ({ issuer }: LoginProvider) => new URL(issuer).host
/** Returns the providers that a browser has visited, in order. */
const listVisits = ({ agent }: TestClient) => {
  const names = server.upstreams.map(readHost)
  const hosts = [...new Set(agent.visited.map((url) => new URL(url).host))]
  return hosts.flatMap((host) => PROVIDERS[names.indexOf(host)] ?? [])
}
const call = async (name: string, token: string, url = server.gateway.url) =>
  (await postModern(url, 'tools/call', { name: `${name}_t` }, { authorization: `Bearer ${token}` })).json

async function loggedIn(...choices: Record<string, string>[]) {
  const client = new TestClient(server.issuer, id)
  client.agent.choices.push(...choices)
  const tokens = await client.login()
  return {
    client,
    token: tokens.access_token,
    refreshToken: tokens.refresh_token,
    visits: listVisits(client),
    ...decodeJwt<{ name?: string; email?: string }>(tokens.access_token),
  }
}

test('a domain leads to its provider, then to the others; one name at two providers is two users', async () => {
  const corp = await loggedIn({ email: 'somebody@corp.example' })
  assert.equal(corp.visits, ['corp', 'code'])
  const partner = await loggedIn({ email: ' Some.Body@PARTNER.example ' })
  assert.equal(partner.visits, ['partner', 'code'])
  assert.is.not(corp.sub, partner.sub)
  assert.is((await loggedIn({ provider: 'corp' })).sub, corp.sub)
  assert.equal((await loggedIn({ email: 'x@bücher.example' })).visits, ['partner', 'code'])
  for (const url of [server.gateway.url, replica.url]) {
    assert.ok((await call('partner', partner.token, url)).result)
    assert.ok((await call('code', partner.token, url)).result)
    assert.match(JSON.stringify(await call('corp', partner.token, url)), 'your login does not include the provider')
  }
})

test('an unknown domain, a subdomain of a known one, or no address shows the list', async () => {
  for (const email of ['a@elsewhere.example', 'a@sub.corp.example', 'corp.example@', '']) {
    const client = new TestClient(server.issuer, id)
    client.agent.choices.push({ email })
    const { response } = await client.agent.follow(client.authorizeUrl(), (at) => at.startsWith(REDIRECT))
    const page = (await response?.text()) ?? ''
    assert.is(response?.status, 200)
    assert.match(page, /<button name="provider" value="corp">.*\n?.*<button name="provider" value="partner">/s)
    assert.not.match(page, 'name="email"')
    assert.not.match(page, 'value="code"')
    assert.equal(listVisits(client), [])
  }
  assert.equal((await loggedIn({ email: 'a@elsewhere.example' }, { provider: 'partner' })).visits, ['partner', 'code'])
})

test('a person types an address, then chooses from the list, in Chromium: by keyboard, without scripts', async () => {
  const browser = await startBrowser()
  try {
    const page = await browser.newPage()
    page.setDefaultTimeout(120_000)
    await page.setJavaScriptEnabled(false)
    const client = new TestClient(server.issuer, id)
    const answered = page.waitForRequest((request) => request.url().startsWith(REDIRECT), { timeout: 240_000 })
    answered.catch(() => undefined)
    await page.goto(client.authorizeUrl())
    const readFocus = () => page.evaluate('document.activeElement.name + "=" + document.activeElement.value')
    /** Presses Tab until this element has the focus. */
    const tabTo = async (wanted: string) => {
      for (let tabs = 0; tabs < 10 && (await readFocus()) !== wanted; tabs++) await page.keyboard.press('Tab')
      assert.is(await readFocus(), wanted)
    }
    const enter = () => Promise.all([page.waitForNavigation().catch(() => undefined), page.keyboard.press('Enter')])
    if (await page.$('button[value=allow]')) {
      await tabTo('decision=allow')
      await enter()
    }
    await tabTo('email=')
    await page.keyboard.type('a@elsewhere.example')
    await enter()
    await tabTo('provider=partner')
    // Nothing listens at the last redirect's address.
    await enter()
    const code = new URL((await answered).url()).searchParams.get('code') ?? ''
    const { access_token: token } = await readTokens(await client.exchange(secret(code)))
    assert.is(decodeJwt(token).sub, (await loggedIn({ provider: 'partner' })).sub)
  } finally {
    await browser.close()
  }
})

test('a typed address is no identity, and is passed to nobody', async () => {
  const { name, email, sub, client, token } = await loggedIn({ email: ADDRESS })
  assert.equal([name, email].includes(ADDRESS), false)
  assert.is(sub, (await loggedIn({ provider: 'corp' })).sub)
  const requests = server.upstreams.flatMap(({ authorizations }) => authorizations.map(String))
  const visible = JSON.stringify([
    requests,
    client.agent.visited,
    decodeJwt(token),
    server.gateway.lines,
    replica.lines,
  ])
  assert.not.match(visible, 'no-identity')
})

test('the page works at the other replica, in its own browser; each answer fits its own provider', async () => {
  const client = new TestClient(server.issuer, id)
  const { response } = await client.agent.follow(client.authorizeUrl(), (at) => at.startsWith(REDIRECT))
  const page = (await response?.text()) ?? ''
  assert.match(page, 'name="email"')
  const { token = '' } = parseConsent(page, server.issuer) ?? {}
  client.agent.share(new URL(server.issuer).host, new URL(replica.url).host)
  const choose = (url: string, fields: Record<string, string>, { agent } = client) =>
    agent.post(new URL('/oauth/choose', url).href, { token, ...fields })
  const stranger = new TestClient(server.issuer, id)
  await stranger.agent.get(stranger.authorizeUrl())
  assert.is((await choose(server.issuer, { provider: 'corp' }, stranger)).status, 400)
  for (const provider of ['code', 'github', 'nobody', '__proto__'])
    assert.is((await choose(server.issuer, { provider })).status, 400, provider)
  assert.is((await client.agent.post(`${server.issuer}/oauth/choose`, { provider: 'corp' })).status, 400)
  const [first, second] = [
    await choose(replica.url, { provider: 'corp' }),
    await choose(replica.url, { provider: 'partner' }),
  ]
  const readState = (one: Response) => new URL(one.headers.get('location') ?? '').searchParams.get('state') ?? ''
  assert.is(first.status, 302)
  assert.is.not(readState(first), readState(second))
  // The same choice again replaces the first one: nothing grows.
  assert.is(readState(await choose(server.issuer, { provider: 'corp' })), readState(first))
  const end = await client.agent.follow(second.headers.get('location') ?? '', (at) => at.startsWith(REDIRECT))
  const code = new URL(end.url).searchParams.get('code') ?? ''
  assert.is((await client.exchange(code)).status, 200)
  // The client already has its answer, so the other choice leads nowhere.
  const late = await client.agent.follow(first.headers.get('location') ?? '', (at) => at.startsWith(REDIRECT))
  assert.not.ok(late.url.startsWith(REDIRECT))
})

test('a link leads through the provider that knows its user, and a sign-in asks', async () => {
  const { client, token } = await loggedIn({ provider: 'partner' })
  const link = linkIn(await call('github', token, replica.url))
  const { form, text } = await openLink(client.agent, link)
  assert.match(
    text,
    new RegExp(
      `${readHost(server.upstreams[1] as LoginProvider)}.*then.*${readHost(server.upstreams[3] as LoginProvider)}`,
      's',
    ),
  )
  assert.match((await sendForm(client.agent, form)).text, 'github is linked')
  assert.ok((await call('github', token)).result)
  const page = await (await client.agent.get(`${server.issuer}/oauth/sessions`)).text()
  assert.match(page, new RegExp(`Sign in at ${server.upstreams.slice(0, 2).map(readHost).join(' or ')}`))
  const fields = { token: parseConsent(page, server.issuer)?.token ?? '', action: 'sign-in' }
  const choice = await (await client.agent.post(`${server.issuer}/oauth/sessions`, fields)).text()
  const chosen = { token: parseConsent(choice, server.issuer)?.token ?? '', provider: 'partner' }
  const sent = await client.agent.post(`${server.issuer}/oauth/choose`, chosen)
  const { response } = await client.agent.follow(sent.headers.get('location') ?? '', () => false)
  assert.match((await response?.text()) ?? '', 'You are signed in as')
})

test('a provider that is taken out ends the logins at it at both replicas, and no others', async () => {
  const [partner, corp] = [await loggedIn({ provider: 'partner' }), await loggedIn({ provider: 'corp' })]
  const statuses = ({ token }: typeof partner) =>
    Promise.all(
      [server.gateway.url, replica.url].map(
        async (url) => (await postModern(url, 'tools/list', {}, { authorization: `Bearer ${token}` })).status,
      ),
    )
  assert.equal([await statuses(partner), await statuses(corp)].flat(), [200, 200, 200, 200])
  const whole = server.config()
  const { authServer } = whole
  assert.ok(authServer)
  const { primaryProviders: _, ...settings } = authServer
  const others = authServer.upstreamProviders.filter(({ name }) => name !== 'partner')
  const upstreamProviders = others.map(({ emailDomains: __, ...provider }) => provider)
  const without = {
    ...whole,
    backends: whole.backends.filter(({ name }) => name !== 'partner'),
    authServer: { ...settings, upstreamProviders },
  }
  const use = async (config: typeof whole) => {
    for (const gateway of [server.gateway, replica]) {
      const before = (await gateway.status()).config
      await gateway.configure(config)
      await eventually('it is in force', async () => (await gateway.status()).config !== before)
    }
  }
  await use(without)
  assert.equal(await statuses(partner), [401, 401])
  assert.is(await refusal(partner.client.refresh(partner.refreshToken)), '400 invalid_grant')
  assert.equal(await statuses(corp), [200, 200])
  const { refresh_token: next } = await readTokens(await corp.client.refresh(corp.refreshToken))
  assert.ok(next)
  await use(whole)
  assert.equal(await statuses(partner), [200, 200])
  assert.ok((await readTokens(await partner.client.refresh(partner.refreshToken))).access_token)
})

test.run()
