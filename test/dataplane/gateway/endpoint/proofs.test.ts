/** Tests tokens bound to a client's key (DPoP, RFC 9449) at the MCP endpoint, in both eras. */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { Client, DpopSession, StreamableHTTPClientTransport, withDpop } from '@modelcontextprotocol/client'
import { calculateJwkThumbprint, exportJWK, SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { parseGateway } from '../../../../dataplane/config/read/gateway-findings.ts'
import { storedUpstreamTokens } from '../../../../dataplane/credentials/index.ts'
import { createMemoryTokenStore, LOGIN_CLAIM } from '../../../../dataplane/upstream-tokens/index.ts'
import { secret } from '../../../secrets/watch.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import {
  BASE_HEADERS,
  MODERN,
  modern,
  openSession,
  parseAnswer,
  post,
  type RpcAnswer,
  rpc,
} from '../../../support/gateway/post.ts'
import { type OddProof, Prover } from '../../../support/identity/prover.ts'
import {
  type IdentityProvider,
  introspectionClient,
  startIdentityProvider,
} from '../../../support/network/identity-provider.ts'
import { startStsEndpoint } from '../../../support/network/sts-endpoint.ts'
import { buildExchanged, respond, startTokenEndpoint } from '../../../support/network/token-endpoint.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

type Dpop = NonNullable<GatewayConfig['incomingAuth']['dpop']>

const RESOURCE = 'https://tools.example.com/mcp'

const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
/** The tokens that providers issued to users at login. */
const store = createMemoryTokenStore()
let provider: IdentityProvider
let backend: McpTestServer
let key: Prover
const gateways: GatewayUnderTest[] = []

async function start(dpop: Dpop | undefined, more: Partial<GatewayConfig> = {}): Promise<GatewayUnderTest> {
  const oidc = {
    issuer: provider.issuer,
    audience: 'us',
    allowPrivateIP: true,
    introspection: { url: provider.introspectionUrl, clientId: introspectionClient.id, clientSecretFile: 'secret' },
  }
  const gateway = await startGateway(
    {
      backends: [{ name: 'b', url: backend.url }],
      resourceUrl: RESOURCE,
      incomingAuth: { type: 'oidc', oidc, ...(dpop && { dpop }) },
      ...more,
    },
    async (directory) => {
      await writeFile(`${directory}/secret`, introspectionClient.secret)
    },
    storedUpstreamTokens(store, { issuer: provider.issuer }),
  )
  gateways.push(gateway)
  // If callers have their own credentials, the backend is contacted only on their behalf.
  const isPersonal = more.backends?.some(({ credential }) => credential !== undefined)
  if (!isPersonal) await gateway.listed()
  return gateway
}

let optional: GatewayUnderTest
let required: GatewayUnderTest
let off: GatewayUnderTest

test.before(async () => {
  provider = await startIdentityProvider()
  backend = await startMcpServer({ name: 'b', mode: 'dual' })
  key = await Prover.create()
  optional = await start({ mode: 'optional' })
  required = await start({ mode: 'required' })
  off = await start(undefined)
})

test.after(async () => {
  for (const gateway of gateways) await gateway.close()
  await backend.close()
  await provider.close()
})

const mintBound = (cnf: unknown = { jkt: key.jkt }) => provider.mint({ aud: 'us', cnf })
const list = modern('tools/list')

const send = (url: string, headers: Record<string, string>): Promise<RpcAnswer> =>
  post(url, list.body, { ...list.headers, ...headers })

const readChallenge = ({ headers }: RpcAnswer): string => headers.get('www-authenticate') ?? ''

test('a bound token under Bearer is refused whether proofs are read or not, wherever it comes from', async () => {
  const tokens = {
    jkt: await mintBound(),
    certificate: await mintBound({ 'x5t#S256': 'bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2' }),
    odd: await mintBound('anything'),
    introspected: provider.grant({ aud: 'us', cnf: { jkt: key.jkt } }),
  }
  for (const gateway of [optional, required, off])
    for (const [name, token] of Object.entries(tokens)) {
      const answer = await send(gateway.url, { authorization: `Bearer ${token}` })
      assert.is(answer.status, 401, name)
      assert.match(readChallenge(answer), /error="invalid_token"/, name)
    }
})

