/** Keycloak as the provider where people log in, and as the issuer of callers' tokens, at a gateway and a registry. */
import './keycloak/id-jag.ts'
import './keycloak/login.ts'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { Introspection } from '../../dataplane/identity/introspection.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import { secret } from '../secrets/watch.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startGateway } from '../support/gateway/gateway.ts'
import { postModern } from '../support/gateway/post.ts'
import { readTokens, refusal, startAuthServer, TestClient } from '../support/identity/auth-server.ts'
import type { Keycloak } from '../support/identity/keycloak.ts'
import { type ProtectedServer, protectedGateway, protectedRegistry } from '../support/identity/protected-servers.ts'
import { startVerifyingServer } from '../support/identity/verifying-server.ts'
import { recordLog } from '../support/kept-log.ts'
import { AUDIENCE, shareKeycloak } from './keycloak/shared.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const OTHER = 'https://other.example/mcp'

const shared = shareKeycloak()
let keycloak: Keycloak
let servers: readonly ProtectedServer[]

test.before(async () => {
  keycloak = await shared.start()
  const { issuer, audience, client, scope } = keycloak
  servers = [
    await protectedGateway({ issuer, audience, client }, { scopes: ['openid', scope] }),
    await protectedRegistry({ issuer, audience, client }),
  ]
})
test.after(async () => {
  await Promise.all((servers ?? []).map((server) => server.close()))
  await shared.close()
})

const askAll = (token: string) => Promise.all(servers.map((server) => server.ask(`Bearer ${token}`)))
const statuses = async (token: string) => (await askAll(token)).map(({ status }) => status)

test('JWTs of a user and of a client are accepted', async () => {
  for (const user of ['alice', undefined]) {
    const token = await keycloak.token({ scope: keycloak.scope, ...(user === undefined ? {} : { user }) })
    assert.equal(await statuses(token), [200, 200], `${user} ${JSON.stringify(decodeJwt(token).aud)}`)
  }
})

test('a token without the scope has another audience and is refused', async () => {
  const token = await keycloak.token({ user: 'alice' })
  assert.not.equal([decodeJwt(token).aud].flat().includes(AUDIENCE), true)
  assert.equal(await statuses(token), [401, 401])
  for (const { challenge } of await askAll(token)) assert.match(challenge, 'not meant for this server')
})

test('a modified token is refused', async () => {
  const token = await keycloak.token({ scope: keycloak.scope })
  const [header, payload, signature = ''] = token.split('.')
  assert.equal(await statuses(`${header}.${payload}.${signature.slice(0, -6)}AAAAAA`), [401, 401])
})

test('after a rotation of the keys older and newer tokens are accepted', async () => {
  const before = await keycloak.token({ scope: keycloak.scope })
  await keycloak.rotateKeys()
  const after = await keycloak.token({ scope: keycloak.scope })
  assert.is.not(decodeProtectedHeader(before).kid, decodeProtectedHeader(after).kid)
  assert.equal(await statuses(after), [200, 200])
  assert.equal(await statuses(before), [200, 200])
})

test('introspection gives the caller, and reports a wrong client or token', async () => {
  using folder = temporaryFolder({})
  const { issuer, client } = keycloak
  const startIntrospecting = (secret: string, audience: string) => {
    const clientSecretFile = join(folder.path, `secret-${secret.length}`)
    writeFileSync(clientSecretFile, secret)
    return new Introspection({
      issuer: { issuer },
      issuerName: () => issuer,
      audience,
      client: { clientId: client.id, clientSecretFile },
      log: recordLog().log,
    })
  }
  const introspections = [
    startIntrospecting(client.secret, AUDIENCE),
    startIntrospecting(client.secret, 'other'),
    startIntrospecting('wrong', AUDIENCE),
  ]
  const [right, elsewhere, refused] = introspections as [Introspection, Introspection, Introspection]
  const token = await keycloak.token({ user: 'alice', scope: keycloak.scope })
  const active = await right.introspect(token)
  assert.is(active?.subject, decodeJwt(token).sub)
  assert.match(String(active?.claims['scope']), keycloak.scope)
  assert.is(await elsewhere.introspect(token), undefined)
  assert.is(await right.introspect('nobody-knows-this-token'), undefined)
  const failure = await refused.introspect(token).catch((error: unknown) => error)
  assert.instance(failure, PublicError)
  await Promise.all(introspections.map((introspection) => introspection.close()))
})

test('Keycloak exchanges a token for one of another scope (RFC 8693)', async () => {
  const subject = await keycloak.token({ user: 'alice', scope: keycloak.scope })
  const response = await keycloak.post('token', {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: subject,
    subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    scope: keycloak.scope,
  })
  const answer = (await response.json()) as { access_token: string; issued_token_type: string }
  assert.is(response.status, 200, JSON.stringify(answer))
  assert.is(answer.issued_token_type, 'urn:ietf:params:oauth:token-type:access_token')
  assert.is(decodeJwt(answer.access_token).sub, decodeJwt(subject).sub)
})

