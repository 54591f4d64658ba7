/** Tests rules for assertions: one rule for many users, the claims of their tokens, and single use over two replicas. */

import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { explainAssertion } from '../../../../cli/explain-assertion.ts'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import {
  type IdentityProvider,
  type MintOptions,
  startIdentityProvider,
} from '../../../support/network/identity-provider.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const OTHER = 'https://other.example/mcp'
const THIRD = 'https://third.example/mcp'
const agentSecret = secret(randomBytes(24).toString('base64url'))
const signing = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const hmac = secret(randomBytes(32).toString('base64url'))

/** Policies that allow everything to the group `eng` and to one boss, and nothing to `interns`. */
const POLICIES = [
  'permit(principal in Group::"eng", action, resource);',
  'forbid(principal in Group::"interns", action, resource);',
  'permit(principal, action, resource) when { principal has claim_email && principal.claim_email == "boss@corp.example" && principal has claim_name && principal.claim_name == "The Boss" };',
]

let redis: RedisServer
let raw: RawServer
let idp: IdentityProvider
let other: IdentityProvider
let shared: IdentityProvider
let workloads: IdentityProvider
let documents: Server
let document: string
let server: AuthServerUnderTest
let replica: GatewayUnderTest
let agent: TestClient

const policies = (): NonNullable<NonNullable<AuthServerConfig['inboundGrants']>['jwtBearer']>['issuerPolicies'] => [
  {
    issuerRef: 'corp',
    maxAssertionAge: '10m',
    acceptedAssertionTypes: ['id_jag'],
    acceptedAudiences: [`${server?.issuer}/oauth/token`],
    clients: 'any',
    defaultScopes: ['tools:read'],
    subjectRules: [
      { name: 'eng', matcher: '"eng" in claims.groups', allowedResources: [server?.resource ?? 'https://x.example'] },
      { name: 'by-prefix', subject: 'user-eng-*', allowedResources: [OTHER], scopes: ['tools:read'] },
      { name: 'more', subject: 'user-eng-7', allowedResources: [OTHER, THIRD], scopes: ['admin'] },
      { name: 'wrong', matcher: 'claims.missing.deeper == 1', allowedResources: [OTHER] },
      {
        name: 'boss',
        subject: 'boss',
        matcher: 'claims.email.endsWith("@corp.example")',
        allowedResources: [server?.resource ?? 'https://x.example'],
      },
    ],
    claims: { name: 'name', email: 'email', groups: 'groups', groupsKept: ['eng*', 'interns'] },
  },
  {
    issuerRef: 'other',
    maxAssertionAge: '5m',
    subjectRules: [{ name: 'all', matcher: 'true', allowedResources: [OTHER] }],
    claims: { groups: 'realm_access.roles' },
  },
  {
    issuerRef: 'shared',
    maxAssertionAge: '5m',
    tenants: { claim: 'tid', allowed: ['t1', 't2'] },
    audTenant: 'ours',
    subjectRules: [{ name: 'all', matcher: 'true', allowedResources: [OTHER] }],
  },
  {
    issuerRef: 'workloads',
    maxAssertionAge: '24h',
    replay: 'reusable',
    subjectRules: [{ name: 'ns', subject: 'system:serviceaccount:a:*', allowedResources: [OTHER] }],
  },
]
type Rule = NonNullable<NonNullable<ReturnType<typeof policies>>[number]['subjectRules']>[number]
const buildGrants = (all = policies()) => ({ inboundGrants: { jwtBearer: { issuerPolicies: all ?? [] } } })

