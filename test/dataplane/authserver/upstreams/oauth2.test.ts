/** Logs users in at providers that support only OAuth 2, each with its own quirks. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { OAuth2UpstreamConfig } from '../../../../dataplane/config/auth-server.ts'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import {
  type Flavour,
  github,
  type OAuth2Provider,
  oauth2Upstream,
  slack,
  startOAuth2Provider,
  writeSecret,
} from '../../../support/identity/oauth2-provider.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

let provider: OAuth2Provider
let raw: RawServer

test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
})
test.before.each(async () => {
  raw.seen.length = 0
  provider = await startOAuth2Provider()
})
test.after.each(() => provider.close())
test.after(() => raw.close())

const GITHUB_USER = {
  fieldMapping: { subjectFields: ['id', 'login'], nameFields: ['name', 'login'], emailFields: ['email'] },
}
/** JSON nested deeper than the stack. */
const DEEP = '['.repeat(400_000) + ']'.repeat(400_000)
const HEADERS = { Accept: 'application/x+json', 'X-Version': '2' }
const AT_SLACK = {
  tokenResponseMapping: {
    accessTokenPath: 'authed_user.access_token',
    scopePath: 'authed_user.scope',
    refreshTokenPath: 'authed_user.refresh_token',
    expiresInPath: 'authed_user.expires_in',
  },
  identityFromToken: { subjectPath: 'authed_user.id' },
}
const userAt = (more: object = {}) => ({ userInfo: { endpointUrl: `${provider.url}/user`, ...more } })

/** Runs an action with a gateway whose users log in at a provider of this flavour. */
async function withGateway(
  flavour: Flavour,
  config: Partial<OAuth2UpstreamConfig>,
  use: (server: AuthServerUnderTest, client: TestClient) => Promise<void>,
): Promise<void> {
  provider.flavour = flavour
  const server = await startAuthServer({
    authServer: { upstreamProviders: [oauth2Upstream('code', provider, config)] },
    gateway: { backends: [buildInjectingBackend('own', raw.url, 'code')] },
    prepare: (directory) => writeSecret(directory, provider),
  })
  try {
    await use(server, await TestClient.register(server.issuer))
    assert.not.match(JSON.stringify(server.gateway.lines), 'secret details')
  } finally {
    await server.close()
  }
}

const call = async (server: AuthServerUnderTest, token: string) =>
  (await postModern(server.gateway.url, 'tools/call', { name: 'own_t' }, { authorization: `Bearer ${token}` })).json
const listSent = () => raw.calls('tools/call').map(({ headers }) => headers.authorization)

test('GitHub: numeric ids, a secret in the form, errors at 200', () =>
  withGateway(github, { scopes: ['repo', 'user:email'], ...userAt(GITHUB_USER) }, async (server, client) => {
    const { access_token: token } = await client.login()
    const claims = decodeJwt(token)
    assert.is(claims['name'], 'user-1001')
    assert.is(claims['email'], undefined, 'GitHub does not say that it has checked that')
    const [query] = provider.authorizations
    assert.is(query?.get('scope'), 'repo user:email')
    assert.is(query?.get('nonce'), null)
    assert.is(query?.get('code_challenge_method'), 'S256')
    assert.equal(
      provider.userRequests.map(({ method, headers }) => [method, headers.accept]),
      [['GET', 'application/json']],
    )
    assert.is(provider.userRequests[0]?.headers['user-agent'], 'portico')
    assert.ok((await call(server, token)).result)
    assert.equal(listSent(), [`Bearer ${provider.issued.at(-1)}`])
    assert.is(decodeJwt((await client.login()).access_token).sub, claims.sub)
    provider.user = '1002'
    assert.is.not(decodeJwt((await client.login()).access_token).sub, claims.sub)
    // The client authentication that worked is remembered.
    assert.equal(
      provider.requests.map(({ way }) => way),
      ['basic', 'post', 'post', 'post'],
    )
    provider.user = undefined
    assert.is((await client.authorize()).get('error'), 'access_denied')
  }))

test('Slack: the token and the user are inside the answer', () =>
  withGateway(slack, AT_SLACK, async (server, client) => {
    provider.user = 'U123'
    const { access_token: token } = await client.login()
    assert.ok((await call(server, token)).result)
    assert.equal(listSent(), [`Bearer ${provider.issued.at(-1)}`])
    assert.equal(
      provider.requests.map(({ way }) => way),
      ['basic'],
    )
    assert.is(decodeJwt((await client.login()).access_token).sub, decodeJwt(token).sub)
  }))

