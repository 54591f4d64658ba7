/**
 * Tests links with `tokensPer: user`: each user links once, for all their logins and assertions; in memory and at two
 * replicas.
 */

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { follow, linkIn, openLink, sendForm } from '../../../support/identity/linking.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { findButton, SessionsPage } from '../sessions/pages.ts'

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const secrets = { job: secret(randomBytes(24).toString('hex')), bot: secret(randomBytes(24).toString('hex')) }
const hmac = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

/** A gateway, or two with one storage. */
interface Place {
  readonly server: AuthServerUnderTest
  readonly urls: readonly string[]
  readonly corp: LoginProvider
  readonly partner: LoginProvider
  readonly github: LoginProvider
}

let raw: RawServer
/** Values of `Authorization` that the backend refuses. */
const refused = new Set<string>()
let redis: RedisServer
const places: Place[] = []
const closing: (() => Promise<unknown>)[] = []

const policy = (linkTo: string, { issuer }: LoginProvider, resource: string) => ({
  issuerUrl: issuer,
  jwtBearerGrant: {
    maxAssertionAge: '10m',
    linkTo,
    subjectRules: [{ name: 'all', matcher: 'true', allowedResources: [resource] }],
  },
})

async function open(storage?: AuthServerConfig['storage']): Promise<Place> {
  const ofFiles = { ...(storage && { storage, hmacSecretFiles: ['hmac'], signingKeyFiles: ['key.pem'] }) }
  const prepare = async (folder: string) => {
    await writeFile(join(folder, 'hmac'), hmac)
    await writeFile(join(folder, 'key.pem'), key)
    for (const name of ['job', 'bot'] as const) await writeFile(join(folder, name), secrets[name])
  }
  const server = await startAuthServer({
    providers: ['corp', 'partner', 'github', 'wiki'],
    onDemand: ['github', 'wiki'],
    authServer: {
      ...ofFiles,
      primaryProviders: ['corp', 'partner'],
      allowConfidentialClientRegistration: true,
      insecureAllowConfidentialOverLoopbackHTTP: true,
    },
    gateway: { backends: [buildInjectingBackend('hub', raw.url), buildInjectingBackend('wiki', raw.url, 'wiki')] },
    change({ authServer: config, resourceUrl: resource = '' }) {
      const { upstreamProviders = [], ...others } = config as AuthServerConfig
      const issuers = upstreamProviders.map(({ oidcConfig }) => ({ issuer: oidcConfig?.issuerUrl ?? '' }))
      const [corp, partner] = issuers as LoginProvider[] as [LoginProvider, LoginProvider]
      Object.assign(config as object, {
        ...others,
        upstreamProviders: upstreamProviders.map((one) => ({
          ...one,
          ...(one.name === 'github' && { tokensPer: 'user' }),
        })),
        trustedIssuers: [policy('corp', corp, resource), policy('partner', partner, resource)],
        inboundGrants: {
          clientCredentials: {
            clients: [
              { clientId: 'job', clientSecretFile: 'job', allowedResources: [resource], scopes: ['tools:call'] },
            ],
          },
          tokenExchange: {
            delegateClients: [
              { clientId: 'bot', clientSecretFile: 'bot', audiences: [resource], scopes: ['tools:call', 'tools:read'] },
            ],
          },
        },
      })
    },
    prepare,
  })
  closing.push(() => server.close())
  const [corp, partner, github] = server.upstreams as [LoginProvider, LoginProvider, LoginProvider]
  const place = { server, corp, partner, github }
  if (storage === undefined) return { ...place, urls: [server.gateway.url] }
  const replica: GatewayUnderTest = await startGateway(server.config(), async (folder) => {
    await prepare(folder)
    for (const [index, { client }] of server.upstreams.entries())
      await writeFile(join(folder, index === 0 ? 'upstream-secret' : `upstream-secret-${index + 1}`), client.secret)
  })
  closing.push(() => replica.close())
  return { ...place, urls: [server.gateway.url, replica.url] }
}