test.before(async () => {
  redis = await startRedis()
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  idp = await startIdentityProvider()
  other = await startIdentityProvider()
  shared = await startIdentityProvider()
  workloads = await startIdentityProvider()
  documents = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ client_id: document, client_name: 'App', redirect_uris: ['http://127.0.0.1/c'] }))
  })
  await new Promise<void>((resolve) => documents.listen(0, '127.0.0.1', resolve))
  document = `http://127.0.0.1:${(documents.address() as AddressInfo).port}/client.json`
  const prepare = async (folder: string) => {
    await writeFile(join(folder, 'agent'), agentSecret)
    await writeFile(join(folder, 'hmac'), hmac)
    await writeFile(join(folder, 'signing.pem'), signing)
    await writeFile(join(folder, 'upstream-secret'), 'not used here')
  }
  server = await startAuthServer({
    authServer: {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      allowedAudiences: [OTHER, THIRD],
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['signing.pem'],
      cimd: { enabled: true },
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
      delegateClients: ['agent', 'bot'].map((clientId) => ({
        clientId,
        clientSecretFile: 'agent',
        audiences: [OTHER],
        scopes: ['tools:call'],
      })),
      trustedIssuers: Object.entries({ corp: idp, other, shared, workloads }).map(([name, { issuer }]) => ({
        name,
        issuerUrl: issuer,
      })),
      ...buildGrants(),
    },
    gateway: { backends: [{ name: 'b', url: raw.url }], authz: { policies: POLICIES } },
    prepare,
  })
  await configure(server.gateway, buildGrants())
  replica = await startGateway(server.config(buildGrants()), prepare)
  agent = new TestClient(server.issuer, 'agent')
  agent.secret = agentSecret
})
test.after(async () => {
  await Promise.all([replica.close(), server.close()])
  documents.close()
  await Promise.all([raw.close(), redis.stop(), ...[idp, other, shared, workloads].map((one) => one.close())])
})

/** The configuration of the first replica. */
let inForce: Partial<AuthServerConfig> = {}
async function configure(gateway: GatewayUnderTest, more: Partial<AuthServerConfig>): Promise<void> {
  if (gateway === server.gateway) inForce = more
  const before = (await gateway.status()).config
  await gateway.configure(server.config(more))
  await eventually('it is in force', async () => (await gateway.status()).config !== before)
}

const nowInSeconds = () => Math.floor(Date.now() / 1000)
const ID_JAG = { header: { typ: 'oauth-id-jag+jwt' } }
const jag = (claims: object = {}, from = idp, options: MintOptions = ID_JAG) =>
  from.mint({ sub: 'user-eng-1', aud: server.issuer, client_id: 'agent', ...claims }, options)
const redeem = (assertion: string, more: Record<string, string> = {}) =>
  agent.token({ grant_type: BEARER, assertion, ...more })
/** Redeems an assertion and returns its token's claims, or how it was refused. `portico explain` must agree. */
async function outcome(claims: object, more: Record<string, string> = {}, from = idp) {
  const assertion = await jag(claims, from)
  const response = await redeem(assertion, more)
  const explanation = explain(assertion, more)
  if (response.status !== 200) {
    const refused = await refusal(response)
    // `explain` does not know which client redeems the assertion.
    if (explanation.redeemable)
      assert.is.not(explanation.client, 'agent', `explained as redeemable: ${JSON.stringify(claims)}`)
    else assert.is(refused, `400 ${explanation.error}`, JSON.stringify(claims))
    return refused
  }
  const tokens = await readTokens(response)
  const token = decodeJwt(tokens.access_token)
  assert.is(tokens.refresh_token, undefined)
  assert.ok(tokens.expires_in <= 3600)
  const found = { aud: token.aud, scope: tokens.scope, sub: token.sub, groups: token['groups'] }
  assert.ok(explanation.redeemable, JSON.stringify([claims, explanation]))
  const { resources, scopes, subject: sub, claims: stored } = explanation
  // A token without groups has no such claim.
  const groups = stored.groups?.length === 0 ? undefined : stored.groups
  assert.equal({ aud: resources[0], scope: scopes.join(' '), sub, groups }, found, JSON.stringify(claims))
  return found
}
const explain = (assertion: string, params: Record<string, string>) => {
  const config = server.config(inForce) as Parameters<typeof explainAssertion>[0]
  const typ = decodeProtectedHeader(assertion).typ?.toLowerCase()
  return explainAssertion(config, { claims: decodeJwt(assertion), typ }, params, nowInSeconds())
}
const callAs = async (claims: object) => {
  const { access_token } = await readTokens(await redeem(await jag(claims)))
  const headers = { authorization: `Bearer ${access_token}` }
  return (await postModern(server.gateway.url, 'tools/call', { name: 'b_t' }, headers)).status
}

