/**
 * Checks what the audit log records about the authorization server (who got which token, who was refused), and what it
 * never contains.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../secrets/watch.ts'
import { type Audited, AuditFile } from '../../support/audit/audit-file.ts'
import { eventually } from '../../support/eventually.ts'
import { buildInjectingBackend } from '../../support/gateway/login-gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
  type Tokens,
} from '../../support/identity/auth-server.ts'
import { dropAnswers } from '../../support/identity/kept-answers.ts'
import { follow, linkIn } from '../../support/identity/linking.ts'
import { UserAgent } from '../../support/identity/user-agent.ts'
import { type IdentityProvider, startIdentityProvider } from '../../support/network/identity-provider.ts'
import { type RedisServer, startRedis } from '../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../support/servers/raw-server.ts'
import { findButton, SessionsPage } from '../authserver/sessions/pages.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const OTHER = 'https://other.example/mcp'

const agentSecret = secret(randomBytes(24).toString('base64url'))
const hmacSecret = secret(randomBytes(32).toString('base64url'))
/** Texts that no line may contain, besides the watched secrets. */
const unwritten = new Set<string>([agentSecret, hmacSecret])
let file: AuditFile
let server: AuthServerUnderTest
let idp: IdentityProvider
let backend: RawServer
let redis: RedisServer
let client: TestClient
let keysOfRobot: string
let agent: TestClient

test.before(async () => {
  file = await AuditFile.create()
  idp = await startIdentityProvider()
  redis = await startRedis()
  backend = await startRawServer({
    era: 'both',
    call: (request) => answer(request, OK_RESULT.replace('{', '{"resultType":"complete",')),
  })
  server = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    authServer: {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      allowedAudiences: [OTHER],
      hmacSecretFiles: ['hmac'],
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
      inboundGrants: {
        clientCredentials: {
          clients: [{ clientId: 'robot', jwksFile: 'robot', allowedResources: [OTHER], scopes: ['tools:call'] }],
        },
      },
      delegateClients: [{ clientId: 'agent', clientSecretFile: 'agent', audiences: [OTHER], scopes: ['tools:call'] }],
      trustedIssuers: [
        {
          issuerUrl: idp.issuer,
          jwtBearerGrant: { maxAssertionAge: '2m', subjectBindings: [{ subject: 'ci', allowedResources: [OTHER] }] },
        },
      ],
    },
    gateway: {
      backends: [buildInjectingBackend('hub', backend.url)],
      audit: {
        enabled: true,
        logFile: file.path,
        trustedProxies: ['127.0.0.0/8'],
        includeRequestData: true,
        includeResponseData: true,
      },
    },
    async prepare(folder) {
      await writeFile(join(folder, 'agent'), agentSecret)
      await writeFile(join(folder, 'hmac'), hmacSecret)
      keysOfRobot = join(folder, 'robot')
    },
  })
  client = await TestClient.register(server.issuer, { client_name: 'Desk' })
  agent = new TestClient(server.issuer, 'agent')
  agent.secret = agentSecret
})
test.after(async () => {
  await server?.close()
  await idp?.close()
  await backend?.close()
  await redis?.stop()
  for (const { client: own } of server.upstreams) unwritten.add(own.secret)
  for (const page of client.agent.questions) unwritten.add(/name="token" value="([\w.-]+)"/.exec(page)?.[1] as string)
  unwritten.add(client.agent.cookie(new URL(server.issuer).host, 'portico-login') as string)
  const { text } = file
  await file.remove()
  for (const one of unwritten) assert.is(text.includes(one), false, 'a secret is in the audit log')
  for (const request of server.upstreams.flatMap(({ authorizations }) => authorizations))
    for (const name of ['state', 'nonce', 'code_challenge']) {
      assert.ok(request.get(name))
      assert.is(text.includes(request.get(name) as string), false, `a ${name} is in the audit log`)
    }
  assert.not.match(text, /the-state|a-query/)
})
test.before.each(() => {
  client.agent.answer = 'allow'
  server.upstream.user = 'alice'
  for (const one of server.upstreams) one.user = 'alice'
})