test.before(async () => {
  raw = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before: ({ headers }, res) => {
      if (!refused.has(headers.authorization ?? '')) return false
      res.writeHead(401).end()
      return true
    },
  })
  redis = await startRedis()
  places.push(await open())
  places.push(await open({ type: 'redis', redis: { mode: 'standalone', addresses: [redis.address] } }))
})
test.after(async () => {
  for (const close of closing.reverse()) await close()
  await raw.close()
  await redis.stop()
})

const call = async (token: string, url: string, name = 'hub_t') =>
  (await postModern(url, 'tools/call', { name }, { authorization: `Bearer ${token}` })).json
const isServed = async (token: string, url: string) => (await call(token, url)).result?.content?.[0]?.text === 'ok'
const listSent = () => raw.calls('tools/call').map(({ headers }) => headers.authorization)

const clients = new Map<Place, TestClient[]>()
/** Returns two clients that redeem assertions, for each place. */
async function createAgents(place: Place): Promise<TestClient[]> {
  const metadata = {
    redirect_uris: ['https://app.example/callback'],
    token_endpoint_auth_method: 'client_secret_basic',
  }
  const register = () => TestClient.register(place.server.issuer, metadata)
  const found = clients.get(place) ?? [await register(), await register()]
  clients.set(place, found)
  return found
}

async function byAssertion(
  place: Place,
  user: string,
  { from = place.corp, nth = 0, ...claims }: { from?: LoginProvider; nth?: number; act?: object } = {},
): Promise<string> {
  const agent = (await createAgents(place))[nth] as TestClient
  const { issuer, resource } = place.server
  const assertion = await from.mint({ aud: issuer, client_id: agent.id, sub: user, ...claims })
  return (await readTokens(await agent.token({ grant_type: BEARER, assertion, resource }))).access_token
}

/** Follows a link as this user of the first provider, with this account at the second. */
async function link({ server, corp, partner, github }: Place, url: string, user: string, account = user) {
  for (const provider of [corp, partner]) provider.user = user
  github.user = account
  return follow(new TestClient(server.issuer).agent, url)
}

async function page(place: Place, user: string) {
  place.corp.user = user
  const visitor = new UserAgent()
  const open = SessionsPage.of(place.server, visitor)
  const { html } = await open.send({ token: (await open.open()).token, action: 'sign-in' })
  const [, proof = ''] = /name="token" value="([^"]+)"/.exec(html) ?? []
  const chosen = await visitor.post(`${place.server.issuer}/oauth/choose`, { token: proof, provider: 'corp' })
  return { open, signedIn: await open.open(chosen.headers.get('location') ?? '') }
}

test('a person links once, and their second client, their logins and each replica need no link', async () => {
  for (const place of places) {
    const { server, urls, corp, partner, github } = place
    const token = await byAssertion(place, 'alice')
    raw.seen.length = 0
    const links = new Set<string>()
    for (const url of [...urls, ...urls]) links.add(linkIn(await call(token, url)))
    assert.is(links.size, 1)
    assert.equal(listSent(), [])
    const visited = [corp, partner].map(({ requests }) => requests.length)
    const done = await link(place, [...links][0] ?? '', 'alice')
    assert.is(done.status, 200)
    assert.match(done.text, 'github is linked')
    assert.ok(corp.requests.length > (visited[0] ?? 0))
    assert.is(partner.requests.length, visited[1])
    for (const url of urls) assert.ok(await isServed(token, url))
    const bearer = listSent().at(-1) ?? ''
    assert.match(bearer, /^Bearer /)
    assert.not.match(bearer, token)
    for (const url of urls) assert.ok(await isServed(await byAssertion(place, 'alice', { nth: 1 }), url))
    corp.user = 'alice'
    const browser = await TestClient.register(server.issuer)
    browser.agent.choices.push({ provider: 'corp' })
    const login = await browser.login()
    assert.ok(await isServed(login.access_token, urls.at(-1) ?? ''))
    assert.equal(new Set(listSent()), new Set([bearer]))
    // The end of a login does not end the user's link.
    assert.is((await browser.post('revoke', { client_id: browser.id, token: login.refresh_token })).status, 200)
    assert.ok(await isServed(token, urls[0] ?? ''))
    // Another user gets their own link.
    linkIn(await call(await byAssertion(place, 'bob'), urls[0] ?? ''))
    assert.equal(github.user, 'alice')
  }
})