test('a rule over groups admits members of the group, and a prefix rule whatever begins so', async () => {
  for (const sub of ['anna', 'zoe', 'a#b', 'x'.repeat(512)]) {
    const found = await outcome({ sub, groups: ['eng', 'all'], scope: 'tools:call' })
    assert.equal(found, { aud: server.resource, scope: 'tools:call', sub: `${idp.issuer}#${sub}`, groups: ['eng'] })
  }
  for (const groups of [[], ['engineers'], 'eng', undefined, { eng: true }])
    assert.is(await outcome({ sub: 'anna', groups }), '400 invalid_grant', JSON.stringify(groups))
  assert.equal(await outcome({}), {
    aud: OTHER,
    scope: 'tools:read',
    sub: `${idp.issuer}#user-eng-1`,
    groups: undefined,
  })
  for (const sub of ['user-eng', 'User-eng-1', 'xuser-eng-1', 'user-eng-*x'.slice(1)])
    assert.is(await outcome({ sub }), '400 invalid_grant', sub)
})

test('all matching rules count: the resources of all, and the scopes of those with the resource', async () => {
  const scope = 'tools:read tools:call admin'
  assert.equal(await outcome({ sub: 'user-eng-7', scope, resource: OTHER }), {
    aud: OTHER,
    scope: 'tools:read admin',
    sub: `${idp.issuer}#user-eng-7`,
    groups: undefined,
  })
  const third = await outcome({ sub: 'user-eng-7', scope, resource: THIRD })
  assert.equal([(third as { aud: string }).aud, (third as { scope: string }).scope], [THIRD, 'admin'])
  // Two resources are allowed and the request names none.
  assert.is(await outcome({ sub: 'user-eng-7', scope }), '400 invalid_grant')
  assert.is(await outcome({ scope, resource: THIRD }), '400 invalid_grant')
})

test('scopes are those that are both requested and stated; without stated ones they are the defaults', async () => {
  const eng = { sub: 'anna', groups: ['eng'] }
  const readScope = async (claims: object, scope?: string) => {
    const found = await outcome({ ...eng, ...claims }, scope === undefined ? {} : { scope })
    return typeof found === 'string' ? found : found.scope
  }
  assert.is(await readScope({ scope: 'tools:call other' }, 'tools:read tools:call'), 'tools:call')
  assert.is(await readScope({ scope: 'tools:call other' }, 'tools:read'), '400 invalid_grant')
  assert.is(await readScope({}), 'tools:read')
  assert.is(await readScope({}, 'tools:call'), '400 invalid_grant')
  for (const scope of ['', 7, ['tools:call']]) assert.is(await readScope({ scope }), '400 invalid_grant')
})

test('of several resources the requested one counts; a request for none or another is refused', async () => {
  const two = { sub: 'user-eng-7', scope: 'admin', resource: [OTHER, THIRD] }
  const readAudience = async (resource?: string) => {
    const found = await outcome(two, resource === undefined ? {} : { resource })
    return typeof found === 'string' ? found : found.aud
  }
  assert.is(await readAudience(THIRD), THIRD)
  assert.is(await readAudience(), '400 invalid_grant')
  assert.is(await readAudience(server.resource), '400 invalid_grant')
})

test('groups, name and e-mail of the assertion reach policies, which allow and deny by them', async () => {
  assert.is(await callAs({ sub: 'anna', groups: ['eng', 'all'], scope: 'tools:call' }), 200)
  assert.is(await callAs({ sub: 'anna', groups: ['eng', 'interns'], scope: 'tools:call' }), 403)
  const boss = { sub: 'boss', email: 'boss@corp.example', name: 'The Boss', scope: 'tools:call' }
  assert.is(await callAs(boss), 200)
  assert.is(await callAs({ ...boss, email_verified: true }), 200)
  assert.is(await callAs({ ...boss, name: 'Somebody' }), 403)
  for (const email_verified of [false, 'false']) assert.is(await callAs({ ...boss, email_verified }), 403)
})

test('groups are copied as they are or not at all', async () => {
  const eng = { sub: 'anna', scope: 'tools:call' }
  // Groups that no pattern matches take no room.
  const dropped = Array.from({ length: 500 }, (_, index) => `other-${index}`)
  assert.equal(((await outcome({ ...eng, groups: ['eng', ...dropped] })) as { groups: unknown }).groups, ['eng'])
  const many = Array.from({ length: 500 }, (_, index) => `eng-${index}`)
  assert.is(await outcome({ ...eng, groups: ['eng', ...many] }), '400 invalid_grant')
  assert.is(await outcome({ ...eng, groups: ['eng', 7] }), '400 invalid_grant')
  assert.is(await outcome({ ...eng, groups: ['eng'], name: 'n'.repeat(1025) }), '400 invalid_grant')
  const roles = async (realm_access: unknown) =>
    ((await outcome({ realm_access }, {}, other)) as { groups: unknown }).groups
  assert.equal(await roles({ roles: ['a', 'b', 'a'] }), ['a', 'b'])
  assert.equal(await roles({ roles: 'a' }), ['a'])
  for (const nothing of [undefined, null, 'roles', [], { roles: null }]) assert.is(await roles(nothing), undefined)
})