test('the gateway exchanges tokens at Keycloak: backends of both eras get tokens for themselves, in the name of the caller', async () => {
  const { issuer, client, backend, scope } = keycloak
  const endpoint = `${issuer}/protocol/openid-connect`
  const backends = await Promise.all(
    (['modern', 'legacy'] as const).map((era) =>
      startVerifyingServer({ era, issuer, jwksUrl: `${endpoint}/certs`, audience: backend.audience }),
    ),
  )
  const tokenExchange = {
    tokenUrl: `${endpoint}/token`,
    clientId: client.id,
    clientSecretFile: 'client-secret',
    audience: backend.audience,
    scopes: [backend.scope],
  }
  const gateway = await startGateway(
    {
      incomingAuth: { type: 'oidc', oidc: { issuer, audience: AUDIENCE } },
      backends: backends.map(({ url }, index) => ({
        name: `b${index}`,
        url,
        credential: { type: 'tokenExchange', tokenExchange },
      })),
    },
    (directory) => writeFile(join(directory, 'client-secret'), client.secret),
  )
  try {
    for (const user of ['alice', undefined]) {
      const token = await keycloak.token({ scope, ...(user === undefined ? {} : { user }) })
      const { sub } = decodeJwt(token)
      for (const [index, { admitted }] of backends.entries()) {
        const call = { name: `b${index}_t`, arguments: {} }
        const { json } = await postModern(gateway.url, 'tools/call', call, { authorization: `Bearer ${token}` })
        assert.is(json.result?.content[0].text, sub, JSON.stringify(json))
        assert.match(String(admitted.at(-1)?.['scope']), backend.scope)
        assert.is(admitted.at(-1)?.['azp'], client.id)
        assert.not.ok([admitted.at(-1)?.aud].flat().includes(AUDIENCE), 'it is for the backend alone')
      }
    }
    for (const { seen } of backends)
      for (const { headers } of seen) {
        const [, sent = ''] = (headers.authorization ?? '').split(' ')
        if (sent !== '') assert.equal([decodeJwt(sent).aud].flat(), [backend.audience])
      }
  } finally {
    await gateway.close()
    await Promise.all(backends.map((server) => server.close()))
  }
})

test('our authorization server accepts Keycloak’s tokens as assertions and exchanges them', async () => {
  const { issuer, scope } = keycloak
  const own = secret(randomBytes(24).toString('base64url'))
  const matcher = 'claims.azp == "agent" && claims.preferred_username == "alice"'
  const server = await startAuthServer({
    authServer: {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      allowedAudiences: [OTHER],
      trustedIssuers: [{ name: 'corp', issuerUrl: issuer }],
      inboundGrants: {
        tokenExchange: {
          delegateClients: [{ clientId: 'desk', clientSecretFile: 'desk', audiences: [OTHER], scopes: ['tools:call'] }],
          issuerPolicies: [{ issuerRef: 'corp', expectedAudience: AUDIENCE, allowedDelegateClients: ['desk'] }],
        },
        jwtBearer: {
          issuerPolicies: [
            {
              issuerRef: 'corp',
              maxAssertionAge: '5m',
              acceptedAudiences: [AUDIENCE],
              claims: { name: 'name', email: 'email' },
              subjectRules: [{ name: 'people', matcher, allowedResources: [OTHER], scopes: ['tools:call'] }],
            },
          ],
        },
      },
    },
    prepare: (folder) => writeFile(join(folder, 'desk'), own),
  })
  try {
    const desk = new TestClient(server.issuer, 'desk')
    const redeem = (assertion: string) => desk.post('token', { grant_type: JWT_BEARER, assertion })
    const assertion = await keycloak.token({ user: 'alice', scope })
    const { sub } = decodeJwt(assertion)
    const redeemed = decodeJwt((await readTokens(await redeem(assertion))).access_token)
    assert.equal(
      [redeemed.iss, redeemed.sub, redeemed.aud, redeemed['scope'], redeemed['name'], redeemed['email']],
      [server.issuer, `${issuer}#${sub}`, OTHER, 'tools:call', 'Alice A', 'alice@corp.example'],
    )
    assert.is(await refusal(redeem(assertion)), '400 invalid_grant', 'it is good once')
    assert.is(
      await refusal(redeem(await keycloak.token({ scope }))),
      '400 invalid_grant',
      'no rule fits the client itself',
    )
    assert.is(await refusal(redeem(await keycloak.token({ user: 'alice' }))), '400 invalid_grant', 'it is not for here')
    desk.secret = own
    const exchange = (token: string) =>
      desk.token({ grant_type: EXCHANGE, subject_token: token, subject_token_type: ACCESS_TOKEN })
    await keycloak.rotateKeys()
    const exchanged = decodeJwt(
      (await readTokens(await exchange(await keycloak.token({ user: 'alice', scope })))).access_token,
    )
    assert.equal(
      [exchanged.sub, exchanged.aud, exchanged['act']],
      [...[`${issuer}#${sub}`, OTHER], { iss: server.issuer, sub: 'desk' }],
    )
    assert.is(await refusal(exchange(await keycloak.token({ user: 'alice' }))), '400 invalid_request')
    // Tokens of an issuer that is removed from the configuration are refused.
    await server.gateway.configure(server.config({ trustedIssuers: [], inboundGrants: {} }))
    await eventually('the issuer is no longer trusted', async () => {
      const answered = await redeem(await keycloak.token({ user: 'alice', scope }))
      return (await refusal(answered)) === '400 invalid_grant'
    })
  } finally {
    await server.close()
  }
})

test('portico doctor finds nothing wrong', async () => {
  let out = ''
  const code = await dispatch(['doctor', 'idp', '--issuer', keycloak.issuer, '--audience', AUDIENCE], {
    out: (text) => void (out += text),
    err: (line) => void (out += line),
    env: {},
    stop: new AbortController().signal,
  })
  assert.is(code, 0, out)
  assert.match(out, 'Keycloak: add a client scope with an audience mapper')
})

test('no secret is in a log', () => {
  for (const server of servers) assert.not.ok(server.log().includes(keycloak.client.secret))
})

test.run()