test('with several providers, a link leads to the one where its person logs in', async () => {
  for (const place of places) {
    const { urls, corp, partner } = place
    const token = await byAssertion(place, 'alice', { from: partner })
    const before = corp.requests.length
    const url = linkIn(await call(token, urls.at(-1) ?? ''))
    assert.is((await link(place, url, 'alice', 'partners-alice')).status, 200)
    assert.is(corp.requests.length, before)
    for (const one of urls) assert.ok(await isServed(token, one))
    // The user of the same name at the other provider has another account.
    assert.is.not(decodeJwt(token).sub, decodeJwt(await byAssertion(place, 'alice')).sub)
  }
})

test('another person who opens the link is refused, and nothing is stored', async () => {
  for (const place of places) {
    const { urls, github } = place
    const token = await byAssertion(place, 'carol')
    const url = linkIn(await call(token, urls[0] ?? ''))
    const before = github.requests.filter((request) => request.includes('/auth')).length
    const refused = await link(place, url, 'mallory')
    assert.is.not(refused.status, 200)
    assert.is(github.requests.filter((request) => request.includes('/auth')).length, before)
    for (const one of urls)
      for (const who of ['carol', 'mallory']) linkIn(await call(await byAssertion(place, who), one))
  }
})

test('an actor without the person’s login can neither use nor create links', async () => {
  for (const place of places) {
    const { server, urls } = place
    const subject = await byAssertion(place, 'alice')
    const bot = new TestClient(server.issuer, 'bot')
    bot.secret = secrets.bot
    const exchanged = await readTokens(
      await bot.token({ grant_type: EXCHANGE, subject_token: subject, subject_token_type: ACCESS_TOKEN }),
    )
    const acting = await byAssertion(place, 'alice', { act: { sub: 'agent' } })
    raw.seen.length = 0
    // An earlier call, so that the user's tokens are cached.
    for (const url of urls) assert.ok(await isServed(subject, url))
    const before = listSent().length
    for (const token of [exchanged.access_token, acting])
      for (const url of urls) {
        assert.is(decodeJwt(token).sub, decodeJwt(subject).sub)
        const answered = JSON.stringify(await call(token, url))
        assert.not.match(answered, '/oauth/link')
        assert.match(answered, 'acts for')
      }
    assert.is(listSent().length, before)
  }
})

test('a machine gets an error that it has no login, for both kinds of provider, and no credential is sent', async () => {
  for (const place of places) {
    const { server, urls } = place
    const job = new TestClient(server.issuer, 'job')
    job.secret = secrets.job
    const { resource } = server
    const { access_token: token } = await readTokens(await job.token({ grant_type: 'client_credentials', resource }))
    const person = await byAssertion(place, 'alice')
    raw.seen.length = 0
    for (const url of urls) {
      for (const [who, name, says] of [
        [token, 'hub_t', 'only people who log in here'],
        [token, 'wiki_t', 'no login'],
        [person, 'wiki_t', 'you have to log in at the provider'],
      ] as const) {
        const answered = JSON.stringify(await call(who, url, name))
        assert.match(answered, says)
        assert.not.match(answered, '/oauth/link')
      }
    }
    assert.is(raw.calls('tools/call').length, 0)
  }
})