test('a token with the proof of its key is accepted, introspected or not; a plain one if proofs are optional', async () => {
  for (const token of [await mintBound(), provider.grant({ aud: 'us', cnf: { jkt: key.jkt } })])
    for (const { url } of [optional, required])
      assert.is((await send(url, await key.headers('POST', RESOURCE, token))).status, 200)
  const plain = { authorization: `Bearer ${await provider.mint({ aud: 'us' })}` }
  assert.is((await send(optional.url, plain)).status, 200)
  const refused = await send(required.url, plain)
  assert.is(refused.status, 401)
  assert.match(readChallenge(refused), /^DPoP .*error="invalid_token".*algs="ES256 EdDSA RS256 PS256"/)
})

test('a token is accepted in the header alone', async () => {
  const token = await provider.mint({ aud: 'us' })
  assert.is((await send(`${optional.url}?access_token=${token}`, {})).status, 401)
  assert.is((await send(optional.url, { cookie: `access_token=${token}`, dpop: token })).status, 401)
})

test('challenges and metadata say whether proofs are supported or required', async () => {
  assert.match(readChallenge(await send(off.url, {})), /^Bearer (?!.*DPoP)/)
  assert.match(readChallenge(await send(optional.url, {})), /^Bearer .*, DPoP .*algs="ES256 EdDSA RS256 PS256"$/)
  assert.match(readChallenge(await send(required.url, {})), /^DPoP .*resource_metadata="[^"]+".*algs=/)
  assert.not.match(readChallenge(await send(required.url, {})), /Bearer|error=/)
  const metadata = async ({ base }: GatewayUnderTest) =>
    (await (await fetch(`${base}/.well-known/oauth-protected-resource/mcp`)).json()) as Record<string, unknown>
  const algs = ['ES256', 'EdDSA', 'RS256', 'PS256']
  assert.is((await metadata(required))['dpop_bound_access_tokens_required'], true)
  assert.is((await metadata(optional))['dpop_bound_access_tokens_required'], false)
  assert.equal((await metadata(optional))['dpop_signing_alg_values_supported'], algs)
  assert.not('dpop_signing_alg_values_supported' in (await metadata(off)))
})

/** Cases of an invalid proof. */
const WRONG: Readonly<Record<string, OddProof>> = {
  'typ JWT': { header: { typ: 'JWT' } },
  'no typ': { header: { typ: undefined } },
  'typ application/dpop+jwt': { header: { typ: 'application/dpop+jwt' } },
  'no jwk': { header: { jwk: undefined } },
  'critical extension': { header: { crit: ['b64'], b64: true } },
  'no jti': { claims: { jti: undefined } },
  'empty jti': { claims: { jti: '' } },
  'jti of 300 bytes': { claims: { jti: 'x'.repeat(300) } },
  'jti that is a number': { claims: { jti: 7 } },
  'no htm': { claims: { htm: undefined } },
  'htm GET': { claims: { htm: 'GET' } },
  'htm in lower case': { claims: { htm: 'post' } },
  'no htu': { claims: { htu: undefined } },
  'htu of another path': { claims: { htu: 'https://tools.example.com/other' } },
  'htu of another host': { claims: { htu: 'https://evil.example.com/mcp' } },
  'htu of another scheme': { claims: { htu: 'http://tools.example.com/mcp' } },
  'htu with a user': { claims: { htu: 'https://a@tools.example.com/mcp' } },
  'htu that is no URL': { claims: { htu: '/mcp' } },
  'htu that is a list': { claims: { htu: [RESOURCE] } },
  'no iat': { claims: { iat: undefined } },
  'iat as a text': { claims: { iat: String(Math.floor(Date.now() / 1000)) } },
  'iat 310 s ago': { claims: { iat: Math.floor(Date.now() / 1000) - 310 } },
  'iat 400 s ahead': { claims: { iat: Math.floor(Date.now() / 1000) + 400 } },
  'exp over': { claims: { exp: Math.floor(Date.now() / 1000) - 10 } },
  'nbf to come': { claims: { nbf: Math.floor(Date.now() / 1000) + 7200 } },
  'nbf a text': { claims: { nbf: String(Math.floor(Date.now() / 1000) - 10) } },
  'no ath': { claims: { ath: undefined } },
  'ath of another token': { claims: { ath: 'fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo' } },
  'nonce that is a number': { claims: { nonce: 7 } },
}

