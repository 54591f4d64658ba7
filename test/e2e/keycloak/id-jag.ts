/**
 * Enterprise-managed authorization with Keycloak on both sides. As a backend's authorization server, Keycloak redeems
 * ID-JAGs for the gateway. It issues none, so that this file signs those for the gateway's authorization server, with a
 * key of the realm and for a user of it.
 */
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { calculateJwkThumbprint, decodeJwt, type JWTPayload, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../secrets/watch.ts'
import { CLIENT } from '../../support/gateway/exchanging-gateway.ts'
import { startLoginGateway } from '../../support/gateway/login-gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { REDIRECT, readTokens, refusal, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import type { Keycloak } from '../../support/identity/keycloak.ts'
import { startVerifyingServer } from '../../support/identity/verifying-server.ts'
import { type IdentityProvider, startIdentityProvider } from '../../support/network/identity-provider.ts'
import { readSubject, respond, startTokenEndpoint } from '../../support/network/token-endpoint.ts'
import { answer, OK_RESULT, startRawServer } from '../../support/servers/raw-server.ts'
import { shareKeycloak, signInAt } from './shared.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const TYPE = 'urn:ietf:params:oauth:token-type:'
/** The realm's name for the issuer of assertions. */
const ASSERTING = 'asserting'

// Keycloak accepts any port of a loopback address.
const shared = shareKeycloak(['http://127.0.0.1/oauth/callback'])
let keycloak: Keycloak
let idp: IdentityProvider

test.before(async () => {
  ;[keycloak, idp] = await Promise.all([shared.start(), startIdentityProvider()])
})
test.after(async () => {
  await Promise.all([idp?.close(), shared.close()])
})

const nowInSeconds = () => Math.floor(Date.now() / 1000)
const fetchIdToken = async () => {
  const { name: username, password } = keycloak.user
  const answered = await keycloak.post('token', { grant_type: 'password', username, password, scope: 'openid' })
  return (await readTokens(answered)) as { access_token: string; id_token: string; refresh_token: string }
}

test('Keycloak redeems assertions of an identity provider: backends of both eras get tokens for the caller', async () => {
  const { issuer, backend } = keycloak
  const endpoint = `${issuer}/protocol/openid-connect`
  const client = { id: 'portico', secret: secret(randomBytes(18).toString('base64url')) }
  await keycloak.administer('/clients', {
    ...{ clientId: client.id, secret: client.secret, standardFlowEnabled: false },
    // Keycloak grants the client's own scopes, whatever the assertion says.
    defaultClientScopes: ['basic', backend.scope],
    attributes: {
      'oauth2.jwt.authorization.grant.enabled': 'true',
      'oauth2.jwt.authorization.grant.idp': ASSERTING,
    },
  })
  await keycloak.administer('/identity-provider/instances', {
    alias: ASSERTING,
    providerId: 'jwt-authorization-grant',
    enabled: true,
    config: {
      ...{ issuer: idp.issuer, jwksUrl: idp.jwksUrl, useJwksUrl: 'true' },
      ...{ jwtAuthorizationGrantEnabled: 'true', jwtAuthorizationGrantAssertionSignatureAlg: 'RS256' },
    },
  })
  const alice = decodeJwt(await keycloak.token({ user: 'alice', scope: keycloak.scope })).sub ?? ''
  const known = { userId: 'anna', userName: 'anna', identityProvider: ASSERTING }
  await keycloak.administer(`/users/${alice}/federated-identity/${ASSERTING}`, known)

  const exchange = await startTokenEndpoint()
  const created: string[] = []
  exchange.answer = async ({ form }, response) => {
    const claims = { sub: readSubject(form['subject_token']), aud: form['audience'], resource: form['resource'] }
    const iat = nowInSeconds()
    const token = await idp.mint(
      { ...claims, client_id: client.id, iat, exp: iat + 300, scope: form['scope'] },
      { header: { typ: 'oauth-id-jag+jwt' } },
    )
    created.push(token)
    respond(response, 200, { access_token: token, issued_token_type: `${TYPE}id-jag`, token_type: 'N_A' })
  }
  const backends = await Promise.all(
    (['modern', 'legacy'] as const).map((era) =>
      startVerifyingServer({ era, issuer, jwksUrl: `${endpoint}/certs`, audience: backend.audience }),
    ),
  )
  const xaa = {
    idpTokenUrl: exchange.url,
    idpClientId: CLIENT.id,
    idpClientSecretFile: 'idp-secret',
    targetTokenUrl: `${endpoint}/token`,
    targetClientId: client.id,
    targetClientSecretFile: 'target-secret',
    targetAudience: issuer,
    targetResource: 'https://orders.example/mcp',
    scopes: [backend.scope],
  }
  const gateway = await startLoginGateway(
    { backends: backends.map(({ url }, index) => ({ name: `b${index}`, url, credential: { type: 'xaa', xaa } })) },
    {
      async prepare(directory) {
        await writeFile(join(directory, 'idp-secret'), CLIENT.secret)
        await writeFile(join(directory, 'target-secret'), client.secret)
      },
    },
  )
  try {
    const call = async (user: string, name: string) =>
      (await postModern(gateway.url, 'tools/call', { name, arguments: {} }, await gateway.bearer(user))).json
    for (const [index, { admitted }] of backends.entries()) {
      const json = await call('anna', `b${index}_t`)
      assert.is(json.result?.content[0].text, alice, JSON.stringify(json))
      assert.equal([admitted.at(-1)?.['azp'], admitted.at(-1)?.iss], [client.id, issuer])
      assert.match(String(admitted.at(-1)?.['scope']), backend.scope)
      // An unknown user gets no token, and the backend is not called.
      const before = admitted.length
      assert.ok((await call('zoe', `b${index}_t`)).error)
      assert.is(admitted.length, before)
    }
    // Keycloak does not redeem an assertion twice.
    const again = {
      grant_type: BEARER,
      assertion: created[0] ?? '',
      client_id: client.id,
      client_secret: client.secret,
    }
    const body = new URLSearchParams(again)
    assert.is(await refusal(fetch(xaa.targetTokenUrl, { method: 'POST', body })), '400 invalid_grant')
  } finally {
    await gateway.close()
    await Promise.all([exchange.close(), ...backends.map((server) => server.close())])
  }
})

/** Adds a signing key to the realm with a lower priority than its own. Returns a function that signs with it. */
async function signer(): Promise<(claims: JWTPayload) => Promise<string>> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = secret(privateKey.export({ type: 'pkcs8', format: 'pem' }) as string)
  await keycloak.administer('/components', {
    name: 'assertions',
    providerId: 'rsa',
    providerType: 'org.keycloak.keys.KeyProvider',
    config: { priority: ['1'], privateKey: [pem], algorithm: ['RS256'] },
  })
  const kid = await computeKeyId(publicKey)
  return async (claims) => {
    const iat = nowInSeconds()
    const own = { iss: keycloak.issuer, iat, exp: iat + 300, jti: randomBytes(16).toString('hex') }
    const header = { alg: 'RS256', kid, typ: 'oauth-id-jag+jwt' }
    return secret(await new SignJWT({ ...own, ...claims }).setProtectedHeader(header).sign(privateKey))
  }
}