const summary = ({ type, outcome, error }: Audited) =>
  [type, outcome, ...(error === undefined ? [] : [error])].join(' ')

/** Asserts that exactly these lines were written since the last call. */
async function readEvents(...lines: readonly string[]): Promise<readonly Audited[]> {
  const events = await file.next(lines.length)
  assert.equal(events.map(summary), lines)
  return events
}

const LOGIN = ['oauth_consent success', 'oauth_provider_login success', 'oauth_login success'] as const

/** Logs in with a new browser that is asked for consent. The audit log must contain none of the resulting tokens. */
async function login(): Promise<Tokens> {
  client.agent.forget(new URL(server.issuer).host)
  const answered = await client.authorize({ resource: server.resource })
  const code = answered.get('code')
  assert.ok(code, String(answered))
  const tokens = await readTokens(await client.exchange(code))
  for (const one of [code, tokens.access_token, tokens.refresh_token, client.verifier]) unwritten.add(one)
  return tokens
}

const readTarget = (event: Audited | undefined) => event?.target

test('a registration, and one that is refused', async () => {
  const [event] = await readEvents('oauth_registration success')
  assert.equal(event?.client, { id: client.id, name: 'Desk' })
  assert.equal(readTarget(event), { redirect_uris: REDIRECT })
  const withQuery = ['https://app.example/cb?a-query=1', 'com.example.app:/cb?a-query=2']
  await TestClient.register(server.issuer, { redirect_uris: withQuery, client_name: 'App Bearer a-query-token' })
  const [other] = await readEvents('oauth_registration success')
  assert.equal(readTarget(other), { redirect_uris: 'https://app.example/cb com.example.app:/cb' })
  assert.is(other?.client?.name, 'App [redacted]')
  const refused = await client.post('register', '{"redirect_uris":["http://evil.example/?a-query"]}')
  assert.is(await refusal(refused), '400 invalid_redirect_uri')
  await readEvents('oauth_registration failure invalid_redirect_uri')
})

test('a whole login: consent, the provider, the client, its tokens; by one person, from one place', async () => {
  client.agent.headers['x-forwarded-for'] = '1.2.3.4, 198.51.100.7'
  client.agent.headers['user-agent'] = 'browser/1'
  client.agent.headers['x-request-id'] = 'mine-1'
  const { access_token } = await login()
  for (const name of Object.keys(client.agent.headers)) delete client.agent.headers[name]
  const [consent, leg, end, tokens] = await readEvents(...LOGIN, 'oauth_token_issue success')
  const { iss, sub } = decodeJwt(access_token)
  const target = { scope: 'tools:call tools:read', resource: server.resource }
  const who = { issuer: iss, id: sub, name: 'Person alice', client: client.id }
  assert.equal([consent?.client, consent?.subject, readTarget(consent)], [{ id: client.id }, undefined, target])
  assert.equal([leg?.subject, readTarget(leg)], [who, { provider: 'corp', purpose: 'authorize' }])
  assert.equal([end?.subject, end?.client, readTarget(end)], [who, { id: client.id }, target])
  assert.equal([tokens?.subject, tokens?.client], [who, { id: client.id }])
  assert.equal(readTarget(tokens), { scope: target.scope, audience: server.resource })
  for (const event of [consent, leg, end]) {
    assert.equal(event?.source, { address: '198.51.100.7', user_agent: 'browser/1' })
    assert.is(event?.request_id, 'mine-1')
    assert.is(event?.data, undefined)
    assert.ok(Number(event?.duration_ms) > 0)
  }
  assert.is(tokens?.source?.address, '127.0.0.1')
})