for (const [name, odd] of Object.entries(WRONG))
  test(`a proof is refused: ${name}`, async () => {
    const token = await mintBound()
    const answer = await send(optional.url, await key.headers('POST', RESOURCE, token, odd))
    assert.is(answer.status, 401)
    const challenge = readChallenge(answer)
    assert.match(challenge, /^DPoP .*error="invalid_dpop_proof"/)
    assert.match(challenge, /algs="ES256 EdDSA RS256 PS256"/)
  })

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Returns proofs that no library makes, and headers that contain no proof. */
async function forgeProofs(token: string): Promise<Readonly<Record<string, string | undefined>>> {
  const good = await key.prove('POST', RESOURCE, token)
  const [head = '', body = '', signature = ''] = good.split('.')
  const other = await Prover.create()
  const { privateKey: short, publicKey: shortPublic } = generateKeyPairSync('rsa', { modulusLength: 1024 })
  const shortProof = `${encode({ alg: 'RS256', typ: 'dpop+jwt', jwk: shortPublic.export({ format: 'jwk' }) })}.${body}`
  const secret = Buffer.from('k'.repeat(32))
  const symmetric = `${encode({ alg: 'HS256', typ: 'dpop+jwt', jwk: { kty: 'oct', k: secret.toString('base64url') } })}.${body}`
  const privateJwk = await exportJWK(key.privateKey)
  const bent = Buffer.from(signature, 'base64url')
  bent[5] = (bent[5] ?? 0) ^ 1
  return {
    'no header': undefined,
    'no JWT': 'x',
    'two proofs': `${good}, ${await key.prove('POST', RESOURCE, token)}`,
    '10,000 characters': `${head}.${'a'.repeat(10_000)}.${signature}`,
    'alg none': `${encode({ alg: 'none', typ: 'dpop+jwt', jwk: key.publicJwk })}.${body}.`,
    'alg none, signed': `${encode({ alg: 'none', typ: 'dpop+jwt', jwk: key.publicJwk })}.${body}.${signature}`,
    'symmetric key': `${symmetric}.${createHmac('sha256', secret).update(symmetric).digest('base64url')}`,
    'RSA of 1024 bits': `${shortProof}.${sign('sha256', Buffer.from(shortProof), short).toString('base64url')}`,
    'signature of another': `${head}.${body}.${(await other.prove('POST', RESOURCE, token)).split('.')[2]}`,
    'signature with one bit changed': `${head}.${body}.${bent.toString('base64url')}`,
    'private key': await new SignJWT(JSON.parse(Buffer.from(body, 'base64url').toString()))
      .setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk: privateJwk })
      .sign(key.privateKey),
    'algorithm that does not fit the key': `${encode({ alg: 'RS256', typ: 'dpop+jwt', jwk: key.publicJwk })}.${body}.${signature}`,
    'algorithm that is not listed': await (await Prover.create('ES384')).prove('POST', RESOURCE, token),
    'point that is not on the curve': `${encode({ alg: 'ES256', typ: 'dpop+jwt', jwk: { ...key.publicJwk, y: key.publicJwk.x } })}.${body}.${signature}`,
    'body that is a list': `${head}.${encode([])}.${signature}`,
    'header that is null': `${encode(null)}.${body}.${signature}`,
    'jwk of odd types': `${encode({ alg: 'ES256', typ: 'dpop+jwt', jwk: { kty: ['EC'], crv: {}, x: 1, y: null } })}.${body}.${signature}`,
  }
}

test('forged proofs are refused, and so is a request without one', async () => {
  const token = await mintBound()
  for (const [name, proof] of Object.entries(await forgeProofs(token))) {
    const headers = { authorization: `DPoP ${token}`, ...(proof !== undefined && { dpop: proof }) }
    const answer = await send(optional.url, headers)
    assert.is(answer.status, 401, name)
    assert.match(readChallenge(answer), /^DPoP .*error="invalid_(dpop_proof|token)".*algs=/, name)
  }
})

