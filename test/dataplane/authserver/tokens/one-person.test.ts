/** Checks that a user has one subject, whether they log in with a browser or a client redeems an assertion about them. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { deriveSubject } from '../../../../dataplane/authserver/provider/subject.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { openLink } from '../../../support/identity/linking.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { parseConsent, UserAgent } from '../../../support/identity/user-agent.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { SessionsPage } from '../sessions/pages.ts'

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

let raw: RawServer
let server: AuthServerUnderTest
let corp: LoginProvider
let partner: LoginProvider
let agent: TestClient
let browser: TestClient

const linkedTo = (linkTo: string | undefined, { issuer }: LoginProvider) => ({
  issuerUrl: issuer,
  jwtBearerGrant: {
    maxAssertionAge: '10m',
    subjectRules: [{ name: 'all', matcher: 'true', allowedResources: [server.resource] }],
    ...(linkTo !== undefined && { linkTo }),
  },
})

/** Applies another configuration; returns its problems. */
async function use(...[authServer, gateway]: Parameters<AuthServerUnderTest['config']>) {
  const before = await server.gateway.status()
  await server.gateway.configure(server.config(authServer, gateway))
  let found = before
  await eventually('the configuration', async () => {
    found = await server.gateway.status()
    return found.config !== before.config || found.refused.length > 0
  })
  return found.refused
}

test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  server = await startAuthServer({
    providers: ['corp', 'partner'],
    gateway: { backends: [{ name: 'b', url: raw.url }] },
    authServer: {
      primaryProviders: ['corp', 'partner'],
      allowConfidentialClientRegistration: true,
      insecureAllowConfidentialOverLoopbackHTTP: true,
    },
  })
  ;[corp, partner] = server.upstreams as [LoginProvider, LoginProvider]
  await use({ trustedIssuers: [linkedTo('corp', corp), linkedTo(undefined, partner)] })
  agent = await TestClient.register(server.issuer, {
    redirect_uris: ['https://app.example/callback'],
    token_endpoint_auth_method: 'client_secret_basic',
  })
  browser = await TestClient.register(server.issuer)
})
test.after(async () => {
  await server.close()
  await raw.close()
})

async function byLogin(provider: LoginProvider, user: string): Promise<string> {
  provider.user = user
  const client = new TestClient(server.issuer, browser.id)
  client.agent.choices.push({ provider: provider === corp ? 'corp' : 'partner' })
  return (await client.login()).access_token
}

const redeem = async (provider: LoginProvider, claims: Record<string, unknown>, typ?: string) =>
  agent.token({
    grant_type: BEARER,
    assertion: await provider.mint({ aud: server.issuer, client_id: agent.id, ...claims }, typ),
    resource: server.resource,
  })
const byAssertion = async (...args: Parameters<typeof redeem>) => (await readTokens(await redeem(...args))).access_token
const readSubject = (token: string) => decodeJwt(token).sub ?? ''

test('a login and assertions of both kinds name one person, whom policies know as one principal', async () => {
  const login = await byLogin(corp, 'alice')
  const tokens = [login, await byAssertion(corp, { sub: 'alice' }), await byAssertion(corp, { sub: 'alice' }, 'JWT')]
  assert.is(new Set(tokens.map(readSubject)).size, 1)
  const policies = [`permit(principal == Client::"${readSubject(login)}", action, resource);`]
  await use({ trustedIssuers: [linkedTo('corp', corp)] }, { authz: { policies } })
  const call = async (token: string) =>
    (await postModern(server.gateway.url, 'tools/call', { name: 'b_t' }, { authorization: `Bearer ${token}` })).json
  for (const token of tokens) assert.ok((await call(token)).result, readSubject(token))
  assert.ok((await call(await byAssertion(corp, { sub: 'bob' }))).error)
  await use({ trustedIssuers: [linkedTo('corp', corp), linkedTo(undefined, partner)] })
})

