/** Tests access tokens bound to a client's key (DPoP, RFC 9449), from the token endpoint to the gateway. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { modern, post } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
  type Tokens,
} from '../../../support/identity/auth-server.ts'
import { type OddProof, Prover } from '../../../support/identity/prover.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const OTHER = 'https://other.example/mcp'
const HTTPS = 'https://app.example/callback'
const list = modern('tools/list')

const agentSecret = secret(randomBytes(24).toString('base64url'))
const hmac = secret(randomBytes(32).toString('base64url'))

for (const type of ['memory', 'redis'] as const) {
  const test = suite(`bound tokens in ${type}`)
  let redis: RedisServer | undefined
  let idp: IdentityProvider
  let server: AuthServerUnderTest
  let key: Prover
  let thief: Prover
  let client: TestClient
  const gateways: GatewayUnderTest[] = []

  test.before(async () => {
    redis = type === 'redis' ? await startRedis() : undefined
    idp = await startIdentityProvider()
    key = await Prover.create()
    thief = await Prover.create('EdDSA')
    const machine = { clientId: 'machine', clientSecretFile: 'agent', scopes: ['tools:call'] }
    const authServer: Partial<AuthServerConfig> = {
      allowConfidentialClientRegistration: true,
      insecureAllowConfidentialOverLoopbackHTTP: true,
      hmacSecretFiles: ['hmac'],
      storage: redis === undefined ? { type } : { type, redis: { addresses: [redis.address] } },
      delegateClients: [
        {
          clientId: 'agent',
          clientSecretFile: 'agent',
          audiences: [OTHER],
          scopes: ['tools:call'],
        },
      ],
      allowedAudiences: [OTHER],
      inboundGrants: {
        clientCredentials: { clients: [{ ...machine, allowedResources: [OTHER] }] },
      },
      dpop: { mode: 'optional' },
      trustedIssuers: [
        {
          issuerUrl: idp.issuer,
          jwtBearerGrant: { maxAssertionAge: '5m', subjectBindings: [{ subject: 'ci', allowedResources: [OTHER] }] },
        },
      ],
    }
    server = await startAuthServer({ authServer, prepare })
    client = await TestClient.register(server.issuer)
  })

  const prepare = async (folder: string) => {
    await writeFile(join(folder, 'agent'), agentSecret)
    await writeFile(join(folder, 'hmac'), hmac)
  }

  test.after(async () => {
    for (const gateway of gateways) await gateway.close()
    await server.close()
    await idp.close()
    await redis?.stop()
  })

  const tokenUrl = () => `${server.issuer}/oauth/token`
  const buildProof = (prover: Prover, odd?: OddProof) => prover.prove('POST', tokenUrl(), undefined, odd)

  /** Sends a token request as a client, with a proof. */
  async function ask(by: TestClient, fields: Record<string, string>, prover?: Prover, odd?: OddProof) {
    const own = { client_id: by.id, ...(by.secret === undefined ? {} : { client_secret: by.secret }) }
    return by.post('token', { ...own, ...fields }, prover ? { dpop: await buildProof(prover, odd) } : {})
  }
  const codeFields = ({ verifier }: TestClient, code: string | null) => ({
    grant_type: 'authorization_code',
    code: code ?? '',
    redirect_uri: REDIRECT,
    code_verifier: verifier,
  })
  const refreshFields = (token: string) => ({ grant_type: 'refresh_token', refresh_token: token })
  const readThumbprint = (token: string) => (decodeJwt(token)['cnf'] as { jkt: string } | undefined)?.jkt

  async function login(
    by: TestClient,
    prover?: Prover,
    redirect = REDIRECT,
  ): Promise<Tokens & { readonly token_type: string }> {
    const code = (await by.authorize({ resource: server.resource, redirect_uri: redirect })).get('code')
    return readTokens(await ask(by, { ...codeFields(by, code), redirect_uri: redirect }, prover)) as Promise<
      Tokens & { token_type: string }
    >
  }

  test('a code with a proof gives a token bound to its key, and a code without one a plain token', async () => {
    const bound = await login(client, key)
    assert.is(bound.token_type, 'DPoP')
    assert.equal(decodeJwt(bound.access_token)['cnf'], { jkt: key.jkt })
    const plain = await login(client)
    assert.is(plain.token_type, 'Bearer')
    assert.not('cnf' in decodeJwt(plain.access_token))
  })

  test('the gateway accepts its own bound tokens only with a proof', async () => {
    const { access_token: token } = await login(client, key)
    const incoming = server.config().incomingAuth as { type: 'oidc' }
    const url = server.resource
    assert.is((await post(url, list.body, { ...list.headers, authorization: `Bearer ${token}` })).status, 401)
    await server.gateway.configure(server.config({}, { incomingAuth: { ...incoming, dpop: { mode: 'required' } } }))
    await eventually('proofs to be read', async () => {
      const headers = { ...list.headers, ...(await key.headers('POST', url, token)) }
      return (await post(url, list.body, headers)).status === 200
    })
    const stolen = { ...list.headers, ...(await thief.headers('POST', url, token)) }
    assert.is((await post(url, list.body, stolen)).status, 401)
    await server.gateway.configure(server.config())
  })

  test('a public client’s refresh token is bound: another key, or none, is refused, also within ten seconds', async () => {
    const first = await login(client, key)
    for (const prover of [thief, undefined])
      assert.is(await refusal(ask(client, refreshFields(first.refresh_token), prover)), '400 invalid_grant')
    const second = await readTokens(await ask(client, refreshFields(first.refresh_token), key))
    assert.is(readThumbprint(second.access_token), key.jkt)
    const again = await readTokens(await ask(client, refreshFields(first.refresh_token), key))
    assert.is(again.refresh_token, second.refresh_token)
    for (const prover of [thief, undefined])
      assert.is(await refusal(ask(client, refreshFields(first.refresh_token), prover)), '400 invalid_grant')
    const third = await readTokens(await ask(client, refreshFields(second.refresh_token), key))
    assert.is(readThumbprint(third.access_token), key.jkt)
  })

  test('a refresh token of a confidential client is not bound: its token is bound to the key of each request', async () => {
    const confidential = await TestClient.register(server.issuer, {
      token_endpoint_auth_method: 'client_secret_post',
      redirect_uris: [HTTPS],
    })
    assert.ok(confidential.secret)
    const first = await login(confidential, key, HTTPS)
    const second = await readTokens(await ask(confidential, refreshFields(first.refresh_token), thief))
    assert.is(readThumbprint(second.access_token), thief.jkt)
    // The answer is for the key that asked. With another key the token counts as used, and the login stays valid.
    for (const prover of [key, undefined])
      assert.is(await refusal(ask(confidential, refreshFields(first.refresh_token), prover)), '400 invalid_grant')
    const again = await readTokens(await ask(confidential, refreshFields(first.refresh_token), thief))
    assert.is(again.refresh_token, second.refresh_token)
    const third = await readTokens(await ask(confidential, refreshFields(second.refresh_token)))
    assert.is(readThumbprint(third.access_token), undefined)
    const racing = await Promise.all(
      [key, thief, undefined].map((prover) => ask(confidential, refreshFields(third.refresh_token), prover)),
    )
    assert.equal(racing.map(({ status }) => status).toSorted(), [200, 400, 400])
    const [won] = await Promise.all(racing.filter(({ ok }) => ok).map(readTokens))
    assert.ok((await readTokens(await ask(confidential, refreshFields(won?.refresh_token ?? '')))).access_token)
  })

  test('a code with dpop_jkt can be redeemed only with that key, and another key does not use it up', async () => {
    const code = (await client.authorize({ dpop_jkt: key.jkt, resource: server.resource })).get('code')
    for (const prover of [thief, undefined])
      assert.is(await refusal(ask(client, codeFields(client, code), prover)), '400 invalid_grant')
    const tokens = await readTokens(await ask(client, codeFields(client, code), key))
    assert.is(readThumbprint(tokens.access_token), key.jkt)
    for (const odd of ['x', key.jkt.slice(1), `${key.jkt}=`, '{}'])
      assert.is(
        (await client.authorize({ dpop_jkt: odd, resource: server.resource })).get('error'),
        'invalid_request',
        odd,
      )
  })

  test('exchanged tokens and tokens of machines are bound to the key of their own request', async () => {
    const { access_token: subject } = await login(client)
    const agent = new TestClient(server.issuer, 'agent')
    agent.secret = agentSecret
    const fields = { grant_type: EXCHANGE, subject_token: subject, subject_token_type: ACCESS_TOKEN }
    const exchanged = (await readTokens(await ask(agent, fields, thief))) as Tokens & { token_type: string }
    assert.equal([exchanged.token_type, readThumbprint(exchanged.access_token)], ['DPoP', thief.jkt])
    assert.is(readThumbprint((await readTokens(await ask(agent, fields))).access_token), undefined)
    const machine = new TestClient(server.issuer, 'machine')
    machine.secret = agentSecret
    const own = (await readTokens(await ask(machine, { grant_type: 'client_credentials' }, key))) as typeof exchanged
    assert.equal([own.token_type, readThumbprint(own.access_token)], ['DPoP', key.jkt])
  })

  test('a bound token, as subject or actor, can be exchanged only with a proof of its key', async () => {
    const agent = new TestClient(server.issuer, 'agent')
    agent.secret = agentSecret
    const [{ access_token: bound }, { access_token: plain }] = [await login(client, key), await login(client)]
    const ofSubject = { grant_type: EXCHANGE, subject_token: bound, subject_token_type: ACCESS_TOKEN }
    const ofActor = { ...ofSubject, subject_token: plain, actor_token: bound, actor_token_type: ACCESS_TOKEN }
    for (const fields of [ofSubject, ofActor]) {
      for (const prover of [undefined, thief])
        assert.is(await refusal(ask(agent, fields, prover)), '400 invalid_request')
      assert.is(readThumbprint((await readTokens(await ask(agent, fields, key))).access_token), key.jkt)
    }
  })

  test('an ID-JAG bound to a key needs a proof; a plain assertion may not be bound', async () => {
    const agent = new TestClient(server.issuer, 'agent')
    agent.secret = agentSecret
    const mint = (cnf: unknown, typ = 'oauth-id-jag+jwt') =>
      idp.mint({ sub: 'ci', aud: server.issuer, client_id: 'agent', resource: OTHER, cnf }, { header: { typ } })
    const redeem = async (assertion: string, prover?: Prover) => ask(agent, { grant_type: BEARER, assertion }, prover)
    const bound = await mint({ jkt: key.jkt })
    for (const prover of [undefined, thief]) assert.is(await refusal(redeem(bound, prover)), '400 invalid_grant')
    const tokens = (await readTokens(await redeem(bound, key))) as Tokens & { token_type: string }
    assert.equal([tokens.token_type, readThumbprint(tokens.access_token)], ['DPoP', key.jkt])
    for (const cnf of [{ 'x5t#S256': 'x' }, { jkt: key.jkt, 'x5t#S256': 'x' }, {}, 'x', [key.jkt]])
      assert.is(await refusal(redeem(await mint(cnf), key)), '400 invalid_grant', JSON.stringify(cnf))
    assert.is(await refusal(redeem(await mint({ jkt: key.jkt }, 'JWT'), key)), '400 invalid_grant')
    // An unbound assertion may be exchanged for a bound token.
    assert.is(readThumbprint((await readTokens(await redeem(await mint(undefined), thief))).access_token), thief.jkt)
  })

  test('introspection tells what a token is bound to', async () => {
    const ofToken = async (token: string) =>
      (await (await client.post('introspect', { client_id: client.id, token })).json()) as Record<string, unknown>
    const bound = await ofToken((await login(client, key)).access_token)
    assert.equal([bound['active'], bound['token_type'], bound['cnf']], [true, 'DPoP', { jkt: key.jkt }])
    const plain = await ofToken((await login(client)).access_token)
    assert.equal([plain['active'], plain['token_type'], plain['cnf']], [true, 'Bearer', undefined])
  })

  const nowInSeconds = () => Math.floor(Date.now() / 1000)
  const wrong: Readonly<Record<string, () => OddProof>> = {
    'typ JWT': () => ({ header: { typ: 'JWT' } }),
    'no jwk': () => ({ header: { jwk: undefined } }),
    'no jti': () => ({ claims: { jti: undefined } }),
    'htm GET': () => ({ claims: { htm: 'GET' } }),
    'htu of the gateway': () => ({ claims: { htu: server.resource } }),
    'htu of the listener of another host': () => ({ claims: { htu: 'https://evil.example/oauth/token' } }),
    'iat 310 s ago': () => ({ claims: { iat: nowInSeconds() - 310 } }),
    'iat 400 s ahead': () => ({ claims: { iat: nowInSeconds() + 400 } }),
    'no iat': () => ({ claims: { iat: undefined } }),
  }
  test('wrong and repeated proofs are refused with their own code', async () => {
    const { refresh_token: token } = await login(client, key)
    for (const [name, odd] of Object.entries(wrong))
      assert.is(await refusal(ask(client, refreshFields(token), key, odd())), '400 invalid_dpop_proof', name)
    for (const value of ['', 'x', 'a.b.c', `${await buildProof(key)}, ${await buildProof(key)}`]) {
      const fields = { client_id: client.id, ...refreshFields(token) }
      assert.is(await refusal(client.post('token', fields, { dpop: value })), '400 invalid_dpop_proof', value)
    }
    const twice = await buildProof(key)
    const fields = { client_id: client.id, ...refreshFields(token) }
    assert.is((await client.post('token', fields, { dpop: twice })).status, 200)
    assert.is(await refusal(client.post('token', fields, { dpop: twice })), '400 invalid_dpop_proof')
  })

  test('metadata lists the algorithms, and openid-client logs in with proofs', async () => {
    const metadata = (await (await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)).json()) as Record<
      string,
      unknown
    >
    assert.equal(metadata['dpop_signing_alg_values_supported'], ['ES256', 'EdDSA', 'RS256', 'PS256'])
    const config = await openid.discovery(new URL(server.issuer), client.id, undefined, openid.None(), {
      execute: [openid.allowInsecureRequests],
    })
    const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair())
    const pkceCodeVerifier = secret(openid.randomPKCECodeVerifier())
    const url = openid.buildAuthorizationUrl(config, {
      redirect_uri: REDIRECT,
      scope: 'tools:call',
      resource: server.resource,
      code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
      dpop_jkt: await DPoP.calculateThumbprint(),
    })
    const end = await client.agent.follow(url.href, (at) => at.startsWith(REDIRECT))
    const tokens = await openid.authorizationCodeGrant(config, new URL(end.url), { pkceCodeVerifier }, {}, { DPoP })
    secret(tokens.access_token)
    assert.is(tokens.token_type, 'dpop')
    const refreshed = await openid.refreshTokenGrant(config, secret(tokens.refresh_token ?? ''), {}, { DPoP })
    secret(refreshed.access_token)
    assert.is(readThumbprint(refreshed.access_token), await DPoP.calculateThumbprint())
  })

  test('if proofs are required, no token is issued without one, and nonces are given and required', async () => {
    const strict = await startAuthServer({
      authServer: { dpop: { mode: 'required', nonce: 'required' }, hmacSecretFiles: ['hmac'] },
      prepare,
    })
    try {
      const user = await TestClient.register(strict.issuer)
      const code = (await user.authorize()).get('code')
      const fields = { client_id: user.id, ...codeFields(user, code) }
      assert.is(await refusal(user.post('token', fields)), '400 invalid_dpop_proof')
      const url = `${strict.issuer}/oauth/token`
      const send = async (claims?: object) =>
        user.post('token', fields, { dpop: await key.prove('POST', url, undefined, { claims: { ...claims } }) })
      const first = await send()
      const nonce = first.headers.get('dpop-nonce')
      assert.is(await refusal(first), '400 use_dpop_nonce')
      assert.match(nonce ?? '', /^[\w-]{43}$/)
      assert.match(first.headers.get('access-control-expose-headers') ?? '', /dpop-nonce/i)
      assert.is(await refusal(send({ nonce: 'x' })), '400 use_dpop_nonce')
      const good = await send({ nonce })
      assert.ok(good.headers.get('dpop-nonce'))
      assert.is(readThumbprint((await readTokens(good)).access_token), key.jkt)
    } finally {
      await strict.close()
    }
  })

  test('if proofs are off, the header and dpop_jkt are ignored', async () => {
    const plain = await startAuthServer({ prepare })
    try {
      const user = await TestClient.register(plain.issuer)
      const code = (await user.authorize({ dpop_jkt: key.jkt })).get('code')
      const fields = { client_id: user.id, ...codeFields(user, code) }
      const tokens = await readTokens(await user.post('token', fields, { dpop: 'x' }))
      assert.is(readThumbprint(tokens.access_token), undefined)
    } finally {
      await plain.close()
    }
  })

  if (type === 'redis')
    test('a proof that one replica has seen is refused by the other', async () => {
      const replica = await startGateway(server.config(), async (folder) => {
        await prepare(folder)
        await writeFile(join(folder, 'upstream-secret'), 'not used here')
      })
      gateways.push(replica)
      const machine = { client_id: 'machine', client_secret: agentSecret, grant_type: 'client_credentials' }
      const send = async (base: string, dpop: string) =>
        fetch(`${base}/oauth/token`, { method: 'POST', headers: { dpop }, body: new URLSearchParams(machine) })
      const dpop = await buildProof(key)
      const [one, two] = [new URL(server.resource).origin, new URL(replica.url).origin]
      assert.is((await send(one, dpop)).status, 200)
      assert.is(await refusal(send(two, dpop)), '400 invalid_dpop_proof')
      const racing = await buildProof(key)
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) => send(index % 2 === 0 ? one : two, racing)),
      )
      assert.is(answers.filter(({ status }) => status === 200).length, 1)
    })

  test.run()
}