test('the request id of the answer is that of the line', async () => {
  const answered = await client.exchange('no-code')
  assert.is(await refusal(answered), '400 invalid_grant')
  const [event] = await readEvents('oauth_token_issue denied invalid_grant')
  assert.is(event?.request_id, answered.headers.get('x-request-id'))
  assert.equal([event?.client, event?.subject], [{ id: client.id }, undefined])
})

test('a consent that is refused, and one that is answered in another browser', async () => {
  client.agent.forget(new URL(server.issuer).host)
  client.agent.answer = 'deny'
  assert.is((await client.authorize({ resource: server.resource })).get('error'), 'access_denied')
  const [consent, end] = await readEvents('oauth_consent denied access_denied', 'oauth_login denied access_denied')
  assert.equal([consent?.client, end?.client], [{ id: client.id }, { id: client.id }])
  const stranger = new UserAgent()
  assert.is(
    (await stranger.post(`${server.issuer}/oauth/consent`, { token: 'x'.repeat(43), decision: 'allow' })).status,
    400,
  )
  await readEvents('oauth_consent failure invalid_request')
})

test('a request that is refused before its user is asked is logged with the client that it names', async () => {
  const answered = await client.authorize({ scope: 'a-query', resource: server.resource })
  assert.is(answered.get('error'), 'invalid_scope')
  const withoutChallenge = await client.authorize({ code_challenge: undefined, resource: server.resource })
  assert.is(withoutChallenge.get('error'), 'invalid_request')
  for (const changes of [{ client_id: 'nobody' }, { redirect_uri: 'https://evil.example/?a-query' }])
    assert.is((await client.agent.get(client.authorizeUrl(changes))).status, 400)
  const [refused, , unknown, elsewhere] = await readEvents(
    'oauth_authorization denied invalid_scope',
    'oauth_authorization failure invalid_request',
    'oauth_authorization failure invalid_request',
    'oauth_authorization failure invalid_request',
  )
  assert.equal([refused?.client, refused?.subject], [{ id: client.id }, undefined])
  assert.equal([unknown?.client, elsewhere?.client], [{ id: 'nobody' }, { id: client.id }])
})

test('a login that fails at the provider, and an answer of a provider to nobody', async () => {
  server.upstream.user = undefined
  for (const at of [server, server.upstream]) client.agent.forget(new URL(at.issuer).host)
  assert.is((await client.authorize({ resource: server.resource })).get('error'), 'access_denied')
  const [, leg] = await readEvents(
    'oauth_consent success',
    'oauth_provider_login denied access_denied',
    'oauth_login denied access_denied',
  )
  assert.equal([leg?.client, leg?.subject, leg?.target?.['provider']], [{ id: client.id }, undefined, 'corp'])
  const url = `${server.issuer}/oauth/callback?state=a-query&code=a-query`
  assert.is((await new UserAgent().get(url)).status, 400)
  await readEvents('oauth_provider_login failure invalid_request')
})

test('a login that ends in another browser is logged with its client and without a user', async () => {
  client.agent.forget(new URL(server.issuer).host)
  const url = client.authorizeUrl({ resource: server.resource })
  const end = await client.agent.follow(url, (at) => at.startsWith(`${server.issuer}/oauth/callback`))
  unwritten.add(new URL(end.url).searchParams.get('code') as string)
  assert.is((await new UserAgent().get(end.url)).status, 400)
  const [, leg] = await readEvents('oauth_consent success', 'oauth_provider_login failure invalid_request')
  assert.equal([leg?.client, leg?.subject, leg?.target?.['provider']], [{ id: client.id }, undefined, 'corp'])
})

