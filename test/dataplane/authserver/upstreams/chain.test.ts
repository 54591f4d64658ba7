/** Users log in at several providers in sequence, and each backend gets its own provider's token. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const PROVIDERS = ['corp', 'code', 'chat']

let server: AuthServerUnderTest
let raw: RawServer
let client: TestClient

test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const backends = PROVIDERS.flatMap((name) => buildInjectingBackend(name, raw.url, name))
  server = await startAuthServer({ providers: PROVIDERS, gateway: { backends } })
  client = await TestClient.register(server.issuer)
})
test.before.each(() => {
  raw.seen.length = 0
  client.agent.visited.length = 0
  for (const [index, upstream] of server.upstreams.entries()) {
    upstream.user = `alice-${index}`
    upstream.before = undefined
    upstream.requests.length = 0
    client.agent.forget(new URL(upstream.issuer).host)
  }
})
test.after(async () => {
  await server.close()
  await raw.close()
})

const listHosts = (urls: readonly string[]) => [...new Set(urls.map((url) => new URL(url).host))]
const readHost = ({ issuer }: LoginProvider) => new URL(issuer).host
const call = (name: string, token: string) =>
  postModern(server.gateway.url, 'tools/call', { name: `${name}_t` }, { authorization: `Bearer ${token}` })
/** Returns the bearer tokens that the backend received. */
const listSent = () => raw.calls('tools/call').map(({ headers }) => headers.authorization)

test('a login visits the providers in order and ends with one JWT; each backend gets its provider’s token', async () => {
  const { access_token: token } = await client.login()
  const own = new URL(server.issuer).host
  assert.equal(
    listHosts(client.agent.visited).filter((host) => host !== own),
    server.upstreams.map(readHost),
  )
  for (const name of PROVIDERS) assert.ok((await call(name, token)).json.result, name)
  assert.is(new Set(listSent()).size, PROVIDERS.length)
  assert.not.ok(listSent().includes(`Bearer ${token}`))
  for (const upstream of server.upstreams) assert.ok(upstream.requests.includes('POST /token'))
  const again = await client.login()
  assert.is(decodeJwt(again.access_token).sub, decodeJwt(token).sub)
  assert.is.not(decodeJwt(again.access_token)['tsid'], decodeJwt(token)['tsid'])
})

test('each provider gets a state, nonce and challenge of its own', async () => {
  await client.login()
  for (const name of ['state', 'nonce', 'code_challenge']) {
    const values = server.upstreams.map(({ authorizations }) => authorizations.at(-1)?.get(name))
    assert.is(new Set(values).size, PROVIDERS.length, name)
  }
  for (const { authorizations } of server.upstreams)
    assert.is(authorizations.at(-1)?.get('code_challenge_method'), 'S256')
})

test('the first provider says who the user is', async () => {
  const { sub } = decodeJwt((await client.login()).access_token)
  for (const upstream of server.upstreams) client.agent.forget(readHost(upstream))
  for (const [index, upstream] of server.upstreams.entries()) if (index > 0) upstream.user = 'somebody else'
  assert.is(decodeJwt((await client.login()).access_token).sub, sub)
})

test('another provider may say who the user is; the order stays, and so do its tokens', async () => {
  const first = decodeJwt((await client.login()).access_token).sub
  await server.gateway.configure(server.config({ primaryUpstreamProvider: 'chat' }))
  // A login fails if the provider changes during it.
  const tokenOfLogin = () =>
    client.login().then(
      ({ access_token: found }) => found,
      () => undefined,
    )
  let token = ''
  await eventually('the new configuration', async () => {
    token = (await tokenOfLogin()) ?? token
    return token !== '' && decodeJwt(token).sub !== first
  })
  assert.is(decodeJwt(token)['name'], 'Person alice-2')
  for (const name of PROVIDERS) assert.ok((await call(name, token)).json.result, name)
  const own = new URL(server.issuer).host
  client.agent.visited.length = 0
  await client.login()
  assert.equal(
    listHosts(client.agent.visited).filter((host) => host !== own),
    server.upstreams.map(readHost),
  )
  await server.gateway.configure(server.config())
  await eventually('the old configuration', async () => {
    const found = await tokenOfLogin()
    return found !== undefined && decodeJwt(found).sub === first
  })
})

for (const [index, name] of PROVIDERS.entries())
  test(`a user who refuses at ${name} is not logged in, and later providers are not visited`, async () => {
    const upstream = server.upstreams[index] as LoginProvider
    upstream.user = undefined
    const refused = await client.authorize()
    assert.is(refused.get('error'), 'access_denied')
    assert.is(refused.get('code'), null)
    const later = server.upstreams.slice(index + 1)
    assert.equal(
      later.map(({ requests }) => requests.length),
      later.map(() => 0),
    )
  })

test('a provider that fails in the middle ends the login', async () => {
  const [, second] = server.upstreams as readonly [LoginProvider, LoginProvider]
  second.before = (request, response) => {
    if (request.url !== '/token') return false
    response.writeHead(500).end('secret details of the provider')
    return true
  }
  assert.is((await client.authorize()).get('error'), 'access_denied')
  assert.match(client.faults.pop() ?? '', 'unexpected_status')
  assert.not.match(JSON.stringify(server.gateway.lines), 'secret details')
})

