/** Tests token exchange: who may act for whom, at which audience, with which scopes, for how long, and what ends it. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import * as openid from 'openid-client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  SCOPES,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { answer, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const JWT = 'urn:ietf:params:oauth:token-type:jwt'
const OTHER = 'https://other.example/mcp'
const AUDIENCE = 'https://exchange.example'

const agentSecret = secret(`agent ${randomBytes(24).toString('base64url')}:+%`)
const botSecret = secret(randomBytes(24).toString('base64url'))
let server: AuthServerUnderTest
let raw: RawServer
let idp: IdentityProvider
let agent: TestClient
let bot: TestClient
let user: TestClient
let directory: string

type Trusted = NonNullable<AuthServerConfig['trustedIssuers']>[number]
const trustedBy = (more: Partial<Trusted> = {}): Partial<AuthServerConfig> => ({
  trustedIssuers: [{ issuerUrl: idp.issuer, expectedAudience: AUDIENCE, allowedDelegateClients: ['agent'], ...more }],
})

test.before(async () => {
  raw = await startRawServer({
    era: 'both',
    call: (request) => answer(request, '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'),
  })
  idp = await startIdentityProvider()
  const credential = { type: 'upstreamInject' as const, upstreamInject: { providerName: 'corp' } }
  server = await startAuthServer({
    authServer: {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      allowedAudiences: [OTHER],
      delegateClients: [
        { clientId: 'agent', clientSecretFile: 'agent', audiences: [OTHER], scopes: ['tools:call'] },
        { clientId: 'bot', clientSecretFile: 'bot', audiences: [OTHER], scopes: ['tools:call', 'tools:read'] },
      ],
      ...trustedBy(),
    },
    gateway: { backends: [{ name: 'b', url: raw.url, credential }] },
    async prepare(folder) {
      directory = folder
      await writeFile(join(folder, 'agent'), agentSecret)
      await writeFile(join(folder, 'bot'), `${botSecret}\n`)
    },
  })
  await follow()
  agent = new TestClient(server.issuer, 'agent')
  agent.secret = agentSecret
  bot = new TestClient(server.issuer, 'bot')
  bot.secret = botSecret
  user = await TestClient.register(server.issuer)
})
test.after(async () => {
  await server?.close()
  await idp?.close()
  await raw?.close()
})

let reloads = 0
/** Applies a configuration; the first audience of the first client is the gateway's. */
async function follow(more: Partial<AuthServerConfig> = {}): Promise<void> {
  const mark = `reload:${++reloads}`
  const [first, ...rest] = server.config().authServer?.delegateClients ?? []
  const delegateClients = first === undefined ? [] : [{ ...first, audiences: [server.resource, OTHER] }, ...rest]
  await server.gateway.configure(server.config({ ...more, delegateClients, scopes: [...SCOPES, mark] }))
  await eventually('the new configuration', async () => {
    const answered = await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)
    return (await answered.text()).includes(`"${mark}"`)
  })
}

const login = (changes: Record<string, string> = {}) => user.login({ resource: server.resource, ...changes })
const fields = (token: string, more: Record<string, string> = {}) => ({
  grant_type: EXCHANGE,
  subject_token: token,
  subject_token_type: ACCESS_TOKEN,
  ...more,
})
const exchange = (client: TestClient, token: string, more: Record<string, string> = {}) =>
  client.token(fields(token, more))