test('an assertion works once although it is sent fifty times at once to two replicas', async () => {
  const token = await jag({ sub: 'anna', groups: ['eng'] })
  const body = () =>
    new URLSearchParams({ grant_type: BEARER, assertion: token, client_id: 'agent', client_secret: agentSecret })
  const bases = [server.gateway.base, replica.base]
  const all = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      fetch(`${bases[index % 2]}/oauth/token`, { method: 'POST', body: body() }),
    ),
  )
  assert.equal(all.map(({ status }) => status).sort(), [200, ...Array(49).fill(400)])
  for (const one of all.filter(({ status }) => status === 200)) await readTokens(one)
  for (const base of bases)
    assert.is(await refusal(fetch(`${base}/oauth/token`, { method: 'POST', body: body() })), '400 invalid_grant')
})

test('an assertion that lacks a claim, or is meant for another purpose, is refused', async () => {
  const iat = nowInSeconds()
  for (const [name, claims] of Object.entries({
    'no jti': { jti: undefined },
    'a jti of 300 bytes': { jti: 'é'.repeat(150) },
    'no iat': { iat: undefined },
    'eleven minutes': { iat, exp: iat + 660 },
    'the token endpoint, though it is accepted of others': { aud: `${server.issuer}/oauth/token` },
    'two audiences': { aud: [server.issuer, 'https://x.example'] },
    'a slash more': { aud: `${server.issuer}/` },
    'another client': { client_id: 'bot' },
    'no client': { client_id: undefined },
    'a tenant': { tenant: 't1' },
    'a tenant of this server': { aud_tenant: 'ours' },
    'some details': { authorization_details: [{ type: 'x' }] },
    'somebody else': { sub_id: { format: 'iss_sub', iss: idp.issuer, sub: 'user-eng-2' } },
    'a key': { cnf: { jkt: 'x' } },
  }))
    assert.is(await outcome(claims), '400 invalid_grant', name)
  for (const typ of ['JWT', 'at+jwt', undefined, 'id-jag', ['oauth-id-jag+jwt']])
    assert.is(await refusal(redeem(await jag({}, idp, { header: { typ } }))), '400 invalid_grant', String(typ))
  const valid = await jag()
  const [, body] = valid.split('.') as [string, string, string]
  const encode = (header: object) => Buffer.from(JSON.stringify(header)).toString('base64url')
  assert.is(await refusal(redeem(`${encode({ alg: 'none', typ: 'oauth-id-jag+jwt' })}.${body}.`)), '400 invalid_grant')
  // HMAC with the public key as the secret.
  const { keys } = (await (await fetch(idp.jwksUrl)).json()) as { keys: { kid: string; n?: string }[] }
  const rsa = keys.find(({ n }) => n !== undefined)
  const confused = await new SignJWT(decodeJwt(valid))
    .setProtectedHeader({ alg: 'HS256', kid: rsa?.kid ?? '', typ: 'oauth-id-jag+jwt' })
    .sign(Buffer.from(rsa?.n ?? '', 'base64url'))
  assert.is(await refusal(redeem(secret(confused))), '400 invalid_grant')
  assert.is(await refusal(agent.post('token', { grant_type: BEARER, assertion: await jag() })), '401 invalid_client')
  assert.is(
    await refusal(agent.post('token', { grant_type: BEARER, assertion: await jag(), client_id: 'agent' })),
    '401 invalid_client',
  )
})

test('a plain assertion is refused if only ID-JAGs are accepted', async () => {
  assert.is(await refusal(redeem(await jag({ client_id: undefined }, idp, {}))), '400 invalid_grant')
})

