/** Tests backends that get the access token which an upstream provider issued to the caller at login. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connectRedis } from '../../../../dataplane/storage/redis.ts'
import { createRedisTokenStore } from '../../../../dataplane/upstream-tokens/index.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { CLIENT } from '../../../support/gateway/exchanging-gateway.ts'
import { buildInjectingBackend, startLoginGateway } from '../../../support/gateway/login-gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { startRedis } from '../../../support/network/redis-server.ts'
import { startTokenEndpoint } from '../../../support/network/token-endpoint.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

const OK = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'
const buildLogin = (subject: string, login: string, provider = 'github') => ({ subject, login, provider })
const listSent = (raw: RawServer, method = 'tools/call') =>
  raw.calls(method).map(({ headers }) => headers.authorization)
const AGAIN = (backend: string, provider = 'github') =>
  `The credential for the backend "${backend}" is unavailable: you have to log in at the provider "${provider}" again.`

for (const era of ['modern', 'legacy', 'both'] as const) {
  test(`a ${era} backend gets the provider’s token instead of the caller’s`, async () => {
    const raw = await startRawServer({ era, call: (request) => answer(request, OK) })
    const gateway = await startLoginGateway({ backends: [buildInjectingBackend('gh', raw.url)] })
    await gateway.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
    const headers = await gateway.bearer('alice', 'login-1')
    for (const mode of ['modern', 'legacy'] as const) {
      const { client } = await connect(gateway.url, mode, { headers })
      assert.equal(
        (await client.listTools()).tools.map(({ name }) => name),
        ['gh_t'],
      )
      assert.is(readText(await client.callTool({ name: 'gh_t', arguments: {} })), 'ok')
      await client.close()
    }
    assert.equal([...new Set(listSent(raw))], ['Bearer github-token-of-alice'])
    assert.equal([...new Set(listSent(raw, 'tools/list'))], ['Bearer github-token-of-alice'])
    const own = headers.authorization.slice('Bearer '.length)
    for (const request of raw.seen) assert.not.ok(JSON.stringify([request.headers, request.body]).includes(own))
    // Probes are the gateway's own requests and carry no user's token.
    assert.ok(raw.seen.some((request) => request.headers.authorization === undefined))
    assert.not.match(JSON.stringify([gateway.lines, await gateway.status()]), /github-token/)
    await gateway.close()
    await raw.close()
  })
}

test('the error for a caller without a token names the provider; other backends work, and nothing is sent without the token', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startLoginGateway({
    backends: [
      buildInjectingBackend('gh', raw.url),
      buildInjectingBackend('gl', raw.url, 'gitlab'),
      { name: 'open', url: raw.url },
    ],
  })
  await gateway.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
  await gateway.logIn(buildLogin('carol', 'ended'), 'github-token-of-carol', { expiresAt: Date.now() - 1 })
  await gateway.logIn(buildLogin('dave', 'not a header'), 'with\r\nbad: characters')
  await gateway.logIn(buildLogin('erin', 'empty'), '')
  await gateway.logIn(buildLogin('frank', 'x'.repeat(129)), 'too long a name of a login')
  const call = async (name: string, headers: Record<string, string>) =>
    (await postModern(gateway.url, 'tools/call', { name }, headers)).json
  const alice = await gateway.bearer('alice', 'login-1')
  assert.ok((await call('gh_t', alice)).result)
  assert.match((await call('gl_t', alice)).error.message, AGAIN('gl', 'gitlab'))
  for (const [who, headers] of Object.entries({
    'of another user': await gateway.bearer('bob', 'login-1'),
    'without a login': await gateway.bearer('alice'),
    'of another login': await gateway.bearer('alice', 'login-2'),
    'that has ended': await gateway.bearer('carol', 'ended'),
    'that is no header': await gateway.bearer('dave', 'not a header'),
    'that is empty': await gateway.bearer('erin', 'empty'),
    'too long': await gateway.bearer('frank', 'x'.repeat(129)),
    'an odd one': await gateway.bearer('alice', undefined, { tsid: ['login-1'] }),
  })) {
    const before = raw.calls('tools/call').length
    assert.match((await call('gh_t', headers)).error.message, AGAIN('gh'), who)
    assert.is(raw.calls('tools/call').length, before, who)
    assert.ok((await call('open_t', headers)).result, who)
  }
  assert.equal([...new Set(raw.seen.map(({ headers }) => headers.authorization))].sort(), [
    'Bearer github-token-of-alice',
    undefined,
  ])
  await gateway.close()
  await raw.close()
})

test('tokens, sessions and lists of one user’s concurrent logins are kept apart', async () => {
  const raw = await startRawServer({ era: 'both', call: (request) => answer(request, OK) })
  const gateway = await startLoginGateway({ backends: [buildInjectingBackend('gh', raw.url)] })
  const logins = ['one', 'two', 'three']
  const bearers = new Map<string, { readonly authorization: string }>()
  for (const login of logins) {
    await gateway.logIn(buildLogin('alice', login), `github-token-of-login-${login}`)
    bearers.set(login, await gateway.bearer('alice', login))
  }
  const calls = Array.from({ length: 60 }, async (_, index) => {
    const login = logins[index % logins.length] as string
    const headers = { ...bearers.get(login), 'x-passed': login }
    const { json } = await postModern(gateway.url, 'tools/call', { name: 'gh_t', arguments: { login } }, headers)
    assert.ok(json.result)
  })
  await Promise.all(calls)
  for (const { headers, message } of raw.calls('tools/call')) {
    const args = message.params?.['arguments'] as { readonly login: string } | undefined
    assert.is(headers.authorization, `Bearer github-token-of-login-${args?.login}`)
  }
  const session = await openSession(gateway.url, bearers.get('one'))
  assert.is((await post(gateway.url, rpc('tools/call', { name: 'gh_t' }), session)).status, 200)
  const taken = { ...session, ...bearers.get('two') }
  assert.is((await post(gateway.url, rpc('tools/call', { name: 'gh_t' }), taken)).status, 404, 'it is another login’s')
  const renewed = { ...session, ...(await gateway.bearer('alice', 'one', { jti: 'a token that was refreshed' })) }
  assert.is((await post(gateway.url, rpc('tools/call', { name: 'gh_t' }), renewed)).status, 200)
  await gateway.close()
  await raw.close()
})

test('a token of another issuer names no login', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const [idp, other] = [await startIdentityProvider(), await startIdentityProvider()]
  const { issuer } = other
  const incomingAuth = { type: 'oidc', oidc: { issuer, audience: 'https://gateway.example/mcp' } } as const
  const gateway = await startLoginGateway({ incomingAuth, backends: [buildInjectingBackend('gh', raw.url)] }, { idp })
  await gateway.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
  const token = await other.mint({ sub: 'alice', aud: 'https://gateway.example/mcp', tsid: 'login-1' })
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'gh_t' }, { authorization: `Bearer ${token}` })
  assert.match(json.error.message, AGAIN('gh'))
  await gateway.close()
  await Promise.all([raw.close(), idp.close(), other.close()])
})

test('after a 401 of the backend the token is refreshed once, and the next call uses the new one', async () => {
  for (const era of ['modern', 'legacy'] as const) {
    let refused = new Set<string | undefined>()
    const raw = await startRawServer({
      era,
      call: (request) => answer(request, OK_RESULT),
      before: ({ headers }, res) => {
        if (headers.authorization === undefined || !refused.has(headers.authorization)) return false
        res.writeHead(401).end()
        return true
      },
    })
    let refreshes = 0
    const gateway = await startLoginGateway(
      { backends: [buildInjectingBackend('gh', raw.url)] },
      {
        async refresh(place, before) {
          refreshes++
          const set = { ...before, accessToken: `${before.accessToken}-refreshed` }
          const version = await gateway.store.put(place, set, { replaces: before.version, ttlMs: 60_000 })
          return version === undefined ? undefined : { ...set, version }
        },
      },
    )
    await gateway.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
    const headers = await gateway.bearer('alice', 'login-1')
    const call = () => postModern(gateway.url, 'tools/call', { name: 'gh_t' }, headers)
    assert.ok((await call()).json.result)
    refused = new Set(['Bearer github-token-of-alice'])
    assert.ok((await call()).json.result, era)
    assert.ok((await call()).json.result, era)
    assert.is(refreshes, 1)
    assert.equal(listSent(raw).slice(-2), Array(2).fill('Bearer github-token-of-alice-refreshed'))
    const before = raw.calls('tools/call').length
    refused = new Set(['-refreshed', '-refreshed-refreshed'].map((end) => `Bearer github-token-of-alice${end}`))
    assert.match((await call()).json.error.message, 'The backend "gh" refuses your credential.')
    assert.is(refreshes, 2)
    assert.is(raw.calls('tools/call').length, before + 2)
    await gateway.close()
    await raw.close()
  }
})

test('a token that can’t be refreshed is not sent again, and the caller is asked to log in', async () => {
  let isRefused = false
  const raw = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before: ({ headers }, res) => {
      if (!isRefused || headers.authorization === undefined) return false
      res.writeHead(401).end()
      return true
    },
  })
  const gateway = await startLoginGateway({ backends: [buildInjectingBackend('gh', raw.url)] })
  await gateway.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
  const headers = await gateway.bearer('alice', 'login-1')
  const call = async () => (await postModern(gateway.url, 'tools/call', { name: 'gh_t' }, headers)).json
  assert.ok((await call()).result)
  isRefused = true
  const before = raw.calls('tools/call').length
  assert.match((await call()).error.message, AGAIN('gh'))
  assert.is(raw.calls('tools/call').length, before + 1)
  isRefused = false
  await gateway.logIn(buildLogin('alice', 'login-1'), 'another-token-of-alice')
  await eventually('the new one', async () => (await call()).result !== undefined)
  assert.is(listSent(raw).at(-1), 'Bearer another-token-of-alice')
  await gateway.close()
  await raw.close()
})

test('a token in its last minute is refreshed if possible, and used otherwise', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  let answers: 'fails' | 'refreshes' = 'fails'
  const gateway = await startLoginGateway(
    { backends: [buildInjectingBackend('gh', raw.url)] },
    {
      async refresh(_place, before) {
        if (answers === 'fails') throw new Error('the provider is away')
        return { ...before, accessToken: 'refreshed-token-of-alice', expiresAt: Date.now() + 600_000 }
      },
    },
  )
  await gateway.logIn(buildLogin('alice', 'login-1'), 'ending-token-of-alice', { expiresAt: Date.now() + 30_000 })
  const headers = await gateway.bearer('alice', 'login-1')
  const call = async () => (await postModern(gateway.url, 'tools/call', { name: 'gh_t' }, headers)).json
  assert.ok((await call()).result)
  assert.is(listSent(raw).at(-1), 'Bearer ending-token-of-alice')
  answers = 'refreshes'
  assert.ok((await call()).result)
  assert.is(listSent(raw).at(-1), 'Bearer refreshed-token-of-alice')
  await gateway.close()
  await raw.close()
})

test('an ended login no longer works', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startLoginGateway({ backends: [buildInjectingBackend('gh', raw.url)] })
  await gateway.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
  const headers = await gateway.bearer('alice', 'login-1')
  const call = async () => (await postModern(gateway.url, 'tools/call', { name: 'gh_t' }, headers)).json
  assert.ok((await call()).result)
  await gateway.store.removeLogin('login-1')
  await eventually('the stream to end', async () => (await call()).error !== undefined)
  assert.match((await call()).error.message, AGAIN('gh'))
  await gateway.close()
  await raw.close()
})

test('a session restored at another replica uses its login’s token; if the store is down, the error says so', async () => {
  const redis = await startRedis()
  const raw = await startRawServer({ era: 'legacy', call: (request) => answer(request, OK_RESULT) })
  const idp = await startIdentityProvider()
  const storage = {
    redis: { addresses: [redis.address], dialTimeout: '5s', readTimeout: '5s', writeTimeout: '5s' },
  }
  const clients = [0, 1].map(() => connectRedis({ mode: 'standalone', addresses: [redis.address] }, recordLog().log))
  const [one, two] = await Promise.all(
    clients.map((client) => {
      const secrets = () => ['a secret that seals the tokens of logins']
      const store = createRedisTokenStore({ client, prefix: 'portico:{gateway/default/test}:', secrets })
      return startLoginGateway(
        { backends: [buildInjectingBackend('gh', raw.url)], sessionStorage: storage },
        { store, idp },
      )
    }),
  )
  if (one === undefined || two === undefined) throw new Error('no gateways')
  await one.logIn(buildLogin('alice', 'login-1'), 'github-token-of-alice')
  const session = await openSession(one.url, await one.bearer('alice', 'login-1'))
  const call = rpc('tools/call', { name: 'gh_t' })
  assert.ok((await post(one.url, call, session)).json.result)
  assert.ok((await post(two.url, call, session)).json.result)
  assert.equal(listSent(raw), Array(2).fill('Bearer github-token-of-alice'))
  for (const stranger of [await two.bearer('bob', 'login-1'), await two.bearer('alice', 'login-2')])
    assert.is((await post(two.url, call, { ...session, ...stranger })).status, 404)
  await redis.stop()
  const { json } = await postModern(two.url, 'tools/call', { name: 'gh_t' }, await two.bearer('alice', 'login-3'))
  assert.match(json.error.message, 'is unavailable: the store of tokens can’t be reached at the moment; try again.')
  await Promise.all([one.close(), two.close()])
  for (const client of clients) client.disconnect()
  await Promise.all([raw.close(), idp.close()])
})

test('with subjectProviderName the provider’s token is exchanged, for each login separately', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const endpoint = await startTokenEndpoint()
  endpoint.answer = ({ form }, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const body = { access_token: `exchanged-${form['subject_token']}`, token_type: 'Bearer', expires_in: 600 }
    const issued = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' }
    response.end(JSON.stringify({ ...body, ...issued }))
  }
  const tokenExchange = { tokenUrl: endpoint.url, clientId: CLIENT.id, subjectProviderName: 'github' }
  const gateway = await startLoginGateway({
    backends: [{ name: 'api', url: raw.url, credential: { type: 'tokenExchange', tokenExchange } }],
  })
  for (const login of ['one', 'two']) {
    await gateway.logIn(buildLogin('alice', login), `github-token-of-login-${login}`)
    const headers = await gateway.bearer('alice', login)
    assert.ok((await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)).json.result)
    assert.is(listSent(raw).at(-1), `Bearer exchanged-github-token-of-login-${login}`)
    for (const { form } of endpoint.requests)
      assert.not.ok(Object.values(form).some((text) => headers.authorization.endsWith(text)))
  }
  const headers = await gateway.bearer('alice', 'three')
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
  assert.match(json.error.message, AGAIN('api'))
  assert.is(endpoint.requests.length, 2)
  await gateway.close()
  await Promise.all([raw.close(), endpoint.close()])
})

test('an exchanged token is used no longer than its subject token is stored', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const endpoint = await startTokenEndpoint()
  endpoint.answer = ({ form }, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const body = { access_token: `exchanged-${form['subject_token']}`, token_type: 'Bearer', expires_in: 36_000 }
    const issued = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' }
    response.end(JSON.stringify({ ...body, ...issued }))
  }
  const tokenExchange = { tokenUrl: endpoint.url, clientId: CLIENT.id, subjectProviderName: 'github' }
  const gateway = await startLoginGateway({
    backends: [{ name: 'api', url: raw.url, credential: { type: 'tokenExchange', tokenExchange } }],
  })
  const place = { login: 'one', provider: 'github' }
  const call = async () => {
    const headers = await gateway.bearer('alice', 'one')
    return (await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)).json
  }
  await gateway.logIn(buildLogin('alice', 'one'), 'the-first-token')
  const soon = { expiresAt: Date.now() + 3_000 }
  {
    using clock = stoppedClock()
    for (let count = 0; count < 3; count++) {
      assert.ok((await call()).result)
      clock.pass(6_000)
    }
    assert.is(listSent(raw).at(-1), 'Bearer exchanged-the-first-token')
    assert.is(endpoint.requests.length, 1, 'as long as it is stored, once')
    // The user has logged in again as a member of other groups, or the provider has issued another token.
    await gateway.logIn(buildLogin('alice', 'one'), 'the-second-token')
    clock.pass(6_000)
    assert.ok((await call()).result)
    assert.is(listSent(raw).at(-1), 'Bearer exchanged-the-second-token')
    assert.is(endpoint.requests.length, 2)
    // Only the token has expired: the credential exchanged for it stays valid.
    await gateway.logIn(buildLogin('alice', 'one'), 'the-second-token', soon)
    clock.pass(6_000)
    assert.ok((await call()).result)
    assert.is(endpoint.requests.length, 2)
    await gateway.store.remove(place)
    clock.pass(6_000)
    const { error } = await call()
    assert.match(error.message, AGAIN('api'))
    const before = listSent(raw).length
    assert.match((await call()).error.message, AGAIN('api'))
    assert.equal([listSent(raw).length, endpoint.requests.length], [before, 2])
  }
  await gateway.close()
  await Promise.all([raw.close(), endpoint.close()])
})

test.run()
