/** Tests clients that authenticate with a key from their metadata document (`private_key_jwt`), at two replicas. */

import { KeyObject, randomBytes, randomUUID, sign } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CompactSign, decodeJwt, exportJWK, generateKeyPair, importJWK } from 'jose'
import * as openid from 'openid-client'
import { pino } from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readDocument } from '../../../../dataplane/authserver/clients/client-documents.ts'
import { ClientKeys } from '../../../../dataplane/authserver/clients/client-keys.ts'
import { SeenKeys } from '../../../../dataplane/authserver/clients/seen-keys.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  SCOPES,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'
import { unwrap } from '../../../support/unwrap.ts'

const TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const hmac = secret(randomBytes(32).toString('base64url'))
const rsa = await generateKeyPair('RS256', { extractable: true })
const exportKey = async (key: Awaited<ReturnType<typeof generateKeyPair>>, more: object) => ({
  ...(await exportJWK(key.publicKey)),
  ...more,
})

const RULES = { scopes: SCOPES, baselineScopes: [], allowConfidential: true, forceConfidential: [] }

/** The content of each path; a function is called for each request. */
const served = new Map<string, () => unknown>()
const requests = new Map<string, number>()
const host = createServer((request, response) => {
  const path = request.url ?? ''
  requests.set(path, (requests.get(path) ?? 0) + 1)
  const body = served.get(path)?.()
  if (typeof body === 'number') return void response.writeHead(body, { location: `${origin}/keys` }).end()
  response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
})
let origin: string
let redis: RedisServer
let server: AuthServerUnderTest
let replica: GatewayUnderTest

test.before(async () => {
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
  redis = await startRedis()
  const prepare = (folder: string) => writeFile(join(folder, 'hmac'), hmac)
  const storage = { type: 'redis' as const, redis: { addresses: [redis.address] } }
  server = await startAuthServer({
    authServer: { cimd: { enabled: true }, allowPrivateKeyJWTRegistration: true, hmacSecretFiles: ['hmac'], storage },
    prepare,
  })
  replica = await startGateway(server.config(), async (folder) => {
    await prepare(folder)
    await writeFile(join(folder, 'upstream-secret'), 'nobody logs in here')
  })
})
test.after(async () => {
  host.closeAllConnections()
  host.close()
  await replica?.close()
  await server?.close()
  await redis?.stop()
})

/** Publishes a document like ChatGPT's: with a JWKS URL and key authentication. */
function publish(name: string, changes: object): string {
  const id = `${origin}/${name}.json`
  served.set(`/${name}.json`, () => ({
    client_id: id,
    client_name: 'Acme',
    redirect_uris: [REDIRECT],
    token_endpoint_auth_method: 'private_key_jwt',
    token_endpoint_auth_signing_alg: 'RS256',
    ...changes,
  }))
  return id
}

/** Returns a client whose keys are at this address. */
const clientWith = (url: string) => {
  const id = `${origin}/y.json`
  const metadata = {
    client_id: id,
    redirect_uris: [REDIRECT],
    token_endpoint_auth_method: 'private_key_jwt',
    jwks_uri: url,
  }
  return readDocument(metadata, id, RULES, true)
}

const nowInSeconds = () => Math.floor(Date.now() / 1000)
interface SignedAssertion {
  readonly alg?: string
  readonly kid?: string | undefined
  readonly key?: Parameters<CompactSign['sign']>[0]
}
async function mintAssertion(
  id: string,
  claims: object = {},
  { alg = 'RS256', kid = 'k', key = rsa.privateKey }: SignedAssertion = {},
) {
  const usual = {
    iss: id,
    sub: id,
    aud: server.issuer,
    jti: randomUUID(),
    iat: nowInSeconds(),
    exp: nowInSeconds() + 300,
  }
  const header = { alg, ...(kid === undefined ? {} : { kid }) }
  const text = await new CompactSign(Buffer.from(JSON.stringify({ ...usual, ...claims })))
    .setProtectedHeader(header)
    .sign(key)
  return secret(text)
}
const encode = (text: string) => Buffer.from(text).toString('base64url')
const decodeClaims = (jwt: string) => Buffer.from(jwt.split('.')[1] as string, 'base64url').toString()
const signBody = (text: string) =>
  secret(`${text}.${sign('sha256', Buffer.from(text), KeyObject.from(rsa.privateKey)).toString('base64url')}`)