test('an equal e-mail address, the same name elsewhere, and an issuer without a link are other people', async () => {
  const alice = readSubject(await byLogin(corp, 'alice'))
  const email = 'alice@example.com'
  assert.is.not(readSubject(await byAssertion(corp, { sub: 'alice-2', email, email_verified: true })), alice)
  const elsewhere = readSubject(await byAssertion(partner, { sub: 'alice', email, email_verified: true }))
  assert.is(elsewhere, `${partner.issuer}#alice`)
  assert.is.not(readSubject(await byLogin(partner, 'alice')), alice)
  // A name composed of parts can't equal that of another user.
  assert.is.not(readSubject(await byAssertion(corp, { sub: `${corp.issuer}#alice` })), alice)
  assert.is.not(readSubject(await byAssertion(corp, { sub: alice })), alice)
  assert.is(alice, deriveSubject(server.issuer, 'corp', corp.issuer, 'alice'))
})

test('if `sub` differs by client, another claim identifies the person at logins and in assertions', async () => {
  const providers = (server.config().authServer?.upstreamProviders ?? []).map(({ oidcConfig, ...provider }) => ({
    ...provider,
    ...(oidcConfig && { oidcConfig: { ...oidcConfig, subjectClaim: 'name' } }),
  }))
  assert.equal(await use({ trustedIssuers: [linkedTo('corp', corp)], upstreamProviders: providers }), [])
  const login = readSubject(await byLogin(corp, 'alice'))
  assert.is(readSubject(await byAssertion(corp, { sub: 'pairwise-1', name: 'Person alice' })), login)
  assert.is.not(readSubject(await byAssertion(corp, { sub: 'alice', name: 'Person bob' })), login)
  for (const name of [undefined, '', 'x'.repeat(257), ['Person alice'], { a: 1 }])
    assert.is(await refusal(redeem(corp, { sub: 'alice', name })), '400 invalid_grant')
  await use({ trustedIssuers: [linkedTo('corp', corp), linkedTo(undefined, partner)] })
})

test('a token from an assertion is no login: it can’t be refreshed, and its client is not its person', async () => {
  const answered = await readTokens(await redeem(corp, { sub: 'alice' }))
  assert.is(answered.refresh_token, undefined)
  const assertion = await corp.mint({ aud: server.issuer, sub: 'alice' }, 'JWT')
  const fields = { grant_type: BEARER, assertion, resource: server.resource }
  const { sub, client_id: id, tsid } = decodeJwt((await readTokens(await browser.post('token', fields))).access_token)
  assert.is(sub, readSubject(answered.access_token))
  assert.is(id, `${corp.issuer}#alice`)
  assert.is(tsid, undefined)
})

test('revoking everything ends tokens from assertions, and older assertions get none later', async () => {
  const call = async (token: string) =>
    (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status
  const [hers, theirs] = [await byAssertion(corp, { sub: 'carol' }), await byAssertion(corp, { sub: 'dan' })]
  for (const token of [hers, theirs]) assert.is(await call(token), 200)
  corp.user = 'carol'
  const visitor = new UserAgent()
  const page = SessionsPage.of(server, visitor)
  const { html } = await page.send({ token: (await page.open()).token, action: 'sign-in' })
  const [, proof = ''] = /name="token" value="([^"]+)"/.exec(html) ?? []
  const chosen = await visitor.post(`${server.issuer}/oauth/choose`, { token: proof, provider: 'corp' })
  const { token, text } = await page.open(chosen.headers.get('location') ?? '')
  assert.match(text, 'No program may act for you here.')
  assert.match(text, 'Revoke everything now')
  const before = { sub: 'carol', iat: Math.floor(Date.now() / 1000) }
  assert.match((await page.send({ token, action: 'revoke-all' })).text, 'All access is revoked.')
  assert.is(await call(hers), 401)
  assert.is(await call(theirs), 200)
  for (const typ of [undefined, 'JWT']) assert.is(await refusal(redeem(corp, before, typ)), '400 invalid_grant')
  assert.is(await call(await byAssertion(corp, { sub: 'carol' })), 200)
  assert.is(await call(await byLogin(corp, 'carol')), 200)
})