test('the proof of another key, a plain token and a token of another binding are invalid tokens under DPoP', async () => {
  const thief = await Prover.create()
  const cases = {
    'another key': await thief.headers('POST', RESOURCE, await mintBound()),
    'plain token': await key.headers('POST', RESOURCE, await provider.mint({ aud: 'us' })),
    certificate: await key.headers('POST', RESOURCE, await mintBound({ 'x5t#S256': 'x' })),
    'key and certificate': await key.headers('POST', RESOURCE, await mintBound({ jkt: key.jkt, 'x5t#S256': 'x' })),
    'expired token': await key.headers(
      'POST',
      RESOURCE,
      await provider.mint({ aud: 'us', cnf: { jkt: key.jkt } }, { expiresIn: -60 }),
    ),
    'unsigned token': await key.headers('POST', RESOURCE, 'a.b.c'),
  }
  for (const [name, headers] of Object.entries(cases)) {
    const answer = await send(optional.url, headers)
    assert.is(answer.status, 401, name)
    assert.match(readChallenge(answer), /^DPoP .*error="invalid_token"/, name)
  }
  // If the gateway accepts no proofs, the DPoP scheme is unknown.
  assert.is((await send(off.url, await key.headers('POST', RESOURCE, await mintBound()))).status, 401)
})

test('each listed algorithm works, and htu may have a query', async () => {
  const all = await start({ algs: ['ES256', 'ES384', 'ES512', 'EdDSA', 'RS256', 'PS256', 'RS384', 'PS512'] })
  for (const alg of ['ES256', 'ES384', 'ES512', 'EdDSA', 'RS256', 'PS256', 'RS384', 'PS512', 'Ed25519']) {
    const prover = await Prover.create(alg)
    const token = await mintBound({ jkt: prover.jkt })
    assert.is((await send(all.url, await prover.headers('POST', RESOURCE, token))).status, 200, alg)
    // The key is known now, but its proofs are checked as before.
    const [head, body] = (await prover.prove('POST', RESOURCE, token)).split('.')
    const unsigned = `${head}.${body}.${Buffer.alloc(64).toString('base64url')}`
    assert.is((await send(all.url, { authorization: `DPoP ${token}`, dpop: unsigned })).status, 401, alg)
  }
  const token = await mintBound()
  const spelled = 'HTTPS://tools.example.com:443/mcp?x=1#y'
  assert.is((await send(all.url, await key.headers('POST', spelled, token))).status, 200)
})

test('a proof is refused the second time, unless replays are allowed', async () => {
  const token = await mintBound()
  const headers = await key.headers('POST', RESOURCE, token)
  assert.is((await send(optional.url, headers)).status, 200)
  const again = await send(optional.url, headers)
  assert.is(again.status, 401)
  assert.match(readChallenge(again), /error="invalid_dpop_proof"/)
  // One of fifty concurrent requests is accepted.
  const racing = await key.headers('POST', RESOURCE, token)
  const answers = await Promise.all(Array.from({ length: 50 }, () => send(optional.url, racing)))
  assert.is(answers.filter(({ status }) => status === 200).length, 1)
  const careless = await start({ replay: 'none' })
  for (const _ of [1, 2]) assert.is((await send(careless.url, headers)).status, 200)
})

test('a proof is for the configured URL, whatever Host and forwarding headers say', async () => {
  const behind = await start(
    { mode: 'optional' },
    { trustProxyHeaders: true, allowedHosts: ['inner.example.com', 'evil.example.com'] },
  )
  const forge = { 'x-forwarded-host': 'evil.example.com', 'x-forwarded-proto': 'https' }
  for (const { url } of [optional, behind]) {
    const token = await mintBound()
    assert.is((await send(url, { ...forge, ...(await key.headers('POST', RESOURCE, token)) })).status, 200)
    const evil = await key.headers('POST', 'https://evil.example.com/mcp', token)
    assert.is((await send(url, { ...forge, ...evil })).status, 401)
    assert.is((await send(url, await key.headers('POST', url, token))).status, 401, 'the listener’s own address')
  }
})