test('a refresh, and the reuse of a replaced token with the user whose it is', async () => {
  const first = await login()
  await readEvents(...LOGIN, 'oauth_token_issue success')
  const second = await readTokens(await client.refresh(first.refresh_token))
  const third = await readTokens(await client.refresh(second.refresh_token))
  for (const { refresh_token, access_token } of [second, third]) unwritten.add(refresh_token).add(access_token)
  const [refreshed] = await readEvents('oauth_token_refresh success', 'oauth_token_refresh success')
  const { iss, sub } = decodeJwt(first.access_token)
  assert.equal(refreshed?.subject, { issuer: iss, id: sub, name: 'Person alice', client: client.id })
  // The first answer is repeated for a while, but only for the same client.
  const other = await TestClient.register(server.issuer, { client_name: 'Other' })
  assert.is(await refusal(other.refresh(first.refresh_token)), '400 invalid_grant')
  const [, foreign] = await readEvents('oauth_registration success', 'oauth_token_refresh denied invalid_grant')
  assert.equal([foreign?.subject, foreign?.client], [undefined, { id: other.id }])
  await dropAnswers(redis)
  assert.is(await refusal(client.refresh(first.refresh_token)), '400 invalid_grant')
  assert.is(await refusal(client.refresh(third.refresh_token)), '400 invalid_grant')
  const [reused] = await readEvents(
    'oauth_refresh_reuse denied invalid_grant',
    'oauth_token_refresh denied invalid_grant',
  )
  assert.equal([reused?.subject?.id, reused?.client], [sub, { id: client.id }])
})

test('a revocation says what has ended; an unknown client is logged under the id that it gave', async () => {
  const { refresh_token } = await login()
  await readEvents(...LOGIN, 'oauth_token_issue success')
  const revoke = (token: string, id = client.id) => client.post('revoke', { client_id: id, token })
  assert.is((await revoke(refresh_token)).status, 200)
  assert.is((await revoke('no-token')).status, 200)
  assert.is(await refusal(revoke(refresh_token, 'nobody')), '401 invalid_client')
  const [ended, nothing, unknown] = await readEvents(
    'oauth_token_revocation success',
    'oauth_token_revocation success',
    'oauth_token_revocation denied invalid_client',
  )
  assert.equal(readTarget(ended), { ended: 'login', token: 'refresh_token' })
  assert.is(ended?.subject?.client, client.id)
  assert.ok(ended?.subject?.id)
  assert.equal([readTarget(nothing), nothing?.subject], [{ ended: 'nothing' }, undefined])
  assert.equal(unknown?.client, { id: 'nobody' })
})

test('an introspection is logged with the client, and with the user if the client is told who that is', async () => {
  const { access_token } = await login()
  await readEvents(...LOGIN, 'oauth_token_issue success')
  const other = await TestClient.register(server.issuer, { client_name: 'Other' })
  await readEvents('oauth_registration success')
  const introspect = async (by: TestClient, id = by.id) => {
    const response = await by.post('introspect', { client_id: id, token: access_token })
    return ((await response.json()) as { readonly active?: boolean }).active
  }
  assert.equal(
    [await introspect(client), await introspect(other), await introspect(other, 'nobody')],
    [true, false, undefined],
  )
  const [own, foreign] = await readEvents(
    'oauth_introspection success',
    'oauth_introspection success',
    'oauth_introspection denied invalid_client',
  )
  assert.equal([own?.subject?.id, readTarget(own)], [decodeJwt(access_token).sub, { active: 'true' }])
  assert.equal(
    [foreign?.client, foreign?.subject, readTarget(foreign)],
    [{ id: other.id }, undefined, { active: 'false' }],
  )
})

test('a token exchange is logged with its user and its actor; a refused one with its user', async () => {
  const own = await login()
  await readEvents(...LOGIN, 'oauth_token_issue success')
  const exchange = (more: Record<string, string> = {}) =>
    agent.token({ grant_type: EXCHANGE, subject_token: own.access_token, subject_token_type: ACCESS_TOKEN, ...more })
  const { access_token } = await readTokens(await exchange())
  unwritten.add(access_token)
  const { iss, sub } = decodeJwt(own.access_token)
  const [exchanged] = await readEvents('oauth_token_exchange success')
  const delegation = [{ issuer: server.issuer, id: 'agent' }]
  assert.equal(exchanged?.subject, { issuer: iss, id: sub, name: 'Person alice', client: 'agent', delegation })
  assert.equal(readTarget(exchanged), { scope: 'tools:call', audience: OTHER })
  assert.is(await refusal(exchange({ scope: 'tools:read' })), '400 invalid_scope')
  agent.secret = 'wrong'
  assert.is(await refusal(exchange()), '401 invalid_client')
  agent.secret = agentSecret
  const [refused, unknown] = await readEvents(
    'oauth_token_exchange denied invalid_scope',
    'oauth_token_exchange denied invalid_client',
  )
  assert.equal([refused?.subject?.id, refused?.client], [sub, { id: 'agent' }])
  assert.is(unknown?.subject, undefined)
})

