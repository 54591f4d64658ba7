/** Tests grants in the form of `inboundGrants`, at a server where nobody logs in. */

import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { type Authority, createAuthority } from '../../../support/network/certificates.ts'
import {
  type IdentityProvider,
  type MintOptions,
  startIdentityProvider,
} from '../../../support/network/identity-provider.ts'
import { startTcpFront, type TcpFront } from '../../../support/network/tcp-front.ts'

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const OTHER = 'https://other.example/mcp'
const LISTED = 'https://listed.example'
const agentSecret = secret(randomBytes(24).toString('base64url'))

let authority: Authority
let front: TcpFront
let idp: IdentityProvider
let quiet: IdentityProvider
let shared: IdentityProvider
let server: AuthServerUnderTest
let agent: TestClient

test.before(async () => {
  authority = await createAuthority()
  idp = await startIdentityProvider()
  quiet = await startIdentityProvider()
  shared = await startIdentityProvider()
  front = await startTcpFront(0, { key: authority.key, cert: authority.cert })
  front.choose(idp.port)
  const delegate = { clientId: 'agent', clientSecretFile: 'agent', audiences: [OTHER], scopes: ['tools:call'] }
  const authServer: Partial<AuthServerConfig> = {
    insecureAllowConfidentialOverLoopbackHTTP: true,
    allowedAudiences: [OTHER],
    upstreamProviders: [],
    trustedIssuers: [
      { issuerUrl: idp.issuer, name: 'corp', jwksUrl: `https://localhost:${front.port}/keys`, caBundleFile: 'ca.pem' },
      { issuerUrl: quiet.issuer, name: 'quiet' },
      { issuerUrl: shared.issuer, name: 'shared' },
    ],
    inboundGrants: {
      tokenExchange: {
        delegateClients: [delegate],
        issuerPolicies: ['corp', 'shared'].map((issuerRef) => ({
          issuerRef,
          expectedAudience: LISTED,
          allowedDelegateClients: ['agent'],
        })),
      },
      jwtBearer: {
        issuerPolicies: [
          {
            issuerRef: 'corp',
            maxAssertionAge: '2m',
            acceptedAudiences: [LISTED],
            subjectBindings: [{ subject: 'ci', allowedResources: [OTHER] }],
          },
          {
            issuerRef: 'shared',
            maxAssertionAge: '2m',
            tenants: { claim: 'tid', allowed: ['t1'] },
            subjectRules: [{ name: 'all', matcher: 'true', allowedResources: [OTHER] }],
          },
        ],
      },
    },
  }
  server = await startAuthServer({
    authServer,
    prepare: async (folder) => {
      await writeFile(join(folder, 'agent'), agentSecret)
      await writeFile(join(folder, 'ca.pem'), authority.ca)
    },
  })
  agent = new TestClient(server.issuer, 'agent')
  agent.secret = agentSecret
})
test.after(async () => {
  await Promise.all([server.close(), front.close(), authority.remove(), idp.close(), quiet.close(), shared.close()])
})

const nowInSeconds = () => Math.floor(Date.now() / 1000)
const mint = (claims: object = {}, options: MintOptions = {}) =>
  idp.mint({ sub: 'ci', aud: server.issuer, exp: nowInSeconds() + 100, ...claims }, options)
const redeem = (assertion: string) => agent.post('token', { grant_type: BEARER, assertion })
const exchange = (token: string) =>
  agent.token({
    grant_type: EXCHANGE,
    subject_token: token,
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    scope: 'tools:call',
  })

test('a policy of the grant lets an assertion be redeemed, by keys behind a private authority', async () => {
  const { access_token } = await readTokens(await redeem(await mint()))
  assert.is(decodeJwt(access_token).sub, `${idp.issuer}#ci`)
  assert.is((await redeem(await mint({ aud: LISTED }))).status, 200)
  assert.is(await refusal(redeem(await quiet.mint({ sub: 'ci', aud: server.issuer }))), '400 invalid_grant')
  assert.is(await refusal(redeem(await mint({ sub: 'cj' }))), '400 invalid_grant')
})