const proof = async (...of: Parameters<typeof mintAssertion>) => ({
  client_assertion: await mintAssertion(...of),
  client_assertion_type: TYPE,
})
/** Requests a token with an unknown refresh token: the error shows whether the client itself was authenticated. */
async function ask(id: string, more: Record<string, string>, base = server.gateway.base): Promise<Response> {
  const fields = { client_id: id, grant_type: 'refresh_token', refresh_token: 'none', ...more }
  const response = await fetch(`${base}/oauth/token`, { method: 'POST', body: new URLSearchParams(fields) })
  // Few documents are fetched at a time from one address.
  if (response.status !== 503) return response
  await delay(300)
  return ask(id, more, base)
}
const KNOWN = '400 invalid_grant'
const UNKNOWN = '401 invalid_client'

test('a client with a key logs in, refreshes, introspects and revokes, and can do none of it without its assertion', async () => {
  const keys = { keys: [await exportKey(rsa, { kid: 'k', alg: 'RS256', use: 'sig' })] }
  served.set('/keys', () => keys)
  const id = publish('chat', { jwks_uri: `${origin}/keys` })
  const client = new TestClient(server.issuer, id)
  const code = (await client.authorize()).get('code') as string
  assert.is(await refusal(client.exchange(code)), UNKNOWN)
  assert.is(await refusal(client.exchange(code, { client_secret: 'x' })), UNKNOWN)
  const tokens = await readTokens(await client.exchange(code, await proof(id)))
  assert.is(decodeJwt(tokens.access_token)['client_id'], id)
  assert.is(await refusal(client.refresh(tokens.refresh_token)), UNKNOWN)
  const fresh = await readTokens(await client.refresh(tokens.refresh_token, await proof(id)))
  // The assertion names the client, so `client_id` may be left out (RFC 7523 section 2.2).
  const introspect = await client.post('introspect', { token: fresh.access_token, ...(await proof(id)) })
  assert.is(((await introspect.json()) as { active: boolean }).active, true)
  assert.is(await refusal(client.post('introspect', { client_id: id, token: fresh.access_token })), UNKNOWN)
  assert.is(await refusal(client.post('revoke', { client_id: id, token: fresh.access_token })), UNKNOWN)
  assert.is((await client.post('revoke', { token: fresh.access_token, ...(await proof(id)) })).status, 200)
  assert.is(await refusal(client.refresh(fresh.refresh_token, await proof(id))), KNOWN)
  assert.is(requests.get('/keys'), 1)
})

test('a client that registers a key logs in by it at another replica, and by the stated algorithm alone', async () => {
  const client = await TestClient.register(server.issuer, {
    token_endpoint_auth_method: 'private_key_jwt',
    token_endpoint_auth_signing_alg: 'PS256',
    jwks: { keys: [await exportKey(rsa, { kid: 'k' })] },
  })
  assert.is(client.secret, undefined)
  const code = (await client.authorize()).get('code') as string
  assert.is(await refusal(client.exchange(code)), UNKNOWN)
  assert.is(await refusal(client.exchange(code, await proof(client.id))), UNKNOWN)
  const ps256 = { alg: 'PS256', key: await importJWK(await exportJWK(rsa.privateKey), 'PS256') }
  const tokens = await readTokens(await client.exchange(code, await proof(client.id, {}, ps256)))
  assert.is(decodeJwt(tokens.access_token)['client_id'], client.id)
  assert.is(await refusal(ask(client.id, await proof(client.id, {}, ps256), replica.base)), KNOWN)
  assert.is(await refusal(ask(client.id, { client_secret: 'x' }, replica.base)), UNKNOWN)
})