test('nested tokens are refreshed, and an ended grant is reported once', async () => {
  using clock = stoppedClock()
  const short: Flavour = {
    ...slack,
    tokens: ({ user, accessToken, refreshToken }, { form }) => {
      const expires = form['grant_type'] === 'refresh_token' ? 43_200 : 60
      const own = { id: user, access_token: accessToken, refresh_token: refreshToken, expires_in: expires }
      return { body: { ok: true, access_token: 'token-of-the-app', authed_user: own } }
    },
  }
  await withGateway(short, AT_SLACK, async (server, client) => {
    const { access_token: token } = await client.login()
    clock.pass(60_000)
    assert.ok((await call(server, token)).result)
    assert.is(provider.requests.length, 2)
    assert.equal(listSent(), [`Bearer ${provider.issued[1]}`])
    const another = (await client.login()).access_token
    provider.flavour = {
      ...short,
      ways: ['none'],
      error: () => ({ body: { ok: false, error: 'token_revoked', detail: 'secret details' } }),
    }
    clock.pass(60_000)
    const before = provider.requests.length
    for (let calls = 0; calls < 3; calls++)
      assert.match((await call(server, another)).error.message, 'you have to log in at the provider "code" again')
    assert.is(provider.requests.length, before + 1)
  })
})

test('if a provider gives a refresh token once, later logins of the same user use it', async () => {
  using clock = stoppedClock()
  let logins = 0
  const once: Flavour = {
    tokens: ({ accessToken, refreshToken }, { form }) => {
      const isFirst = form['grant_type'] === 'authorization_code' && logins++ === 0
      const body = { access_token: accessToken, token_type: 'Bearer', expires_in: 60 }
      return { body: isFirst ? { ...body, refresh_token: refreshToken } : body }
    },
  }
  await withGateway(once, userAt(), async (server, client) => {
    await client.login()
    const { access_token: token } = await client.login()
    provider.user = '1002'
    const { access_token: others } = await client.login()
    clock.pass(60_000)
    assert.match((await call(server, others)).error.message, 'you have to log in at the provider "code" again')
    assert.ok((await call(server, token)).result)
    assert.is(provider.requests.at(-1)?.form['grant_type'], 'refresh_token')
  })
})

test('public clients send their id; form-encoded answers are read', () =>
  withGateway(
    {
      ways: ['none'],
      tokens: ({ accessToken }) => ({
        status: 201,
        type: 'text/plain',
        body: `access_token=${accessToken}&token_type=bearer&expires=5184000`,
      }),
    },
    {},
    async (server) => {
      const own = oauth2Upstream('code', provider, userAt({ httpMethod: 'pOsT', additionalHeaders: HEADERS }))
      const { clientSecretFile: _, ...open } = own.oauth2Config as OAuth2UpstreamConfig
      await server.gateway.configure(server.config({ upstreamProviders: [{ ...own, oauth2Config: open }] }))
      const client = await TestClient.register(server.issuer)
      await eventually('the new configuration', async () => (await client.authorize()).has('code'))
      const [request] = provider.userRequests
      assert.is(request?.method, 'POST')
      assert.is(request?.headers.accept, 'application/x+json')
      assert.is(request?.headers['x-version'], '2')
      assert.equal([...new Set(provider.requests.slice(-1).map(({ way }) => way))], ['none'])
    },
  ))

test('with several providers each has its own callback, which accepts no code of another one', async () => {
  const hostile = await startOAuth2Provider()
  const server = await startAuthServer({
    authServer: {
      upstreamProviders: [
        oauth2Upstream('honest', provider, { userInfo: { endpointUrl: `${provider.url}/user` } }),
        oauth2Upstream('hostile', hostile, { clientSecretFile: 'hostile-secret' }),
      ],
    },
    async prepare(directory) {
      await writeSecret(directory, provider)
      await writeFile(join(directory, 'hostile-secret'), hostile.client.secret)
    },
  })
  try {
    const client = await TestClient.register(server.issuer)
    assert.ok((await client.login()).access_token)
    const callbacks = [provider, hostile].map(({ authorizations: [one] }) => one?.get('redirect_uri') ?? '')
    assert.equal(callbacks, [`${server.issuer}/oauth/callback/honest`, `${server.issuer}/oauth/callback/hostile`])
    const codes = hostile.requests.length
    for (const path of ['/honest', '', '/unknown', '/hostile/', '/HOSTILE']) {
      // The hostile provider redirects the browser to the honest one, with the state of its own login.
      const { url } = await client.agent.follow(client.authorizeUrl(), (at) =>
        at.startsWith(`${hostile.url}/authorize`),
      )
      const state = new URL(url).searchParams.get('state') ?? ''
      const back = await client.agent.get(`${server.issuer}/oauth/callback${path}?state=${state}&code=the-honest-one`)
      assert.ok(back.status === 400 || back.status === 404, `${path}: ${back.status}`)
      assert.is(back.headers.get('location'), null)
    }
    assert.is(hostile.requests.length, codes)
    assert.ok((await client.login()).access_token)
  } finally {
    await server.close()
    await hostile.close()
  }
})

test('if nothing identifies the user, each login is a new user and asks for consent', () =>
  withGateway({}, {}, async (server, client) => {
    const first = await client.login()
    const second = await client.login()
    assert.is.not(decodeJwt(first.access_token).sub, decodeJwt(second.access_token).sub)
    assert.is(client.agent.questions.length, 2)
    assert.is(decodeJwt(first.access_token)['isSynthetic'], undefined)
    for (const { access_token: token } of [first, second]) assert.ok((await call(server, token)).result)
    assert.ok(server.gateway.lines.some(({ msg }) => String(msg).includes('each login counts as a new user')))
  }))