test('a public client with a metadata document redeems an assertion only if any client may', async () => {
  const app = new TestClient(server.issuer, document)
  const claims = { sub: 'anna', groups: ['eng'], client_id: document }
  const tokens = await readTokens(await app.token({ grant_type: BEARER, assertion: await jag(claims) }))
  assert.is(decodeJwt(tokens.access_token)['client_id'], document)
  // The assertion must contain its id, and no other client's.
  assert.is(await refusal(app.token({ grant_type: BEARER, assertion: await jag() })), '400 invalid_grant')
  assert.is(await refusal(agent.token({ grant_type: BEARER, assertion: await jag(claims) })), '400 invalid_grant')
  assert.is(await refusal(app.token({ grant_type: BEARER, assertion: await jag(claims, other) })), '401 invalid_client')
  // No identity provider knows a client that registered itself.
  const open = await TestClient.register(server.issuer)
  const own = await jag({ ...claims, client_id: open.id })
  assert.is(await refusal(open.token({ grant_type: BEARER, assertion: own })), '401 invalid_client')
})

test('the tenant is a part of a person’s identity, and an unlisted tenant is refused', async () => {
  const sub = async (claims: object) => {
    const found = await outcome({ sub: 'anna', ...claims }, {}, shared)
    return typeof found === 'string' ? found : found.sub
  }
  assert.is(await sub({ tid: 't1' }), `${shared.issuer}#t1#anna`)
  assert.is(await sub({ tid: 't2' }), `${shared.issuer}#t2#anna`)
  assert.is(await sub({ tid: 't1', tenant: 't1', aud_tenant: 'ours' }), `${shared.issuer}#t1#anna`)
  for (const claims of [
    {},
    { tid: 't3' },
    { tid: ['t1'] },
    { tid: 't1', tenant: 't2' },
    { tid: 't1', aud_tenant: 'theirs' },
  ])
    assert.is(await sub(claims), '400 invalid_grant', JSON.stringify(claims))
  // The same name at two issuers is two users.
  assert.is(((await outcome({ sub: 'anna' }, {}, other)) as { sub: string }).sub, `${other.issuer}#anna`)
})

test('a plain assertion can be allowed to be reused; an ID-JAG of the same issuer works once', async () => {
  const pod = {
    sub: 'system:serviceaccount:a:job',
    client_id: undefined,
    iat: nowInSeconds() - 80_000,
    exp: nowInSeconds() + 3000,
  }
  const plain = await jag(pod, workloads, {})
  const send = () => agent.post('token', { grant_type: BEARER, assertion: plain })
  for (let times = 0; times < 10; times++) await readTokens(await send())
  assert.is(
    await refusal(
      agent.post('token', {
        grant_type: BEARER,
        assertion: await jag({ ...pod, sub: 'system:serviceaccount:b:job' }, workloads, {}),
      }),
    ),
    '400 invalid_grant',
  )
  const once = await jag({ sub: pod.sub }, workloads)
  await readTokens(await redeem(once))
  assert.is(await refusal(redeem(once)), '400 invalid_grant')
  const old = await jag({ ...pod, iat: nowInSeconds() - 86_500 }, workloads, {})
  assert.is(await refusal(agent.post('token', { grant_type: BEARER, assertion: old })), '400 invalid_grant')
})

test('a new key works at its first use, and a thousand unknown ones cause at most two fetches', async () => {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  assert.ok(await exportJWK(publicKey))
  await other.rotate({ keepOld: true })
  const before = other.requests.get('/keys') ?? 0
  assert.is(((await outcome({ sub: 'anna' }, {}, other)) as { sub: string }).sub, `${other.issuer}#anna`)
  const claims = decodeJwt(await jag({}, other))
  // Without a stopped clock, a busy machine may take so long that the keys may be fetched once more.
  using _ = stoppedClock()
  for (let index = 0; index < 1000; index++) {
    const header = {
      alg: 'ES256',
      kid: createHash('sha256').update(String(index)).digest('hex'),
      typ: 'oauth-id-jag+jwt',
    }
    const forged = await new SignJWT(claims).setProtectedHeader(header).sign(privateKey)
    assert.is(await refusal(redeem(secret(forged))), '400 invalid_grant')
  }
  const fetched = (other.requests.get('/keys') ?? 0) - before
  assert.ok(fetched <= 2, String(fetched))
})