const isAccepted = async (token: string) =>
  (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status === 200
const mint = (claims: object = {}, options = {}) => idp.mint({ aud: AUDIENCE, ...claims }, options)

test('a client acts for a user who has logged in', async () => {
  const own = await login()
  const response = await exchange(agent, own.access_token, { resource: server.resource })
  assert.is(response.headers.get('cache-control'), 'no-store')
  const tokens = await readTokens(response)
  assert.equal(Object.keys(tokens).sort(), ['access_token', 'expires_in', 'issued_token_type', 'scope', 'token_type'])
  assert.equal([tokens.issued_token_type, tokens.expires_in, tokens.scope], [ACCESS_TOKEN, 900, 'tools:call'])
  const [claims, before] = [decodeJwt(tokens.access_token), decodeJwt(own.access_token)]
  assert.is(decodeProtectedHeader(tokens.access_token).typ, 'at+jwt')
  assert.equal([claims.sub, claims.aud, claims['client_id']], [before.sub, server.resource, 'agent'])
  assert.equal(claims['act'], { iss: server.issuer, sub: 'agent' })
  assert.is(claims['name'], before['name'])
  assert.is(Number(claims.exp) - Number(claims.iat), 900)
  assert.ok(await isAccepted(tokens.access_token))
})

test('an exchanged token has access to provider tokens wherever the user’s own has, and nowhere else', async () => {
  const own = await login()
  const same = await readTokens(await exchange(agent, own.access_token, { audience: server.resource }))
  const other = await readTokens(await exchange(agent, own.access_token, { resource: OTHER }))
  assert.is(decodeJwt(same.access_token)['tsid'], decodeJwt(own.access_token)['tsid'])
  assert.is(decodeJwt(other.access_token)['tsid'], undefined)
  assert.is(decodeJwt(other.access_token).aud, OTHER)
  assert.not(await isAccepted(other.access_token))
  // The token from the other audience still has nothing of the login.
  const back = await readTokens(await exchange(agent, other.access_token, { resource: server.resource }))
  assert.is(decodeJwt(back.access_token)['tsid'], undefined)
  assert.ok(await isAccepted(back.access_token))
  const call = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` }
    const { client } = await connect(server.gateway.url, 'modern', { headers })
    try {
      const result = await client.callTool({ name: 'b_t', arguments: {} })
      return result.isError === true ? 'refused' : readText(result)
    } catch {
      return 'refused'
    } finally {
      await client.close()
    }
  }
  assert.is(await call(own.access_token), 'ok')
  assert.is(await call(same.access_token), 'ok')
  const { length } = raw.calls('tools/call')
  assert.is(await call(back.access_token), 'refused')
  assert.is(raw.calls('tools/call').length, length)
})

test('the end of a login ends its exchanged tokens; the actor can revoke only its own', async () => {
  const own = await login()
  const [first, second] = await Promise.all(
    [1, 2].map(async () => readTokens(await exchange(agent, own.access_token, { resource: server.resource }))),
  )
  const other = await readTokens(await exchange(bot, own.access_token))
  const back = await readTokens(await exchange(agent, other.access_token, { resource: server.resource }))
  assert.is(await refusal(bot.token({ ...fields('x'), subject_token: 'x' })), '400 invalid_request')
  const introspect = async (token: string) =>
    (await (await agent.post('introspect', { client_id: 'agent', client_secret: agentSecret, token })).json()) as {
      act?: object
      active: boolean
    }
  const { access_token: token } = first as { access_token: string }
  assert.equal((await introspect(token)).act, { iss: server.issuer, sub: 'agent' })
  const revoke = (client: TestClient, token: string) =>
    client.post('revoke', { client_id: client.id, client_secret: client.secret ?? '', token })
  assert.is((await revoke(bot, token)).status, 400)
  assert.is((await revoke(agent, token)).status, 200)
  assert.is((await introspect(token)).active, false)
  assert.not(await isAccepted(token))
  assert.ok(await isAccepted(own.access_token))
  assert.ok(await isAccepted((second as { access_token: string }).access_token))
  assert.is(await refusal(exchange(agent, token, { resource: OTHER })), '400 invalid_request')
  await revoke(user, own.refresh_token)
  for (const one of [own, second, back] as { access_token: string }[]) assert.not(await isAccepted(one.access_token))
  assert.is(await refusal(exchange(agent, own.access_token, { resource: OTHER })), '400 invalid_request')
  assert.is(await refusal(exchange(agent, other.access_token, { resource: OTHER })), '400 invalid_request')
})

test('a token ends with each token that it was exchanged from, over all exchanges', async () => {
  const own = await login()
  const other = await readTokens(await exchange(bot, own.access_token))
  const more = { resource: server.resource }
  const back = await readTokens(await exchange(agent, other.access_token, more))
  const again = await readTokens(await exchange(agent, back.access_token, more))
  const actor = { actor_token: other.access_token, actor_token_type: ACCESS_TOKEN }
  const acted = await readTokens(await exchange(agent, own.access_token, { ...more, ...actor }))
  const beside = await readTokens(await exchange(agent, own.access_token, more))
  for (const { access_token: token } of [back, again, acted, beside]) assert.ok(await isAccepted(token))
  const form = { client_id: 'bot', client_secret: botSecret, token: other.access_token }
  assert.is((await bot.post('revoke', form)).status, 200)
  for (const { access_token: token } of [back, again, acted]) assert.not(await isAccepted(token))
  assert.ok(await isAccepted(beside.access_token))
})

test('only configured clients exchange tokens, with their secret, and they can do nothing else', async () => {
  const own = await login()
  assert.is(await refusal(exchange(user, own.access_token)), '400 unauthorized_client')
  assert.is(await refusal(exchange(new TestClient(server.issuer, 'agent'), own.access_token)), '401 invalid_client')
  for (const wrong of ['', 'x', botSecret, ` ${agentSecret}`]) {
    const basic = `Basic ${Buffer.from(`agent:${encodeURIComponent(wrong)}`).toString('base64')}`
    const answered = agent.post('token', fields(own.access_token), { authorization: basic })
    assert.is(await refusal(answered), '401 invalid_client')
  }
  const encoded = `Basic ${Buffer.from(`agent:${encodeURIComponent(agentSecret)}`).toString('base64')}`
  secret(encoded.slice(6))
  const more = { resource: server.resource }
  await readTokens(await agent.post('token', fields(own.access_token, more), { authorization: encoded }))
  for (const grant of [
    { grant_type: 'authorization_code', code: 'x', redirect_uri: 'http://127.0.0.1:7777/callback' },
    { grant_type: 'refresh_token', refresh_token: own.refresh_token },
  ] as Record<string, string>[])
    assert.is(await refusal(agent.token(grant)), '400 unauthorized_client')
  assert.is((await agent.agent.get(agent.authorizeUrl())).status, 400)
})

test('a changed secret works without a reload, and a removed one no longer does', async () => {
  const own = await login()
  const [path, next] = [join(directory, 'bot'), secret(randomBytes(24).toString('base64url'))]
  await writeFile(path, next)
  const rotated = new TestClient(server.issuer, 'bot')
  rotated.secret = next
  await eventually('the new secret', async () => (await exchange(rotated, own.access_token)).status === 200)
  assert.is(await refusal(exchange(bot, own.access_token)), '401 invalid_client')
  await writeFile(path, '')
  const basic = `Basic ${Buffer.from('bot:').toString('base64')}`
  const redeem = () => bot.post('token', fields(own.access_token), { authorization: basic })
  await eventually('nobody', async () => (await redeem()).status === 503)
  await writeFile(path, botSecret)
  await eventually('the old secret', async () => (await exchange(bot, own.access_token)).status === 200)
})

test('audiences and scopes are the client’s, and never more than the exchanged token’s', async () => {
  const own = await login()
  const narrow = await login({ scope: 'tools:read' })
  const ask = async (client: TestClient, token: string, more: Record<string, string>) => {
    const response = await exchange(client, token, more)
    return response.status === 200 ? (await readTokens(response)).scope : refusal(response)
  }
  assert.is(await ask(agent, own.access_token, {}), '400 invalid_target')
  assert.is(await ask(agent, own.access_token, { resource: 'https://evil.example' }), '400 invalid_target')
  assert.is(await ask(agent, own.access_token, { resource: OTHER, audience: server.resource }), '400 invalid_target')
  assert.is(await ask(agent, own.access_token, { resource: `${OTHER}//` }), '400 invalid_target')
  assert.is(await ask(bot, own.access_token, { resource: server.resource }), '400 invalid_target')
  assert.is(await ask(bot, own.access_token, {}), 'tools:call tools:read')
  assert.is(await ask(bot, own.access_token, { scope: 'tools:read tools:read' }), 'tools:read')
  assert.is(await ask(bot, narrow.access_token, {}), 'tools:read')
  assert.is(await ask(bot, narrow.access_token, { scope: 'tools:call' }), '400 invalid_scope')
  assert.is(await ask(agent, narrow.access_token, { resource: OTHER }), '400 invalid_scope')
  assert.is(await ask(bot, own.access_token, { scope: 'openid' }), '400 invalid_scope')
  assert.is(await ask(bot, own.access_token, { requested_token_type: ACCESS_TOKEN }), 'tools:call tools:read')
  for (const [name, value] of [
    ['requested_token_type', 'urn:ietf:params:oauth:token-type:refresh_token'],
    ['subject_token_type', 'urn:ietf:params:oauth:token-type:id_token'],
    ['subject_token_type', ''],
    ['subject_token', ''],
    ['actor_token_type', ACCESS_TOKEN],
  ] as const)
    assert.is(await ask(bot, own.access_token, { [name]: value }), '400 invalid_request', name)
  const twice = [...Object.entries({ ...fields(own.access_token), client_id: 'bot', client_secret: botSecret })]
  for (const name of ['subject_token', 'resource', 'audience', 'scope'])
    assert.is(
      await refusal(bot.post('token', [...twice, [name, 'a'], [name, 'a']] as [string, string][])),
      '400 invalid_request',
      name,
    )
})

test('only access tokens of this gateway or of a trusted issuer can be exchanged', async () => {
  const own = await login({ scope: 'openid tools:call' })
  const [header, payload, signature] = own.access_token.split('.') as [string, string, string]
  const keys = (await (await fetch(`${server.issuer}/.well-known/jwks.json`)).json()) as { keys: [object, ...object[]] }
  const { kid } = decodeProtectedHeader(own.access_token)
  const claims = { ...decodeJwt(own.access_token), sub: 'somebody' }
  const expectForged = (alg: string, key: string | object) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg, kid: kid as string, typ: 'at+jwt' })
      .sign(new TextEncoder().encode(JSON.stringify(key)))
  const none = `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.${payload}.`
  for (const token of [
    own.id_token as string,
    own.refresh_token,
    none,
    await expectForged('HS256', keys.keys[0]),
    `${header}.${payload}.${signature.slice(0, -4)}AAAA`,
    `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`,
    'x',
    '..',
    'x'.repeat(20_000),
    // A trusted issuer that signs with our issuer's name.
    await idp.mint({ iss: server.issuer, aud: server.resource, client_id: 'x', scope: 'tools:call' }),
  ])
    assert.is(await refusal(exchange(bot, secret(token))), '400 invalid_request', token.slice(0, 20))
})