test('an assertion that is redeemed, and a second attempt to redeem it', async () => {
  const assertion = await idp.mint({ sub: 'ci', aud: server.issuer })
  unwritten.add(assertion)
  const redeem = () => new TestClient(server.issuer).post('token', { grant_type: BEARER, assertion })
  const { access_token } = await readTokens(await redeem())
  unwritten.add(access_token)
  assert.is(await refusal(redeem()), '400 invalid_grant')
  const client = new TestClient(server.issuer)
  const foreign = async (iss: string) => {
    const token = await idp.mint({ iss, sub: 'ci', aud: server.issuer })
    unwritten.add(token)
    return token
  }
  const [redeemed, refused] = await readEvents('oauth_assertion success', 'oauth_assertion denied invalid_grant')
  assert.equal([redeemed?.subject?.issuer, redeemed?.subject?.id], [server.issuer, `${idp.issuer}#ci`])
  assert.equal([refused?.subject?.issuer, refused?.subject?.id], [idp.issuer, 'ci'])
  const digest = readTarget(redeemed)?.['jti_digest']
  assert.match(String(digest), /^[\w-]{43}$/)
  assert.equal(readTarget(redeemed)?.['rule'], 'ci')
  assert.equal(readTarget(refused), { rule: 'ci', reason: 'used', jti_digest: digest })
  assert.is(
    await refusal(client.post('token', { grant_type: BEARER, assertion: await foreign('https://nobody.example') })),
    '400 invalid_grant',
  )
  const [stranger] = await readEvents('oauth_assertion denied invalid_grant')
  assert.equal(readTarget(stranger), { reason: 'untrusted_issuer' })
  assert.is(
    await refusal(client.post('token', { grant_type: BEARER, assertion: await foreign(`${idp.issuer}/`) })),
    '400 invalid_grant',
  )
  const [misspelt] = await readEvents('oauth_assertion denied invalid_grant')
  assert.equal(readTarget(misspelt), { reason: 'issuer_spelling' })
})

test('a client that shows other keys than before is logged once, with the number of keys that stayed', async () => {
  const make = async (kid: string) => ({ kid, ...(await generateKeyPair('ES256')) })
  const [one, two, three] = [await make('a'), await make('b'), await make('c')]
  const show = async (...pairs: readonly (typeof one)[]) => {
    const keys = await Promise.all(pairs.map(async ({ kid, publicKey }) => ({ kid, ...(await exportJWK(publicKey)) })))
    await writeFile(keysOfRobot, JSON.stringify({ keys }))
  }
  let issued = 0
  const ask = async ({ kid, privateKey }: typeof one) => {
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: 'robot', sub: 'robot', aud: server.issuer, jti: randomUUID(), iat: now, exp: now + 60 }
    const assertion = secret(await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid }).sign(privateKey))
    unwritten.add(assertion)
    const type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    const fields = { grant_type: 'client_credentials', client_assertion: assertion, client_assertion_type: type }
    const answered = await new TestClient(server.issuer).post('token', fields)
    if (!answered.ok) return false
    issued++
    unwritten.add((await readTokens(answered)).access_token)
    return true
  }
  const changes = () => file.all.filter(({ type }) => type === 'client_key_changed')
  await show(one)
  assert.ok(await ask(one))
  await readEvents('oauth_token_issue success')
  await show(one, two)
  await eventually('the new key', () => ask(two))
  assert.ok(await ask(one))
  await show(three)
  await eventually('another key', () => ask(three))
  await eventually('both changes', () => changes().length === 2)
  assert.equal(changes().map(readTarget), [
    { added: 1, removed: 0, kept: 1 },
    { added: 1, removed: 2, kept: 0 },
  ])
  for (const { client: who, source, request_id } of changes()) {
    assert.equal([who, source?.address], [{ id: 'robot' }, '127.0.0.1'])
    assert.ok(request_id)
  }
  const issues = () => file.all.filter(({ type, client: to }) => type === 'oauth_token_issue' && to?.id === 'robot')
  await eventually(
    'a line about each token',
    () => issues().filter(({ outcome }) => outcome === 'success').length === issued,
  )
  file.skip()
})

