/** Tests the scopes that a gateway requires of tokens, and the answer to a token without them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ProtectedServer, protectedGateway } from '../../support/identity/protected-servers.ts'
import {
  type IdentityProvider,
  introspectionClient,
  startIdentityProvider,
} from '../../support/network/identity-provider.ts'

const AUDIENCE = 'https://mcp.example'
const SCOPES = ['openid', 'tools:read', 'tools:call', 'offline_access']

let idp: IdentityProvider
let gateway: ProtectedServer

const issuer = () => {
  const { id, secret } = introspectionClient
  return { issuer: idp.issuer, audience: AUDIENCE, client: { id, secret } }
}

test.before(async () => {
  idp = await startIdentityProvider()
  gateway = await protectedGateway(issuer(), { scopes: SCOPES })
})
test.after(async () => {
  await gateway.close()
  await idp.close()
})

const mint = (claims: object, header: object = {}) => idp.mint({ aud: AUDIENCE, ...claims }, { header: { ...header } })
const outcome = async (token: string, server = gateway) => (await server.ask(`Bearer ${token}`)).status

/** The challenge has all scopes at once and the metadata URL (RFC 6750 section 3.1; MCP authorization). */
const stepUp = () =>
  `Bearer realm="${idp.issuer}", resource_metadata="${gateway.metadataUrl}", scope="openid tools:read tools:call", ` +
  'error="insufficient_scope", error_description="The token lacks a scope that is needed here."'

const enough: readonly (readonly [string, object])[] = [
  ['scope as text', { scope: 'tools:call other tools:read' }],
  ['scope as a list', { scope: ['tools:read', 'tools:call'] }],
  ['scp as a list', { scp: ['tools:read', 'tools:call'] }],
  ['scp as text', { scp: 'tools:read tools:call' }],
  ['both, half in each', { scope: 'tools:read', scp: ['tools:call'] }],
]
for (const [what, claims] of enough)
  test(`the required scopes are found: ${what}`, async () => assert.is(await outcome(await mint(claims)), 200))

const tooFew: readonly (readonly [string, object, object?])[] = [
  ['one of two', { scope: 'tools:read' }],
  ['a scope that begins alike', { scope: 'tools:read tools:callers' }],
  ['other case', { scope: 'TOOLS:READ TOOLS:CALL' }],
  ['an empty text', { scope: '' }],
  ['an empty list', { scp: [] }],
  ['null', { scope: null }],
  ['an object', { scope: { 'tools:read': true, 'tools:call': true } }],
  ['a list in a list', { scp: [['tools:read', 'tools:call']] }],
  ['texts with blanks in a list', { scp: ['tools:read tools:call'] }],
  ['no claim, in an access token of RFC 9068', {}, { typ: 'at+jwt' }],
]
for (const [what, claims, header] of tooFew)
  test(`403 with insufficient_scope: ${what}`, async () => {
    const { status, challenge, text } = await gateway.ask(`Bearer ${await mint(claims, header)}`)
    assert.is(status, 403)
    assert.is(challenge, stepUp())
    assert.is(JSON.parse(text).error.code, 403)
  })

test('an issuer without scopes in its tokens locks nobody out; the log says so once', async () => {
  const own = await protectedGateway(issuer(), { scopes: SCOPES })
  for (let time = 0; time < 3; time++) assert.is(await outcome(await mint({}), own), 200)
  assert.is(own.log().split('neither scope nor scp').length, 2)
  await own.close()
})

test('scopes of OpenID Connect are in the challenge and not required', async () => {
  const own = await protectedGateway(issuer(), { scopes: ['openid', 'profile', 'email', 'offline_access'] })
  assert.is(await outcome(await mint({ scope: 'other' }), own), 200)
  await own.close()
})

test('a scope below the audience matches by its short name, as Entra ID states it', async () => {
  const id = '6f1a5ed2-7d0b-4a53-9d0e-5b6a6f0f0d11'
  const scopes = [`api://${id}/access_as_user`]
  const own = await protectedGateway({ ...issuer(), audience: id }, { scopes })
  assert.is(await outcome(await idp.mint({ aud: id, scp: 'access_as_user' }), own), 200)
  assert.is(await outcome(await idp.mint({ aud: id, scp: 'other' }), own), 403)
  await own.close()
})

test('a scope of another resource does not match by its short name', async () => {
  const own = await protectedGateway(issuer(), { scopes: ['api://other/tools'] })
  assert.is(await outcome(await mint({ scp: 'tools' }), own), 403)
  await own.close()
})

test('an opaque token without a scope is introspected once, however often it is sent', async () => {
  const token = idp.grant({ aud: AUDIENCE, scope: 'tools:read' })
  const before = idp.requests.get('/introspect') ?? 0
  for (let time = 0; time < 5; time++) assert.is(await outcome(token), 403)
  assert.is(idp.requests.get('/introspect'), before + 1)
  assert.is(await outcome(idp.grant({ aud: AUDIENCE, scope: 'tools:read tools:call' })), 200)
})

test('a token that is invalid in another way gets no step-up challenge', async () => {
  for (const claims of [{ aud: 'https://other.example' }, { exp: 1 }])
    assert.is(await outcome(await mint({ scope: 'tools:read', ...claims })), 401)
})

test.run()