test('the user of a trusted issuer’s token has a name that no other user has', async () => {
  const exp = Math.floor(Date.now() / 1000) + 60
  const token = await mint({ sub: 'alice#1', exp, act: { sub: 'gateway', act: { sub: 'web' } } })
  const tokens = await readTokens(await exchange(agent, token, { resource: server.resource }))
  const claims = decodeJwt(tokens.access_token)
  assert.is(claims.sub, `${idp.issuer}#alice#1`)
  assert.ok(Number(claims.exp) <= exp && tokens.expires_in <= 60)
  assert.equal(claims['act'], {
    ...{ iss: server.issuer, sub: 'agent' },
    act: { iss: idp.issuer, sub: 'gateway', act: { iss: idp.issuer, sub: 'web' } },
  })
  assert.equal([claims['tsid'], claims['delegated_login'], claims['scope']], [undefined, undefined, 'tools:call'])
  assert.ok(await isAccepted(tokens.access_token))
  assert.is((await exchange(agent, await mint(), { subject_token_type: JWT, resource: OTHER })).status, 200)
  assert.is((await exchange(agent, await mint({ aud: ['x', AUDIENCE] }), { resource: OTHER })).status, 200)
})

test('unusable tokens of a trusted issuer are refused', async () => {
  const stranger = await startIdentityProvider()
  try {
    const resource = { resource: OTHER }
    for (const [name, token] of Object.entries({
      audience: await mint({ aud: server.issuer }),
      'no audience': await mint({ aud: undefined }),
      prefix: await mint({ aud: `${AUDIENCE}/` }),
      expired: await mint({ exp: Math.floor(Date.now() / 1000) - 60 }),
      'no end': await mint({ exp: undefined }),
      'no subject': await mint({ sub: undefined }),
      'a number': await mint({ sub: 7 }),
      'an empty subject': await mint({ sub: '' }),
      'a long subject': await mint({ sub: 'x'.repeat(600) }),
      'a subject of two lines': await mint({ sub: 'alice\nbob' }),
      'a turned subject': await mint({ sub: 'alice\u202Ebob' }),
      'not yet': await mint({ nbf: Math.floor(Date.now() / 1000) + 600 }),
      'another type': await mint({}, { header: { typ: 'oauth-id-jag+jwt' } }),
      'another issuer': await stranger.mint({ aud: AUDIENCE }),
      'another issuer’s key': await stranger.mint({ aud: AUDIENCE, iss: idp.issuer }),
      'a slash more': await mint({ iss: `${idp.issuer}/` }),
      'a list of issuers': await mint({ iss: [idp.issuer] }),
    }))
      assert.is(await refusal(exchange(agent, token, resource)), '400 invalid_request', name)
    assert.is(await refusal(exchange(bot, await mint())), '400 invalid_request')
    assert.equal([...stranger.requests.keys()], [])
  } finally {
    await stranger.close()
  }
})