test('clients can register with keys only if that is allowed, and the metadata says so', async () => {
  const readMetadata = async (issuer: string) =>
    (await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json()) as Record<
      string,
      readonly string[]
    >
  const methods = 'token_endpoint_auth_methods_supported'
  const algorithms = 'token_endpoint_auth_signing_alg_values_supported'
  const fields = {
    redirect_uris: [REDIRECT],
    token_endpoint_auth_method: 'private_key_jwt',
    jwks_uri: 'https://app.example/keys',
  }
  const closed = await startAuthServer()
  try {
    const answer = new TestClient(closed.issuer).post('register', JSON.stringify(fields))
    assert.is(await refusal(answer), '400 invalid_client_metadata')
    assert.not.ok((await readMetadata(closed.issuer))[methods]?.includes('private_key_jwt'))
    assert.is((await readMetadata(closed.issuer))[algorithms], undefined)
    await closed.gateway.configure(closed.config({ allowPrivateKeyJWTRegistration: true }))
    await eventually(
      'the metadata',
      async () => (await readMetadata(closed.issuer))[methods]?.includes('private_key_jwt') === true,
    )
    const taken = await new TestClient(closed.issuer).post('register', JSON.stringify(fields))
    assert.is(taken.status, 201)
    const { client_id: _, client_id_issued_at: __, ...registered } = (await taken.json()) as Record<string, unknown>
    assert.is(registered['jwks_uri'], fields.jwks_uri)
    assert.is(registered['token_endpoint_auth_method'], 'private_key_jwt')
    assert.equal((await readMetadata(closed.issuer))[algorithms], ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])
  } finally {
    await closed.close()
  }
})

test('openid-client logs in by its key', async () => {
  const id = publish('strict-client', { jwks: { keys: [await exportKey(rsa, { kid: 'k' })] } })
  const config = await openid.discovery(
    new URL(server.issuer),
    id,
    undefined,
    openid.PrivateKeyJwt({ key: rsa.privateKey, kid: 'k' }),
    { execute: [openid.allowInsecureRequests] },
  )
  const pkceCodeVerifier = secret(openid.randomPKCECodeVerifier())
  const expectedState = openid.randomState()
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'tools:call',
    resource: server.resource,
    state: expectedState,
    code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  })
  const end = await new UserAgent().follow(url.href, (at) => at.startsWith(REDIRECT))
  secret(new URL(end.url).searchParams.get('code') as string)
  const tokens = await openid.authorizationCodeGrant(config, new URL(end.url), { pkceCodeVerifier, expectedState })
  for (const token of [tokens.access_token, tokens.refresh_token]) secret(token as string)
  assert.is((await openid.tokenIntrospection(config, tokens.access_token)).active, true)
})

test('an assertion works once, at whichever replica', async () => {
  const id = publish('once', { jwks: { keys: [await exportKey(rsa, { kid: 'k' })] } })
  const assertion = await proof(id)
  const bases = [server.gateway.base, replica.base]
  const all = await Promise.all(
    Array.from({ length: 10 }, async (_, index) => refusal(ask(id, assertion, bases[index % 2]))),
  )
  assert.equal(all.sort(), [KNOWN, ...Array(9).fill(UNKNOWN)])
  assert.is(await refusal(ask(id, assertion, replica.base)), UNKNOWN)
})