test('in a session each POST, GET and DELETE needs a proof of its own', async () => {
  for (const url of [optional.url, required.url]) {
    const token = await mintBound()
    const proven = (method: string) => key.headers(method, RESOURCE, token)
    const session = await openSession(url, await proven('POST'))
    const { 'mcp-session-id': id = '', 'mcp-protocol-version': version = '' } = session
    const at = { 'mcp-session-id': id, 'mcp-protocol-version': version }
    assert.is((await post(url, rpc('tools/list'), { ...at, ...(await proven('POST')) })).status, 200)
    const get = async (method: string) =>
      fetch(url, { headers: { ...at, accept: 'text/event-stream', ...(await proven(method)) } })
    assert.is((await get('POST')).status, 401)
    const stream = await EventReader.listen(url, { ...at, ...(await proven('GET')) })
    assert.not(stream.ended)
    await stream.leave()
    const remove = async (method: string) =>
      parseAnswer(await fetch(url, { method: 'DELETE', headers: { ...at, ...(await proven(method)) } }))
    assert.is((await remove('POST')).status, 401)
    assert.is((await remove('GET')).status, 401)
    assert.is((await remove('DELETE')).status, 204)
  }
})

test('a nonce is required, sent with each answer, and refused if it was issued elsewhere', async () => {
  const { url } = await start({ nonce: 'required' })
  const token = await mintBound()
  const first = await send(url, await key.headers('POST', RESOURCE, token))
  assert.is(first.status, 401)
  assert.match(readChallenge(first), /^DPoP .*error="use_dpop_nonce"/)
  const nonce = first.headers.get('dpop-nonce') ?? ''
  assert.match(nonce, /^[\w-]{43}$/)
  const good = await send(url, await key.headers('POST', RESOURCE, token, { claims: { nonce } }))
  assert.is(good.status, 200)
  assert.ok(good.headers.get('dpop-nonce'))
  for (const wrong of ['', 'x', `${nonce}x`, nonce.replace(/^./, (c) => (c === 'A' ? 'B' : 'A'))]) {
    const refused = await send(url, await key.headers('POST', RESOURCE, token, { claims: { nonce: wrong } }))
    assert.is(refused.status, 401)
    assert.match(readChallenge(refused), /error="use_dpop_nonce"/)
    assert.ok(refused.headers.get('dpop-nonce'))
  }
})

for (const era of ['modern', 'legacy'] as const)
  test(`the SDK’s client lists and calls with proofs and a nonce, in the ${era} era`, async () => {
    const { url } = await start({ nonce: 'required', mode: 'required' }, { resourceUrl: undefined })
    const session = await DpopSession.create()
    const token = await mintBound({ jkt: session.thumbprint })
    const client = new Client(
      { name: 'proving', version: '1' },
      { versionNegotiation: { mode: era === 'modern' ? { pin: MODERN } : era } },
    )
    const transport = new StreamableHTTPClientTransport(new URL(url), {
      fetch: withDpop(session, () => token)(fetch),
    })
    await client.connect(transport)
    const { tools } = await client.listTools()
    assert.ok(tools.some(({ name }) => name === 'b_echo'))
    const result = await client.callTool({ name: 'b_echo', arguments: { message: 'proven' } })
    assert.is(readText(result), 'b: proven')
    if (era === 'legacy') await transport.terminateSession()
    await client.close()
  })

test('the DPoP header can’t be configured to be passed on', () => {
  const text = JSON.stringify({
    name: 'x',
    namespace: 'x',
    role: 'gateway',
    backends: [],
    passthroughHeaders: ['DPoP'],
    incomingAuth: { type: 'anonymous' },
  })
  assert.throws(() => parseGateway(text), /passthroughHeaders\/0: this header is never passed on/)
})