test('a callback works once, and only for the provider that it was made for', async () => {
  const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
  const first = await client.agent.follow(client.authorizeUrl(), isCallback)
  const redirected = await client.agent.get(first.url)
  assert.is(redirected.status, 302)
  assert.is((await client.agent.get(first.url)).status, 400)
  const second = await client.agent.follow(redirected.headers.get('location') ?? '', isCallback)
  const swapped = new URL(second.url)
  swapped.searchParams.set('code', new URL(first.url).searchParams.get('code') ?? '')
  const { response } = await client.agent.follow(swapped.href, (at) => at.startsWith(REDIRECT))
  assert.match((await response?.text()) ?? '', 'invalid_grant')
  assert.is((await client.agent.get(second.url)).status, 400)
})

test('a mixed-up answer is refused: the code of one provider with the issuer of another', async () => {
  const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
  const { url } = await client.agent.follow(client.authorizeUrl(), isCallback)
  const mixed = new URL(url)
  mixed.searchParams.set('iss', (server.upstreams[1] as LoginProvider).issuer)
  const end = await client.agent.follow(mixed.href, (at) => at.startsWith(REDIRECT))
  assert.match((await end.response?.text()) ?? '', 'wrong_iss')
})

test('the second half of a login belongs to the browser of the first', async () => {
  const isCallback = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
  const first = await client.agent.follow(client.authorizeUrl(), isCallback)
  const redirected = await client.agent.get(first.url)
  const second = await client.agent.follow(redirected.headers.get('location') ?? '', isCallback)
  const stranger = await TestClient.register(server.issuer)
  await stranger.authorize()
  assert.is((await stranger.agent.get(second.url)).status, 400)
  assert.is((await client.agent.get(second.url)).status, 400)
})

test('a filter chooses providers by a claim of the first one, and a backend of a skipped provider says so', async () => {
  const [corp] = server.upstreams as readonly [LoginProvider, LoginProvider]
  const upstreamFilter = {
    claim: 'groups',
    rules: [
      { groups: ['eng', 'ops'], upstreamProviders: ['code'] },
      { groups: ['ops'], upstreamProviders: ['chat'] },
    ],
    defaultUpstreams: ['chat'],
  }
  const { config: before } = await server.gateway.status()
  await server.gateway.configure(server.config({ upstreamFilter } as never))
  await eventually('the filter', async () => (await server.gateway.status()).config !== before)
  const own = new URL(server.issuer).host
  const names = server.upstreams.map(readHost)
  const logInWith = async (groups: unknown) => {
    corp.groups = groups
    client.agent.visited.length = 0
    for (const host of names) client.agent.forget(host)
    const { access_token: token } = await client.login()
    const hosts = listHosts(client.agent.visited).filter((host) => host !== own)
    return { token, visits: hosts.map((host) => PROVIDERS[names.indexOf(host)]) }
  }
  try {
    const { token, visits } = await logInWith(['eng'])
    assert.equal(visits, ['corp', 'code'])
    assert.ok((await call('code', token)).json.result)
    const refused = (await call('chat', token)).json
    assert.match(JSON.stringify(refused), 'your login does not include the provider')
    assert.is(raw.calls('tools/call').length, 1, 'no other credential goes in its place')
    assert.equal((await logInWith(['ops', 'others'])).visits, ['corp', 'code', 'chat'], 'rules that match are joined')
    assert.equal((await logInWith(['sales'])).visits, ['corp'], 'no rule matches')
    assert.equal((await logInWith([])).visits, ['corp'])
    for (const groups of [undefined, 'eng', { eng: true }, 7])
      assert.equal((await logInWith(groups)).visits, ['corp', 'chat'], `no list: ${JSON.stringify(groups)}`)
    // List values of other types match nothing and cause no error.
    assert.equal((await logInWith([null, ['eng'], { toString: 'eng' }, 'eng'])).visits, ['corp', 'code'])
  } finally {
    corp.groups = undefined
    const { config } = await server.gateway.status()
    await server.gateway.configure(server.config())
    await eventually('no filter', async () => (await server.gateway.status()).config !== config)
  }
})

test('fifty logins, ten at a time, lose nothing', async () => {
  // All at once, a slow machine would exceed the provider's timeout.
  let left = 50
  const logins: unknown[] = []
  const runWorker = async () => {
    while (left-- > 0) {
      const one = new TestClient(server.issuer, client.id)
      const { access_token: token } = await one.login()
      for (const name of PROVIDERS) {
        const { json } = await call(name, token)
        assert.ok(json.result, `${name}: ${JSON.stringify(json)}`)
      }
      logins.push(decodeJwt(token)['tsid'])
    }
  }
  await Promise.all(Array.from({ length: 10 }, runWorker))
  assert.is(new Set(logins).size, 50)
  assert.is(new Set(listSent()).size, 50 * PROVIDERS.length)
})

test.run()