test('a value of any kind in any claim is refused or ignored, and breaks nothing', async () => {
  const values = [
    null,
    true,
    0,
    -1,
    1.5,
    1e300,
    '',
    'x',
    '#',
    'x'.repeat(5000),
    [],
    [null],
    [[]],
    ['a', 7],
    {},
    { a: { b: [] } },
  ]
  const claims = [
    ...[
      'iss',
      'sub',
      'aud',
      'jti',
      'iat',
      'exp',
      'nbf',
      'client_id',
      'scope',
      'resource',
      'tenant',
      'aud_tenant',
      'tid',
    ],
    ...['act', 'cnf', 'sub_id', 'authorization_details', 'groups', 'name', 'email', 'email_verified', 'realm_access'],
    ...['__proto__', 'constructor', 'toString'],
  ]
  for (const from of [idp, other, shared])
    for (const claim of claims)
      for (const value of values) {
        const odd = JSON.parse(JSON.stringify({ tid: 't1', groups: ['eng'] }))
        Object.defineProperty(odd, claim, { value, enumerable: true })
        const found = await outcome(odd, {}, from)
        const isAnswered = typeof found !== 'string' || found === '400 invalid_grant'
        assert.ok(isAnswered, `${claim} ${JSON.stringify(value)?.slice(0, 40)}: ${found}`)
        // If a token is issued, its groups are a list or missing.
        if (typeof found !== 'string') assert.ok(found.groups === undefined || Array.isArray(found.groups))
      }
})

test('the metadata names the profile and no issuer', async () => {
  const text = await (await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)).text()
  assert.equal(JSON.parse(text).authorization_grant_profiles_supported, ['urn:ietf:params:oauth:grant-profile:id-jag'])
  for (const { issuer } of [idp, other, shared, workloads]) assert.not.match(text, new RegExp(issuer))
})

test('an issuer or rule that is taken out ends its tokens at both replicas, and nothing else does', async () => {
  const eng = { sub: 'anna', groups: ['eng'], scope: 'tools:call' }
  const engineer = (await readTokens(await redeem(await jag(eng)))).access_token
  const boss = { sub: 'boss', email: 'boss@corp.example', name: 'The Boss', scope: 'tools:call' }
  const leader = (await readTokens(await redeem(await jag(boss)))).access_token
  const callsWith = (token: string) =>
    Promise.all(
      [server.gateway, replica].map(async ({ url }) => {
        const headers = { authorization: `Bearer ${token}` }
        return (await postModern(url, 'tools/call', { name: 'b_t' }, headers)).status
      }),
    )
  const use = async (all: ReturnType<typeof policies>) => {
    for (const gateway of [server.gateway, replica]) await configure(gateway, buildGrants(all))
  }
  const corp = (change: (rules: readonly Rule[]) => Rule[]) =>
    policies()?.map((policy) =>
      policy.issuerRef === 'corp' ? { ...policy, subjectRules: change(policy.subjectRules ?? []) } : policy,
    ) ?? []
  assert.equal(
    [await callsWith(engineer), await callsWith(leader)],
    [
      [200, 200],
      [200, 200],
    ],
  )
  // One more rule, and one that changed.
  const added = { name: 'added', subject: 'nobody', allowedResources: [OTHER] }
  await use(
    corp((rules) => [added, ...rules.map((rule) => (rule.name === 'more' ? { ...rule, scopes: ['x'] } : rule))]),
  )
  assert.equal(
    [await callsWith(engineer), await callsWith(leader)],
    [
      [200, 200],
      [200, 200],
    ],
  )
  await use(corp((rules) => rules.filter(({ name }) => name !== 'eng')))
  assert.equal(
    [await callsWith(engineer), await callsWith(leader)],
    [
      [401, 401],
      [200, 200],
    ],
  )
  assert.is(await outcome(eng), '400 invalid_grant')
  const introspected = await agent.post('introspect', {
    client_id: 'agent',
    client_secret: agentSecret,
    token: engineer,
  })
  assert.equal(await introspected.json(), { active: false })
  await use(policies()?.filter(({ issuerRef }) => issuerRef !== 'corp') ?? [])
  assert.equal(
    [await callsWith(engineer), await callsWith(leader)],
    [
      [401, 401],
      [401, 401],
    ],
  )
  assert.is(await outcome(boss), '400 invalid_grant')
  await use(policies())
  assert.equal(
    [await callsWith(engineer), await callsWith(leader)],
    [
      [200, 200],
      [200, 200],
    ],
  )
})

test.run()