test('a call by an assertion asks for the person’s key; entered after a login, it serves both ways and nobody else', async () => {
  const KEY = secret('desk-0123456789-abcdefgh')
  const providers = server.config().authServer?.upstreamProviders ?? []
  const desk = {
    name: 'desk',
    type: 'key',
    keyConfig: { title: 'Desk', headerName: 'X-Api-Key', valueTemplate: '{key}' },
  }
  const authServer = { trustedIssuers: [linkedTo('corp', corp)], upstreamProviders: [...providers, desk] }
  assert.equal(await use(authServer as never, { backends: [buildInjectingBackend('hub', raw.url, 'desk')] }), [])
  const call = async (token: string) =>
    JSON.stringify(
      (await postModern(server.gateway.url, 'tools/call', { name: 'hub_t' }, { authorization: `Bearer ${token}` }))
        .json,
    )
  const answer = await call(await byAssertion(corp, { sub: 'alice' }))
  const link = /http[^\s"]+\/oauth\/key\?[^\s"\\]+/.exec(answer)?.[0] ?? ''
  const enter = async (user: string) => {
    corp.user = user
    const { agent: person } = new TestClient(server.issuer)
    const signIn = await openLink(person, link)
    const choice = await person.post(signIn.form?.action ?? '', { ...signIn.form?.fields, action: 'sign-in' })
    const { token = '' } = parseConsent(await choice.text(), server.issuer) ?? {}
    const sent = await person.post(`${server.issuer}/oauth/choose`, { token, provider: 'corp' })
    const { url } = await person.follow(sent.headers.get('location') ?? '', (at) => at.includes('/oauth/key?'))
    const { form } = await openLink(person, url)
    return form && (await person.post(form.action, { ...form.fields, key: KEY })).status
  }
  assert.is.not(await enter('bob'), 303)
  assert.is(await enter('alice'), 303)
  for (const token of [await byAssertion(corp, { sub: 'alice' }), await byLogin(corp, 'alice')]) {
    await eventually('the key', async () => (await call(token)).includes('"ok"'))
    assert.is(raw.calls('tools/call').at(-1)?.headers['x-api-key'], KEY)
  }
  assert.match(await call(await byAssertion(corp, { sub: 'bob' })), '/oauth/key?')
})

test('a link to a provider that does not know these people is refused with the configuration', async () => {
  const { upstreamProviders = [] } = server.config().authServer ?? {}
  const [first, second] = upstreamProviders as [(typeof upstreamProviders)[number], (typeof upstreamProviders)[number]]
  const { jwtBearerGrant, ...issuer } = linkedTo('corp', corp)
  const tenants = { claim: 'tid', allowed: ['t'] }
  for (const [authServer, says] of [
    [{ trustedIssuers: [linkedTo('nobody', corp)] }, 'must name one of upstreamProviders'],
    [{ trustedIssuers: [linkedTo('partner', corp)] }, 'must name a provider of this issuer'],
    [{ trustedIssuers: [{ ...issuer, jwtBearerGrant: { ...jwtBearerGrant, tenants } }] }, 'excludes tenants'],
    [
      { trustedIssuers: [linkedTo('corp', corp)], primaryProviders: ['partner'], upstreamProviders: [first, second] },
      'must name a provider that says who users are',
    ],
  ] as const) {
    const [found] = await use(authServer as never)
    assert.is(found?.pointer, '/authServer/trustedIssuers/0/jwtBearerGrant/linkTo')
    assert.match(found?.message ?? '', says)
    await server.gateway.configure(server.config())
    await eventually('it is good again', async () => (await server.gateway.status()).refused.length === 0)
  }
})

test.run()