test('a token’s may_act claim decides who may act', async () => {
  const ask = async (claims: object, more: Record<string, string> = {}) => {
    const response = await exchange(agent, await mint(claims), { resource: OTHER, ...more })
    if (response.status !== 200) return refusal(response)
    const { act } = decodeJwt((await readTokens(response)).access_token) as {
      act: { sub: string; act?: { sub: string } }
    }
    return [act.sub, act.act?.sub].join(' ')
  }
  const no = '400 invalid_request'
  await follow(trustedBy({ actorClaim: 'azp', allowedActors: ['web', 'cli'] }))
  assert.is(await ask({ azp: 'web' }), 'agent web')
  for (const azp of ['other', undefined, '', 7, ['web'], { sub: 'web' }]) assert.is(await ask({ azp }), no, String(azp))
  await follow(trustedBy({ actorMatcher: 'claims.groups.exists(g, g == "agents")', actorClaim: 'azp' }))
  assert.is(await ask({ azp: 'web', groups: ['agents'] }), 'agent web')
  assert.is(await ask({ azp: 'web', groups: ['others'] }), no)
  assert.is(await ask({ groups: ['agents'] }), no)
  await follow(trustedBy({ allowMayAct: true }))
  assert.is(await ask({ may_act: { sub: 'agent' } }), 'agent ')
  assert.is(await ask({ may_act: { sub: 'agent', iss: server.issuer } }), 'agent ')
  for (const may_act of [{ sub: 'bot' }, { sub: 'agent', iss: idp.issuer }, 'agent', ['agent'], {}, null, undefined])
    assert.is(await ask({ may_act }), no, JSON.stringify(may_act))
  await follow(trustedBy({ allowMayAct: true, actorClaim: 'azp', allowedActors: ['web'] }))
  assert.is(await ask({ azp: 'cli', may_act: { sub: 'agent' } }), 'agent cli')
  assert.is(await ask({ azp: 'web', may_act: { sub: 'bot' } }), no)
  assert.is(await ask({ azp: 'web' }), 'agent web')
  await follow(trustedBy({ allowedDelegateClients: ['bot'] }))
  assert.is(await ask({}), no)
  await follow(trustedBy({ allowedDelegateClients: ['*'] }))
  assert.is(await ask({}), 'agent ')
  // The token's own `may_act` counts, whatever else is allowed.
  assert.is(await ask({ may_act: { sub: 'bot' } }), no)
  await follow(trustedBy({ allowedActors: ['service'] }))
  assert.is(await ask({}), no)
  const actor = { actor_token: await mint({ sub: 'service' }), actor_token_type: JWT }
  assert.is(await ask({}, actor), 'service ')
  assert.is(await ask({}, { ...actor, actor_token: await mint({ sub: 'web' }) }), no)
  const own = (await login()).access_token
  assert.is(await ask({}, { actor_token: own, actor_token_type: ACCESS_TOKEN }), no)
  assert.is(await ask({}, { actor_token: 'x', actor_token_type: ACCESS_TOKEN }), no)
  await follow()
})