test('a provider that is linked on demand, and not by somebody else', async () => {
  const { access_token } = await login()
  await readEvents(...LOGIN, 'oauth_token_issue success')
  const readLink = async () => {
    const authorization = `Bearer ${access_token}`
    const { json } = await postModern(server.gateway.url, 'tools/call', { name: 'hub_t' }, { authorization })
    await readEvents('mcp_tool_call application_error')
    return linkIn(json)
  }
  const link = await readLink()
  unwritten.add(new URL(link).searchParams.get('ticket') as string)
  server.upstream.user = 'eve'
  assert.is((await follow(new UserAgent(), link)).status, 400)
  const [stranger] = await readEvents('oauth_provider_login denied other_user', 'oauth_provider_link denied other_user')
  assert.equal(readTarget(stranger), { provider: 'corp', purpose: 'link' })
  server.upstream.user = 'alice'
  const again = await readLink()
  unwritten.add(new URL(again).searchParams.get('ticket') as string)
  assert.is((await follow(client.agent, again)).status, 200)
  const [, leg, linked] = await readEvents(
    'oauth_provider_login success',
    'oauth_provider_login success',
    'oauth_provider_link success',
  )
  assert.equal(readTarget(leg), { provider: 'github', purpose: 'link' })
  assert.equal([linked?.subject?.id, readTarget(linked)], [decodeJwt(access_token).sub, { provider: 'github' }])
})

test('a person signs in to see what is linked, unlinks, revokes and signs out', async () => {
  const { access_token } = await login()
  await readEvents(...LOGIN, 'oauth_token_issue success')
  const browser = new UserAgent()
  const page = SessionsPage.of(server, browser)
  const at = await page.signIn()
  assert.ok(at.isSignedIn)
  const [leg, signedIn] = await readEvents('oauth_provider_login success', 'account_sign_in success')
  const { sub } = decodeJwt(access_token)
  assert.equal(readTarget(leg), { provider: 'corp', purpose: 'account' })
  assert.equal([signedIn?.subject?.id, signedIn?.client], [sub, undefined])
  const { token } = at
  await page.send({ token, ...findButton(at, 'Unlink') })
  const [unlinked] = await readEvents('account_unlink success')
  assert.equal(
    [unlinked?.subject?.id, unlinked?.client, readTarget(unlinked)],
    [sub, { id: client.id }, { provider: 'corp' }],
  )
  assert.is((await browser.post(page.url, { token, revoke: 'x'.repeat(43) })).status, 400)
  await readEvents('account_revoke failure invalid_request')
  await page.send({ token, ...findButton(await page.open(), 'Revoke') })
  const [revoked] = await readEvents('account_revoke success')
  assert.equal([revoked?.subject?.id, revoked?.client, readTarget(revoked)], [sub, { id: client.id }, {}])
  await page.send({ token, action: 'revoke-all' })
  assert.equal(readTarget((await readEvents('account_revoke success'))[0]), { ended: 'all' })
  await page.send({ token, action: 'sign-out' })
  assert.is((await readEvents('account_sign_out success'))[0]?.subject?.id, sub)
})

test.run()