test('a person sees a link on the sessions page and ends it; revoking everything ends it, too', async () => {
  for (const place of places) {
    const { urls, github } = place
    const token = await byAssertion(place, 'alice')
    const { open: sessions, signedIn } = await page(place, 'alice')
    assert.match(signedIn.text, new URL(github.issuer).host)
    const ended = await sessions.send({
      token: signedIn.token,
      ...findButton(signedIn, `Unlink ${new URL(github.issuer).host}`),
    })
    assert.match(ended.text, 'unlinked')
    for (const url of urls)
      await eventually('its end is seen', async () => JSON.stringify(await call(token, url)).includes('/oauth/link'))
    const again = linkIn(await call(token, urls[0] ?? ''))
    assert.is((await link(place, again, 'alice')).status, 200)
    for (const url of urls) await eventually('the link', () => isServed(token, url))

    // A pending link ends as well.
    const waiting = await byAssertion(place, 'dan')
    const early = linkIn(await call(waiting, urls[0] ?? ''))
    place.corp.user = 'dan'
    const { agent } = new TestClient(place.server.issuer)
    const { form } = await openLink(agent, early)
    const back = await sendForm(agent, form, (at) => at.includes('/oauth/callback') && at.includes('state='))
    for (const user of ['alice', 'dan']) {
      const { open: own, signedIn: seen } = await page(place, user)
      assert.match((await own.send({ token: seen.token, action: 'revoke-all' })).text, 'All access is revoked.')
    }
    place.github.user = 'dan'
    const { response } = await agent.follow(back.url, () => false)
    assert.is.not(response?.status, 200)
    for (const url of urls)
      for (const user of ['alice', 'dan']) {
        const own = await byAssertion(place, user)
        await eventually('nothing is linked', async () => JSON.stringify(await call(own, url)).includes('/oauth/link'))
      }
  }
})

test('if a provider revokes its grant, the user must follow a link again', async () => {
  for (const place of places) {
    const { urls, github } = place
    const token = await byAssertion(place, 'erin')
    assert.is((await link(place, linkIn(await call(token, urls[0] ?? '')), 'erin')).status, 200)
    assert.ok(await isServed(token, urls[0] ?? ''))
    const old = listSent().at(-1) ?? ''
    refused.add(old)
    // If a backend refuses the token, it is refreshed for all replicas.
    for (const url of urls) assert.ok(await isServed(token, url))
    assert.is.not(listSent().at(-1), old)
    refused.add(listSent().at(-1) ?? '')
    github.before = (request, response) => {
      if (request.url !== '/token') return false
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}')
      return true
    }
    const links = await Promise.all(urls.map(async (url) => linkIn(await call(token, url))))
    github.before = undefined
    assert.is((await link(place, links[0] ?? '', 'erin')).status, 200)
    for (const url of urls) await eventually('the new link', () => isServed(token, url))
  }
})

test('stored tokens are sealed, and can be opened under their own name alone', async () => {
  const place = places[1] as Place
  const url = place.urls[1] ?? ''
  const store = openRedis(redis.port, '127.0.0.1')
  const readStored = async () => {
    const names = (await store.keys('*:upstream:*')).filter((name) => !name.includes(':lock:'))
    return new Map(await Promise.all(names.map(async (name) => [name, await store.hget(name, 'github')] as const)))
  }
  /** Links a user's account; returns their token and the names of their records, which hide the access token. */
  const linkNow = async (user: string) => {
    const token = await byAssertion(place, user)
    assert.is((await link(place, linkIn(await call(token, url)), user)).status, 200)
    assert.ok(await isServed(token, url))
    const bearer = listSent().at(-1)?.slice('Bearer '.length) ?? ''
    for (const value of (await readStored()).values()) assert.not.match(value ?? '', bearer)
    const name = [...(await readStored()).keys()].filter((one) => !seen.has(one))
    for (const one of name) seen.add(one)
    return { token, names: name }
  }
  const seen = new Set((await readStored()).keys())
  try {
    const [ada, eve] = [await linkNow('ada'), await linkNow('eve')]
    // One record has the tokens, the other what a later login needs.
    assert.equal([ada.names.length, eve.names.length], [2, 2])
    const all = await readStored()
    for (const from of ada.names) {
      for (const to of eve.names) await store.hset(to, 'github', all.get(from) ?? '')
      for (const one of place.urls)
        await eventually('a copied record is useless', async () =>
          JSON.stringify(await call(eve.token, one)).includes('/oauth/link'),
        )
    }
    assert.ok(await isServed(ada.token, url))
  } finally {
    store.disconnect()
  }
})

test.run()