test('an assertion for another server, of another client, with a long life or a wrong signature is refused', async () => {
  const id = publish('strict', { jwks: { keys: [await exportKey(rsa, { kid: 'k' })] } })
  const other = await generateKeyPair('RS256')
  const symmetric = new TextEncoder().encode(JSON.stringify(await exportJWK(rsa.publicKey)))
  const expectRefusal = async (what: string, fields: Record<string, string>) =>
    assert.is(await refusal(ask(id, fields)), UNKNOWN, what)
  for (const [what, claims] of Object.entries({
    'another server': { aud: 'https://other.example' },
    'this and another server': { aud: [server.issuer, 'https://other.example'] },
    'no server': { aud: undefined },
    'an empty list': { aud: [] },
    'a slash more': { aud: `${server.issuer}/` },
    'another client': { iss: 'x', sub: 'x' },
    'another issuer': { iss: 'https://idp.example' },
    'no issuer': { iss: undefined },
    'an hour': { exp: nowInSeconds() + 3600 },
    'an end beyond all numbers': { exp: Number.MAX_VALUE },
    'an end that is a text': { exp: '9999999999' },
    'no end': { exp: undefined },
    expired: { exp: nowInSeconds() - 60 },
    'not yet': { nbf: nowInSeconds() + 60 },
    'no name': { jti: undefined },
    'an empty name': { jti: '' },
    'a long name': { jti: 'x'.repeat(300) },
    'a name that is a number': { jti: 7 },
  }))
    await expectRefusal(what, await proof(id, claims))
  await expectRefusal('another key', await proof(id, {}, { key: other.privateKey }))
  await expectRefusal('a key id that there is not', await proof(id, {}, { kid: 'x' }))
  await expectRefusal('its public key as a secret', await proof(id, {}, { alg: 'HS256', key: symmetric }))
  const { privateKey: rs512 } = await generateKeyPair('RS512')
  await expectRefusal('an algorithm that is not listed', await proof(id, {}, { alg: 'RS512', key: rs512 }))
  const [, body] = (await mintAssertion(id)).split('.')
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`
  for (const [what, text] of Object.entries({ 'no signature': none, rubbish: 'x', parts: 'a.b.c', nothing: '..' }))
    await expectRefusal(what, { client_assertion: text, client_assertion_type: TYPE })
  // Written by hand, since no library writes these. Each is signed as it is.
  const head = encode('{"alg":"RS256","kid":"k"}')
  const writeAssertion = async (first: string, second?: string) => ({
    client_assertion: signBody(`${first}.${second ?? encode(decodeClaims(await mintAssertion(id)))}`),
    client_assertion_type: TYPE,
  })
  assert.is(await refusal(ask(id, await writeAssertion(head))), KNOWN)
  for (const [what, text] of Object.entries({
    'an extension that must be understood': encode('{"alg":"RS256","kid":"k","crit":["exp"],"exp":1}'),
    'an unencoded body': encode('{"alg":"RS256","kid":"k","crit":["b64"],"b64":false}'),
    'an empty list of extensions': encode('{"alg":"RS256","kid":"k","crit":[]}'),
    'a header without an algorithm': encode('{"kid":"k"}'),
    'an algorithm that is a list': encode('{"alg":["RS256"],"kid":"k"}'),
    'a key id that is a number': encode('{"alg":"RS256","kid":7}'),
    'a header that is a list': encode('["RS256"]'),
    'a header that is null': encode('null'),
    'a header that is no JSON': encode('{'),
    'a header that is no text': Buffer.from('{"alg":"RS256","kid":"k","x":"\xff"}', 'latin1').toString('base64url'),
    'a header with padding': `${encode('{"alg":"RS256","kid":"k" }')}=`,
    'a letter that encodes nothing': `${encode('{"alg":"RS256","kid":"k"  }')}A`,
    'a blank': ` ${head}`,
    'no header': '',
  }))
    await expectRefusal(what, await writeAssertion(text))
  const usual = decodeClaims(await mintAssertion(id))
  for (const [what, text] of Object.entries({
    'a body that is a list': encode(`[${usual}]`),
    'a body that is null': encode('null'),
    'a body that is no JSON': encode(usual.slice(1)),
    'a body that is no text': Buffer.from(usual.replace('{', '{"x":"\xff",'), 'latin1').toString('base64url'),
    'a time that is a text': encode(usual.replace(/"iat":\d+/, '"iat":"1"')),
    'a beginning that is a text': encode(usual.replace('{', '{"nbf":"1",')),
    'a fourth part': `${encode(usual)}.${encode(usual)}`,
  }))
    await expectRefusal(what, await writeAssertion(head, text))
  for (const audience of [server.issuer, [server.issuer], `${server.issuer}/oauth/token`])
    assert.is(await refusal(ask(id, await proof(id, { aud: audience }))), KNOWN)
  assert.is(await refusal(ask(id, await proof(id, {}, { kid: undefined }))), KNOWN)
  // In an assertion without `client_id` the client's name may be any JSON.
  for (const sub of [[id], { id }, 7, null, ''])
    assert.is(await refusal(ask('', await proof(id, { sub }))), UNKNOWN, JSON.stringify(sub))
  const { client_assertion } = await proof(id)
  assert.is(await refusal(ask(id, { client_assertion })), '400 invalid_request')
  const saml = 'urn:ietf:params:oauth:client-assertion-type:saml2-bearer'
  assert.is(await refusal(ask(id, { client_assertion, client_assertion_type: saml })), '400 invalid_request')
  assert.is(await refusal(ask(id, { client_secret: 'x', ...(await proof(id)) })), '400 invalid_request')
  const basic = { authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:x`).toString('base64')}` }
  const twice = { grant_type: 'refresh_token', refresh_token: 'x', ...(await proof(id)) }
  assert.is(await refusal(new TestClient(server.issuer).post('token', twice, basic)), '400 invalid_request')
  assert.is(await refusal(ask('somebody-else', await proof(id))), UNKNOWN)
  // An assertion does not authenticate a client without a key.
  const open = publish('open', { token_endpoint_auth_method: 'none' })
  assert.is(await refusal(ask(open, await proof(open))), UNKNOWN)
  assert.is(await refusal(ask(open, {})), KNOWN)
})

test('each algorithm that the metadata lists works, and weak keys do not', async () => {
  const url = `${server.issuer}/.well-known/oauth-authorization-server`
  const metadata = (await (await fetch(url)).json()) as Record<string, readonly string[]>
  const listed = metadata['token_endpoint_auth_signing_alg_values_supported'] as readonly string[]
  assert.equal(listed, ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])
  for (const endpoint of ['token', 'revocation', 'introspection'])
    assert.ok(metadata[`${endpoint}_endpoint_auth_methods_supported`]?.includes('private_key_jwt'))
  const pairs = await Promise.all(
    listed.map(async (alg) => [alg, await generateKeyPair(alg, { extractable: true })] as const),
  )
  const { subtle } = globalThis.crypto
  const short = {
    name: 'RSASSA-PKCS1-v1_5',
    modulusLength: 1024,
    publicExponent: Uint8Array.of(1, 0, 1),
    hash: 'SHA-256',
  }
  const weak = await subtle.generateKey(short, true, ['sign', 'verify'])
  const keys = await Promise.all(pairs.map(([alg, pair]) => exportKey(pair, { kid: alg })))
  const id = publish('each', {
    token_endpoint_auth_signing_alg: undefined,
    jwks: { keys: [...keys, { ...(await subtle.exportKey('jwk', weak.publicKey)), kid: 'weak' }] },
  })
  for (const [alg, { privateKey: key }] of pairs)
    assert.is(await refusal(ask(id, await proof(id, {}, { alg, kid: alg, key }))), KNOWN, alg)
  for (const [alg, { privateKey: key }] of pairs) {
    const valid = await mintAssertion(id, {}, { alg, kid: alg, key })
    const [head, , signature = ''] = valid.split('.')
    const [, other] = (await mintAssertion(id)).split('.')
    for (const [what, text] of Object.entries({
      'the signature of another assertion': `${head}.${other}.${signature}`,
      'a cut signature': valid.slice(0, -4),
      'an empty signature': valid.slice(0, -signature.length),
      'a signature of nothing': `${head}.${other}.${Buffer.alloc(64).toString('base64url')}`,
    }))
      assert.is(
        await refusal(ask(id, { client_assertion: secret(text), client_assertion_type: TYPE })),
        UNKNOWN,
        `${alg}: ${what}`,
      )
  }
  const inDer = `${encode('{"alg":"ES256","kid":"ES256"}')}.${(await mintAssertion(id)).split('.')[1]}`
  const es256 = unwrap(pairs.find(([alg]) => alg === 'ES256'))[1].privateKey
  for (const [dsaEncoding, expected] of [
    ['der', UNKNOWN],
    ['ieee-p1363', KNOWN],
  ] as const) {
    const signature = sign('sha256', Buffer.from(inDer), { key: KeyObject.from(es256), dsaEncoding })
    const text = secret(`${inDer}.${signature.toString('base64url')}`)
    assert.is(await refusal(ask(id, { client_assertion: text, client_assertion_type: TYPE })), expected, dsaEncoding)
  }
  const signText = (text: string) => subtle.sign('RSASSA-PKCS1-v1_5', weak.privateKey, Buffer.from(text))
  const head = Buffer.from('{"alg":"RS256","kid":"weak"}').toString('base64url')
  const text = `${head}.${(await mintAssertion(id)).split('.')[1]}`
  const assertion = secret(`${text}.${Buffer.from(await signText(text)).toString('base64url')}`)
  assert.is(await refusal(ask(id, { client_assertion: assertion, client_assertion_type: TYPE })), UNKNOWN)
})

test('the plural field lists the ways of a client; a client that lists both may use either', async () => {
  const jwks = { keys: [await exportKey(rsa, { kid: 'k' })] }
  const both = publish('both', { token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'], jwks })
  assert.is(await refusal(ask(both, await proof(both))), KNOWN)
  assert.is(await refusal(ask(both, {})), KNOWN)
  assert.is(await refusal(ask(both, await proof(both, { aud: 'x' }))), UNKNOWN)
  const plural = publish('plural', {
    token_endpoint_auth_methods_supported: ['tls_client_auth', 'private_key_jwt'],
    token_endpoint_auth_method: 'none',
    jwks,
  })
  assert.is(await refusal(ask(plural, {})), UNKNOWN)
  assert.is(await refusal(ask(plural, await proof(plural))), KNOWN)
  const id = 'https://app.example/client.json'
  const document = { client_id: id, redirect_uris: [REDIRECT], token_endpoint_auth_method: 'private_key_jwt' }
  for (const [what, keys] of Object.entries({
    'no keys': {},
    'keys twice': { jwks, jwks_uri: 'https://app.example/keys' },
    'keys over http': { jwks_uri: 'http://app.example/keys' },
    'keys on loopback': { jwks_uri: 'http://127.0.0.1/keys' },
    'an address that is a list': { jwks_uri: ['https://app.example/keys'] },
    'no set': { jwks: [] },
    'an empty set': { jwks: { keys: [] } },
    'a key that takes long': { jwks: { keys: [{ kty: 'RSA', n: 'w'.repeat(2_731), e: 'AQAB' }] } },
    'a long exponent': { jwks: { keys: [{ ...(await exportKey(rsa, {})), e: 'w'.repeat(11) }] } },
    'a secret key': { jwks: { keys: [{ kty: 'oct', k: 'AAAA' }] } },
    'a private key': { jwks: { keys: [{ ...jwks.keys[0], d: 'x' }] } },
    'many keys': { jwks: { keys: Array(21).fill(jwks.keys[0]) } },
  }))
    assert.throws(() => readDocument({ ...document, ...keys }, id, RULES), /private_key_jwt|jwks/, what)
})

test('keys are fetched like documents: bounded, without redirects, and not again at once', async () => {
  const log = pino({ level: 'silent' })
  const keys = new ClientKeys({ isLocal: true, log: () => log })
  const expectFailure = (url: string, of = keys) =>
    of.of(clientWith(url), 'k').then(
      () => assert.unreachable(url),
      ({ code }) => assert.is(code, 'unavailable', url),
    )
  const bodies: Readonly<Record<string, () => unknown>> = {
    '/moved': () => 302,
    '/gone': () => 404,
    '/large': () => ({ keys: [{ kty: 'RSA', n: 'x'.repeat(70_000) }] }),
    '/list': () => [],
    '/empty': () => ({ keys: [] }),
  }
  for (const [path, body] of Object.entries(bodies)) {
    served.set(path, body)
    await expectFailure(origin + path)
    await expectFailure(origin + path)
    assert.is(requests.get(path), 1, path)
  }
  const remote = new ClientKeys({ isLocal: false, log: () => log })
  for (const url of [`${origin}/inside`, 'https://169.254.169.254/keys', 'https://10.0.0.1/keys', 'https://[::1]/keys'])
    await expectFailure(url, remote)
  assert.is(requests.get('/inside'), undefined)
})

test('a withdrawn key works for five minutes at most; an unknown key id causes an occasional fetch at once', async () => {
  const log = pino({ level: 'silent' })
  using clock = stoppedClock()
  const keys = new ClientKeys({ isLocal: true, log: () => log })
  const client = clientWith(`${origin}/turning`)
  let kid = 'a'
  const [one, two] = [await exportKey(rsa, { kid: 'a' }), await exportKey(await generateKeyPair('RS256'), { kid: 'b' })]
  served.set('/turning', () => ({ keys: [kid === 'a' ? one : two] }))
  const findKey = (wanted: string) => keys.of(client, wanted)
  await findKey('a')
  kid = 'b'
  for (let count = 0; count < 100; count++) await findKey('b')
  assert.is(requests.get('/turning'), 1)
  clock.pass(31_000)
  for (let count = 0; count < 1000; count++) await findKey(`unknown-${count}`)
  assert.is(requests.get('/turning'), 2)
  clock.pass(31_000)
  await findKey('b')
  assert.is(requests.get('/turning'), 2)
  // The audit log records the change once, at whichever replica, even one that has never seen the key.
  const store = createMemoryStore()
  const changeAt = (at: ClientKeys) => new SeenKeys({ keys: at, store }).findChange(client, '192.0.2.1')
  assert.is(await changeAt(keys), undefined)
  kid = 'a'
  clock.pass(5 * 60_000)
  await findKey('a')
  assert.is(requests.get('/turning'), 3)
  const others = new ClientKeys({ isLocal: true, log: () => log })
  await others.of(client, 'a')
  assert.equal(await changeAt(others), { added: 1, removed: 1, kept: 0 })
  assert.is(await changeAt(keys), undefined)
})

test.run()