test('an actor is who its own issuer says it is', async () => {
  const other = await startIdentityProvider()
  try {
    const twoIssuers = (more: Partial<Trusted>): Partial<AuthServerConfig> => ({
      trustedIssuers: [
        ...(trustedBy(more).trustedIssuers ?? []),
        { issuerUrl: other.issuer, expectedAudience: AUDIENCE, allowedDelegateClients: ['bot'] },
      ],
    })
    const isExchanged = async (claims: object, actor: { mint: typeof other.mint }, sub: string) => {
      const more = { actor_token: await actor.mint({ aud: AUDIENCE, sub, group: 'agents' }), actor_token_type: JWT }
      return (await exchange(agent, await mint(claims), { resource: OTHER, ...more })).status === 200
    }
    await follow(twoIssuers({}))
    const may_act = { sub: 'service' }
    assert.ok(await isExchanged({ may_act }, idp, 'service'))
    assert.not(await isExchanged({ may_act }, other, 'service'))
    assert.ok(await isExchanged({ may_act: { ...may_act, iss: other.issuer } }, other, 'service'))
    assert.not(await isExchanged({ may_act: { ...may_act, iss: other.issuer } }, idp, 'service'))
    await follow(twoIssuers({ allowMayAct: true }))
    assert.not(await isExchanged({ may_act }, other, 'service'))
    assert.ok(await isExchanged({ may_act }, idp, 'service'))
    const foreign = `${other.issuer}#service`
    await follow(twoIssuers({ allowedActors: [foreign, 'team#web'] }))
    assert.ok(await isExchanged({}, other, 'service'))
    assert.not(await isExchanged({}, idp, foreign))
    assert.ok(await isExchanged({}, idp, 'team#web'))
    assert.not(await isExchanged({}, other, 'team#web'))
    await follow(twoIssuers({ allowedActors: [`${idp.issuer}#${foreign}`] }))
    assert.ok(await isExchanged({}, idp, foreign))
    assert.not(await isExchanged({}, other, 'service'))
    const actorMatcher = 'claims.group == "agents"'
    await follow(twoIssuers({ actorMatcher }))
    assert.ok(await isExchanged({}, idp, 'service'))
    assert.not(await isExchanged({}, other, 'service'))
    await follow(twoIssuers({ actorMatcher, allowedActors: [foreign] }))
    assert.ok(await isExchanged({}, other, 'service'))
  } finally {
    await follow()
    await other.close()
  }
})