test('maxAssertionAge bounds both the age and the life of an assertion, and the token endpoint is no audience', async () => {
  // The widely used operator bounds `exp - iat`; a grant that names its issuer here bounds only the age.
  const iat = nowInSeconds()
  assert.is(await refusal(redeem(await mint({ iat, exp: iat + 121 }))), '400 invalid_grant')
  assert.is((await redeem(await mint({ iat, exp: iat + 120 }))).status, 200)
  assert.is(await refusal(redeem(await mint({ iat: iat - 151, exp: iat - 31 }))), '400 invalid_grant')
  assert.is(await refusal(redeem(await mint({ aud: `${server.issuer}/oauth/token` }))), '400 invalid_grant')
})

test('a policy of the grant lets a client exchange a token, and an issuer without one has no part in it', async () => {
  const { access_token } = await readTokens(await exchange(await mint({ aud: LISTED })))
  assert.equal(decodeJwt(access_token)['act'], { iss: server.issuer, sub: 'agent' })
  assert.is(await refusal(exchange(await mint())), '400 invalid_request')
  assert.is(await refusal(exchange(await quiet.mint({ aud: server.issuer }))), '400 invalid_request')
  assert.is(await refusal(exchange(await quiet.mint({ aud: LISTED }))), '400 invalid_request')
})

test('the tenant is a part of a person’s identity in token exchange too', async () => {
  const mintFor = (claims: object) => shared.mint({ sub: 'anna', aud: LISTED, ...claims })
  const { access_token } = await readTokens(await exchange(await mintFor({ tid: 't1' })))
  assert.is(decodeJwt(access_token).sub, `${shared.issuer}#t1#anna`)
  for (const claims of [{}, { tid: 't2' }, { tid: ['t1'] }, { sub: 't1#anna' }])
    assert.is(await refusal(exchange(await mintFor(claims))), '400 invalid_request', JSON.stringify(claims))
})

test('without login providers the metadata offers no login, and the pages say so', async () => {
  const metadata = (await (await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)).json()) as Record<
    string,
    unknown
  >
  assert.equal(metadata['grant_types_supported'], [EXCHANGE, BEARER])
  assert.equal(metadata['response_types_supported'], [])
  for (const name of ['response_modes_supported', 'code_challenge_methods_supported'])
    assert.not(name in metadata, name)
  assert.not.match(JSON.stringify(metadata), new RegExp(idp.issuer))
  const query = new URLSearchParams({ response_type: 'code', client_id: 'agent', redirect_uri: 'http://127.0.0.1/c' })
  for (const path of [`authorize?${query}`, `login?${query}`, 'authorize', 'account', 'sessions']) {
    const page = await fetch(`${server.issuer}/oauth/${path}`, { redirect: 'manual' })
    assert.is(page.status, 400, path)
    assert.match(await page.text(), /Nobody logs in here/)
    assert.is(page.headers.get('cache-control'), 'no-store')
    assert.equal(page.headers.getSetCookie(), [])
  }
  for (const path of ['callback?code=a&state=b', 'link?token=a'])
    assert.is((await fetch(`${server.issuer}/oauth/${path}`, { redirect: 'manual' })).status, 400, path)
  const code = { grant_type: 'authorization_code', code: 'a', redirect_uri: 'http://127.0.0.1/c' }
  for (const fields of [code, { grant_type: 'refresh_token', refresh_token: 'a' }] as Record<string, string>[])
    assert.match(await refusal(agent.token(fields)), /^400 unsupported_grant_type/)
  const posted = await fetch(`${server.issuer}/oauth/sessions`, {
    method: 'POST',
    body: new URLSearchParams({ a: 'b' }),
  })
  assert.is(posted.status, 400)
})

test.run()