test('a backend sees neither the proof nor the token, with whatever credential it is called', async () => {
  const [endpoint, idp, target] = [await startTokenEndpoint(), await startTokenEndpoint(), await startTokenEndpoint()]
  const sts = await startStsEndpoint()
  const file = 'secret'
  const resource = 'https://b.example/mcp'
  idp.answer = async (_request, response) => {
    const assertion = await new SignJWT({ aud: 'https://as.example', resource })
      .setProtectedHeader({ alg: 'HS256', typ: 'oauth-id-jag+jwt' })
      .sign(Buffer.alloc(32, 1))
    respond(response, 200, buildExchanged(assertion, { issued_token_type: ID_JAG, token_type: 'N_A' }))
  }
  const ofLogin = { owner: 'alice', subject: 'alice-there', accessToken: secret('of-the-login') }
  await store.put({ login: 'login', provider: 'github' }, ofLogin, { ttlMs: 600_000 })
  const xaa = {
    ...{ idpTokenUrl: idp.url, idpClientId: 'c', idpClientSecretFile: file, targetTokenUrl: target.url },
    ...{
      targetClientId: 'c',
      targetClientSecretFile: file,
      targetAudience: 'https://as.example',
      targetResource: resource,
    },
  }
  const awsSts = { region: 'eu-west-1', stsUrl: sts.url, fallbackRoleArn: 'arn:aws:iam::123456789012:role/a' }
  const tokenExchange = { tokenUrl: endpoint.url, audience: 'b', clientId: 'c', clientSecretFile: file }
  const ways: readonly Partial<GatewayConfig['backends'][number]>[] = [
    {},
    { headers: { 'x-static': 'yes' } },
    { headerFiles: [{ name: 'authorization', file, prefix: 'Bearer ' }] },
    { credential: { type: 'tokenExchange', tokenExchange } },
    { credential: { type: 'upstreamInject', upstreamInject: { providerName: 'github' } } },
    { credential: { type: 'xaa', xaa } },
    { credential: { type: 'awsSts', awsSts } },
  ]
  for (const way of ways) {
    const gateway = await start({ mode: 'optional' }, { backends: [{ name: 'b', url: backend.url, ...way }] })
    backend.seen.length = 0
    const token = await provider.mint({ aud: 'us', sub: 'alice', cnf: { jkt: key.jkt }, [LOGIN_CLAIM]: 'login' })
    const call = modern('tools/call', { name: 'b_echo', arguments: { message: 'x' } })
    const headers = await key.headers('POST', RESOURCE, token)
    const answer = await post(gateway.url, call.body, { ...call.headers, ...headers })
    assert.is(answer.status, 200, JSON.stringify(way))
    assert.ok(backend.calls('tools/call').length > 0)
    for (const { headers: seen } of backend.seen) {
      const text = JSON.stringify(seen)
      assert.not('dpop' in seen, 'the header')
      assert.not(text.includes(token), 'the token')
      assert.not(text.includes(headers['dpop'] as string), 'the proof')
      assert.not(/dpop/i.test(String(seen['authorization'])), 'the scheme')
    }
    // The proof is not forwarded to the endpoints for credentials either.
    for (const { headers: seen } of [endpoint, idp, target, sts].flatMap(({ requests }) => requests))
      assert.not('dpop' in seen)
  }
  for (const one of [endpoint, idp, target, sts]) {
    assert.ok(one.requests.length > 0)
    await one.close()
  }
})

test('oauth4webapi’s proofs are accepted, with the required nonce', async () => {
  const { url } = await start({ nonce: 'required', mode: 'required' }, { resourceUrl: undefined })
  const keys = await oauth.generateKeyPair('ES256', { extractable: true })
  const token = await mintBound({ jkt: await calculateJwkThumbprint(await exportJWK(keys.publicKey)) })
  const DPoP = oauth.DPoP({}, keys)
  const ask = () =>
    oauth.protectedResourceRequest(
      token,
      'POST',
      new URL(url),
      new Headers({ ...BASE_HEADERS, ...list.headers }),
      list.body,
      { DPoP, [oauth.allowInsecureRequests]: true },
    )
  const response = await ask().catch((error: unknown) => {
    if (oauth.isDPoPNonceError(error)) return ask()
    throw error
  })
  assert.is(response.status, 200)
})

test.run()