test('a chain of actors is cut if it grows too long, and at an invalid actor', async () => {
  let act: object = { sub: 'first' }
  for (let index = 0; index < 30; index++) act = { sub: `a${index}`, act }
  const measureLength = async (claims: object) => {
    const { access_token } = await readTokens(await exchange(agent, await mint(claims), { resource: OTHER }))
    let length = 0
    interface Acted {
      readonly act?: Acted
    }
    for (let at = decodeJwt<Acted>(access_token).act; at !== undefined; at = at.act) length++
    return length
  }
  assert.is(await measureLength({ act }), 10)
  assert.is(await measureLength({ act: { sub: 'a', act: { sub: 7, act: { sub: 'b' } } } }), 2)
  assert.is(await measureLength({ act: 'agent' }), 1)
  assert.is(await measureLength({ act: { sub: 'x'.repeat(5_000) } }), 1)
})

test('an exchange waits for an issuer that is down, and its keys survive a reload', async () => {
  await exchange(agent, await mint(), { resource: OTHER })
  const token = await mint()
  idp.behaviour = 'error'
  await follow()
  assert.is((await exchange(agent, token, { resource: OTHER })).status, 200)
  idp.behaviour = 'fine'
  const unreachable = await startIdentityProvider()
  await unreachable.close()
  await follow({
    trustedIssuers: [{ issuerUrl: unreachable.issuer, expectedAudience: AUDIENCE, allowedDelegateClients: ['*'] }],
  })
  assert.is(
    await refusal(exchange(agent, await unreachable.mint({ aud: AUDIENCE }), { resource: OTHER })),
    '503 temporarily_unavailable',
  )
  await follow()
})

test('openid-client exchanges a token, and the metadata names the grant only where there is a client for it', async () => {
  const own = await login()
  const config = await openid.discovery(new URL(server.issuer), 'bot', undefined, openid.ClientSecretBasic(botSecret), {
    execute: [openid.allowInsecureRequests],
  })
  const { subject_token, subject_token_type } = fields(own.access_token)
  const tokens = await openid.genericGrantRequest(config, EXCHANGE, { subject_token, subject_token_type })
  secret(tokens.access_token)
  assert.is(tokens['issued_token_type'], ACCESS_TOKEN)
  assert.ok(config.serverMetadata().grant_types_supported?.includes(EXCHANGE))
  const plain = await startAuthServer()
  try {
    const document = (await (await fetch(`${plain.issuer}/.well-known/oauth-authorization-server`)).json()) as {
      grant_types_supported: string[]
      token_endpoint_auth_methods_supported: string[]
    }
    assert.not(document.grant_types_supported.includes(EXCHANGE))
    assert.equal(document.token_endpoint_auth_methods_supported, ['none'])
    const client = await TestClient.register(plain.issuer)
    assert.is(await refusal(exchange(client, 'x')), '400 unauthorized_client')
  } finally {
    await plain.close()
  }
})

test.run()