test('an ID token beside the tokens is neither trusted nor stored; only configured fields of it are read', () => {
  const payload = Buffer.from(JSON.stringify({ sub: 'U7', 'https://example.com/name': 'Seven' })).toString('base64url')
  const flavour: Flavour = {
    tokens: ({ accessToken }) => ({
      body: { access_token: accessToken, token_type: 'Bearer', id_token: `e30.${payload}.c2ln` },
    }),
  }
  const identityFromToken = { subjectPath: 'id_token.sub' }
  return withGateway(flavour, { identityFromToken }, async (_server, client) => {
    const { access_token: token } = await client.login()
    assert.is(decodeJwt((await client.login()).access_token).sub, decodeJwt(token).sub)
  })
})

test('unusable answers end the login with fixed words', () => {
  const token = 'words-of-the-provider'
  const buildReply = (changes: object) => ({ body: { access_token: token, token_type: 'Bearer', ...changes } })
  const answers: Flavour[] = [
    { tokens: () => ({ status: 500, body: token }) },
    { tokens: () => ({ status: 302, body: token }) },
    { tokens: () => ({ body: `"${token}` }) },
    { tokens: () => ({ body: [token] }) },
    { tokens: () => ({ body: null }) },
    { tokens: () => ({ body: {} }) },
    { tokens: () => ({ body: { x: 'y'.repeat(1_200_000) } }) },
    { tokens: () => ({ body: { error: { message: token } } }) },
    { tokens: () => buildReply({ token_type: 'mac' }) },
    { tokens: () => buildReply({ token_type: 7 }) },
    { tokens: () => buildReply({ access_token: { [token]: 1 } }) },
    { tokens: () => buildReply({ access_token: '' }) },
    { tokens: () => buildReply({ access_token: `${token}\r\nx: y` }) },
    { tokens: () => buildReply({ access_token: 'é' }) },
    { tokens: () => buildReply({ access_token: 'a'.repeat(40_000) }) },
    { tokens: () => ({ body: `{"access_token":${DEEP}}` }) },
    { tokens: () => ({ body: `{"access_token":"x","scope":${DEEP},"token_type":{}}` }) },
    { user: () => ({ body: `{"sub":${DEEP}}` }) },
    { user: () => ({ status: 403, body: { sub: token } }) },
    { user: () => ({ body: `${token}` }) },
    { user: () => ({ body: [{ sub: token }] }) },
    ...['', null, true, {}, [token], 2 ** 53, 1.5, 'x'.repeat(257), 'x'.repeat(10_000_000)].map(
      (sub): Flavour => ({ user: () => ({ body: { sub } }) }),
    ),
    { user: () => ({ body: '{"__proto__":{"sub":"x"}}' }) },
    { callback: { iss: 'https://other.example' } },
  ]
  return withGateway({}, userAt(), async (server, client) => {
    const { upstreamProviders = [] } = server.config().authServer ?? {}
    const other = {
      name: 'other',
      type: 'oidc' as const,
      oidcConfig: { issuerUrl: 'https://other.example', clientId: 'x' },
    }
    await server.gateway.configure(server.config({ upstreamProviders: [...upstreamProviders, other] }))
    await eventually('the new configuration', async () => {
      const answered = await client.authorize().catch((error: Error) => error)
      return answered instanceof URLSearchParams && answered.has('error')
    })
    for (const flavour of answers) {
      provider.flavour = flavour
      const found = await client.authorize()
      const what = JSON.stringify(flavour.tokens?.toString() ?? flavour.user?.toString())
      assert.is(found.get('error'), 'access_denied', what)
      assert.not.ok(found.toString().includes(token))
      // A page has already shown it.
      assert.not.ok(client.faults.pop()?.includes(token) ?? true, what)
    }
    assert.not.ok(JSON.stringify(server.gateway.lines).includes(token))
  })
})

test('lifetimes and optional members of any type are tolerated', () =>
  withGateway({}, userAt(), async (server, client) => {
    for (const changes of [
      { expires_in: -1 },
      { expires_in: 0 },
      { expires_in: '1e308' },
      { expires_in: 'soon' },
      { expires_in: {} },
      { refresh_token: 7 },
      { scope: ['a', 'b', 3] },
      { scope: { a: 1 } },
      { id_token: 7 },
    ]) {
      provider.flavour = {
        tokens: ({ accessToken }) => ({ body: { access_token: accessToken, token_type: 'Bearer', ...changes } }),
      }
      const { access_token: token } = await client.login()
      assert.ok((await call(server, token)).result, JSON.stringify(changes))
    }
    provider.flavour = {
      tokens: ({ accessToken }) => ({ body: `{"access_token":"${accessToken}","expires_in":1e308}` }),
    }
    assert.ok((await call(server, (await client.login()).access_token)).result)
  }))

test.run()