/** Returns the id under which the realm publishes a key. */
async function computeKeyId(key: KeyObject): Promise<string> {
  const own = await calculateJwkThumbprint(key.export({ format: 'jwk' }) as never)
  const { keys } = (await (await fetch(`${keycloak.issuer}/protocol/openid-connect/certs`)).json()) as {
    keys: { kid: string; n?: string }[]
  }
  const { n } = key.export({ format: 'jwk' })
  const found = keys.find((one) => one.n === n)
  assert.ok(found, `the realm publishes ${own}`)
  return found.kid
}

test('Keycloak issues no ID-JAG; one that is signed with a key of its realm is redeemed and names the person who logs in there', async () => {
  const tokens = await fetchIdToken()
  for (const kind of ['access_token', 'id_token', 'refresh_token'] as const) {
    const refused = await keycloak.post('token', {
      ...{ grant_type: EXCHANGE, subject_token: tokens[kind], subject_token_type: TYPE + kind },
      ...{ requested_token_type: `${TYPE}id-jag`, audience: 'https://as.example' },
    })
    assert.is(await refusal(refused), '400 invalid_request', `a Keycloak that makes ID-JAGs takes the place of ours`)
  }

  const sign = await signer()
  const agentSecret = secret(randomBytes(24).toString('base64url'))
  const { issuer, client } = keycloak
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const server = await startAuthServer({
    gateway: {
      backends: [{ name: 'b', url: raw.url }],
      authz: { policies: ['permit(principal in Group::"eng", action, resource);'] },
    },
    change({ authServer, resourceUrl = '' }) {
      Object.assign(authServer as object, {
        insecureAllowConfidentialOverLoopbackHTTP: true,
        upstreamProviders: [
          {
            name: 'corp',
            type: 'oidc',
            oidcConfig: {
              ...{ issuerUrl: issuer, clientId: client.id, clientSecretFile: 'keycloak' },
              ...{ scopes: ['openid', 'profile', 'email'] },
            },
          },
        ],
        trustedIssuers: [{ name: 'corp', issuerUrl: issuer }],
        inboundGrants: {
          tokenExchange: {
            delegateClients: [
              { clientId: 'agent', clientSecretFile: 'agent', audiences: [resourceUrl], scopes: ['tools:call'] },
            ],
          },
          jwtBearer: {
            issuerPolicies: [
              {
                ...{ issuerRef: 'corp', maxAssertionAge: '5m', acceptedAssertionTypes: ['id_jag'], linkTo: 'corp' },
                claims: { name: 'name', email: 'email', groups: 'groups' },
                subjectRules: [
                  { name: 'eng', matcher: '"eng" in claims.groups', allowedResources: [resourceUrl] },
                  { name: 'others', matcher: 'claims.email_verified', allowedResources: [resourceUrl] },
                ],
              },
            ],
          },
        },
      })
    },
    async prepare(directory) {
      await writeFile(join(directory, 'keycloak'), client.secret)
      await writeFile(join(directory, 'agent'), agentSecret)
    },
  })
  try {
    const agent = new TestClient(server.issuer, 'agent')
    agent.secret = agentSecret
    const person = decodeJwt(tokens.id_token)
    const { sub, name, email, email_verified } = person
    const claims = { sub, name, email, email_verified, groups: ['eng'], scope: 'tools:call' } as JWTPayload
    const meant = { aud: server.issuer, client_id: 'agent', resource: server.resource }
    const redeem = async (more: object) =>
      agent.token({ grant_type: BEARER, assertion: await sign({ ...claims, ...meant, ...more }) })
    const token = (await readTokens(await redeem({}))).access_token
    const redeemed = decodeJwt(token)
    assert.equal([redeemed['name'], redeemed['email'], redeemed['groups']], [name, email, ['eng']])

    const browser = await TestClient.register(server.issuer)
    const back = await signInAt(keycloak, browser.agent, browser.authorizeUrl())
    const end = await browser.agent.follow(back, (url) => url.startsWith(REDIRECT))
    const code = secret(new URL(end.url).searchParams.get('code') ?? '')
    const login = (await readTokens(await browser.exchange(code))).access_token
    assert.is(redeemed.sub, decodeJwt(login).sub, 'one person')

    const call = async (access: string) => {
      const headers = { authorization: `Bearer ${access}` }
      return (await postModern(server.gateway.url, 'tools/call', { name: 'b_t' }, headers)).status
    }
    assert.is(await call(token), 200)
    assert.is(await call((await readTokens(await redeem({ groups: ['sales'] }))).access_token), 403)
    for (const wrong of [
      { aud: issuer },
      { client_id: 'desk' },
      { jti: undefined },
      { email_verified: false, groups: [] },
    ])
      assert.is(await refusal(redeem(wrong)), '400 invalid_grant', JSON.stringify(wrong))
    // Neither its ID token nor its access token is an assertion for a client.
    for (const other of [tokens.id_token, tokens.access_token])
      assert.is(await refusal(agent.token({ grant_type: BEARER, assertion: other })), '400 invalid_grant')
    // Keycloak's own signing keys are rotated; the key of the assertions stays.
    await keycloak.rotateKeys()
    await readTokens(await redeem({}))
  } finally {
    await server.close()
    await raw.close()
  }
})

test.run()
