/** Tests an OpenID Connect provider that sends metadata, keys, tokens and claims with values of every type. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { oidcUpstream } from '../../../../../dataplane/authserver/login/upstream/oidc-upstream.ts'
import { ProviderFault } from '../../../../../dataplane/authserver/login/upstream/provider-fault.ts'
import { type Upstream, UpstreamDenied } from '../../../../../dataplane/authserver/login/upstream/upstream.ts'
import { buildVariants, takeSample, type Variant } from '../../../../support/gateway/wrong-values.ts'

const REDIRECT = 'http://127.0.0.1:1/oauth/callback'
const CHECKS = { state: 'the-state', nonce: 'the-nonce', verifier: 'v'.repeat(43) }
const WORDS = 'words-of-the-provider'

const { privateKey, publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256', use: 'sig' }

let server: Server
let issuer: string
/** The answers by path; a path that is missing gets a valid provider's answer. */
let odd: Record<string, string> = {}

const idToken = (claims: object) => {
  const now = Math.floor(Date.now() / 1000)
  const usual = { iss: issuer, sub: 'user', aud: 'us', iat: now, exp: now + 600, nonce: CHECKS.nonce }
  return new SignJWT({ ...usual, ...claims }).setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(privateKey)
}
const metadata = () => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
  response_types_supported: ['code'],
  id_token_signing_alg_values_supported: ['ES256'],
  token_endpoint_auth_methods_supported: ['none'],
  authorization_response_iss_parameter_supported: false,
})
const userInfo = { sub: 'user', name: 'Some Person', email: 'person@example.com', more: WORDS }
const tokens = async (claims: object = {}) => ({
  access_token: 'an-access-token',
  token_type: 'Bearer',
  expires_in: 600,
  refresh_token: 'a-refresh-token',
  scope: 'openid profile',
  id_token: await idToken({ name: 'Some Person', email: 'person@example.com', ...claims }),
})

async function buildAnswer(path: string): Promise<string> {
  const answer = odd[path]
  if (answer !== undefined) return answer
  if (path === '/token') return JSON.stringify(await tokens())
  if (path === '/jwks') return JSON.stringify({ keys: [jwk] })
  return JSON.stringify(path === '/me' ? userInfo : metadata())
}

test.before(async () => {
  server = createServer((req, res) => {
    buildAnswer(req.url ?? '').then(
      (text) => res.writeHead(200, { 'content-type': 'application/json' }).end(text),
      () => res.destroy(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
test.before.each(() => {
  odd = {}
})
test.after(() => {
  server.closeAllConnections()
  server.close()
})

const open = (issuerUrl = issuer) =>
  oidcUpstream({
    name: 'corp',
    config: { issuerUrl, clientId: 'us', userInfoOverride: { endpointUrl: `${issuer}/me` } },
    directory: '/',
    redirectUri: REDIRECT,
  })
const isTextOrAbsent = (value: unknown) => value === undefined || (typeof value === 'string' && value.length <= 16_384)

/** Logs in and refreshes; each succeeds or fails with one of our own errors. */
async function outcome(upstream: Upstream, what: string): Promise<string> {
  const callback = new URLSearchParams({ code: 'c', state: CHECKS.state })
  try {
    await upstream.authorizationUrl(CHECKS)
    const { tokens: received, name, email } = await upstream.exchange(callback, CHECKS)
    assert.ok(received.subject !== '' && received.subject.length <= 256, what)
    assert.match(received.accessToken, /^[!-~]+$/, what)
    for (const value of [name, email, received.refreshToken, received.idToken]) assert.ok(isTextOrAbsent(value), what)
    assert.ok(received.expiresAt === undefined || received.expiresAt > Date.now(), what)
    assert.ok(received.scopes === undefined || received.scopes.every((scope) => typeof scope === 'string'), what)
    return 'a login'
  } catch (error) {
    return readMessage(error, what)
  }
}

function readMessage(error: unknown, what: string): string {
  if ((error as Error).name === 'Assertion') throw error
  assert.instance(error, Error, what)
  const { message } = error as Error
  assert.ok(message.length < 200 && !message.includes(WORDS), `${what}: ${message}`)
  return error instanceof UpstreamDenied ? 'denied' : 'an error'
}

async function tryVariants(
  path: string,
  variants: readonly Variant[],
  isKept: boolean,
): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {}
  let upstream = open()
  for (const { text, what } of variants) {
    odd = { [path]: text }
    if (!isKept) {
      await upstream.close()
      upstream = open()
    }
    const found = await outcome(upstream, `${path}: ${what}`)
    outcomes[found] = (outcomes[found] ?? 0) + 1
  }
  odd = {}
  // The earlier answers have not affected it.
  assert.is(await outcome(isKept ? upstream : open(), 'as it should be'), 'a login')
  await upstream.close()
  return outcomes
}

test('metadata', async () => {
  const outcomes = await tryVariants('/.well-known/openid-configuration', takeSample(buildVariants(metadata())), false)
  assert.ok((outcomes['an error'] ?? 0) > 10, JSON.stringify(outcomes))
})

test('an issuer with a trailing slash: if that makes a difference, the error shows both spellings', async () => {
  for (const [configured, named] of [
    ['', '/'],
    ['/', ''],
    ['/realm/', '/realm/'],
    ['/realm', '/realm/'],
    ['/realm/', '/realm'],
  ]) {
    const [own, theirs] = [`${issuer}${configured}`, `${issuer}${named}`]
    odd = {
      [`${configured?.replace(/\/$/, '')}/.well-known/openid-configuration`]: JSON.stringify({
        ...metadata(),
        issuer: theirs,
      }),
      '/token': JSON.stringify({ ...(await tokens()), id_token: await idToken({ iss: theirs }) }),
    }
    const upstream = open(own)
    if (configured === named || configured?.length === 0 || named?.length === 0)
      assert.is(await outcome(upstream, own), 'a login', own)
    else {
      const fault = await upstream.authorizationUrl(CHECKS).catch((error: unknown) => error)
      assert.instance(fault, ProviderFault)
      const { code, reported } = fault as ProviderFault
      assert.equal([code, reported.expected, reported.found], ['wrong_issuer', own, theirs])
    }
    await upstream.close()
  }
})

test('keys', async () => {
  const outcomes = await tryVariants('/jwks', takeSample(buildVariants({ keys: [jwk] })), false)
  assert.ok((outcomes['an error'] ?? 0) > 10, JSON.stringify(outcomes))
})

test('tokens', async () => {
  const outcomes = await tryVariants('/token', buildVariants(await tokens()), true)
  assert.ok((outcomes['an error'] ?? 0) > 20 && (outcomes['a login'] ?? 0) > 10, JSON.stringify(outcomes))
})

test('who the user is', async () => {
  const outcomes = await tryVariants('/me', buildVariants(userInfo), true)
  assert.ok((outcomes['an error'] ?? 0) > 10 && (outcomes['a login'] ?? 0) > 40, JSON.stringify(outcomes))
})

test('claims of the ID token', async () => {
  const good = JSON.parse(Buffer.from((await idToken({})).split('.')[1] ?? '', 'base64url').toString()) as object
  const variants: Variant[] = []
  for (const { text, what } of takeSample(buildVariants({ ...good, name: 'Some Person', email: 'x@example.com' }))) {
    let claims: object
    try {
      claims = JSON.parse(text) as object
      variants.push({ what, text: JSON.stringify({ ...(await tokens()), id_token: await signClaims(claims) }) })
    } catch {
      // A signer would refuse these claims, so they are sent unchanged under another signature.
      const parts = (await idToken({})).split('.')
      const id_token = [parts[0], Buffer.from(text).toString('base64url'), parts[2]].join('.')
      variants.push({ what, text: JSON.stringify({ ...(await tokens()), id_token }) })
    }
  }
  const outcomes = await tryVariants('/token', variants, true)
  assert.ok((outcomes['an error'] ?? 0) > 10 && (outcomes['a login'] ?? 0) > 5, JSON.stringify(outcomes))
})

test('invalid signatures of ID tokens', async () => {
  const stranger = await generateKeyPair('ES256', { extractable: true })
  const strangerJwk = await exportJWK(stranger.publicKey)
  const [header = '', body = '', signature = ''] = (await idToken({})).split('.')
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as JWTPayload
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signWith = (key: Parameters<SignJWT['sign']>[0], alg: string, more: object = {}) =>
    new SignJWT(claims).setProtectedHeader({ alg, kid: 'k', ...more }).sign(key)
  const evil = { jwk: strangerJwk, jku: `${issuer}/evil`, x5u: `${issuer}/evil` }
  odd = { '/evil': JSON.stringify({ keys: [{ ...strangerJwk, kid: 'evil' }] }) }
  const upstream = open()
  try {
    for (const [what, id_token] of Object.entries({
      none: `${part({ alg: 'none' })}.${body}.`,
      'none, with a signature': `${part({ alg: 'none' })}.${body}.${signature}`,
      'the public key as a secret': await signWith(new TextEncoder().encode(JSON.stringify(jwk)), 'HS256'),
      'the name of the client as a secret': await signWith(new TextEncoder().encode('us'.padEnd(32, '\0')), 'HS256'),
      'another key under its name': await signWith(stranger.privateKey, 'ES256'),
      'a key that comes along': await signWith(stranger.privateKey, 'ES256', { ...evil, kid: 'evil' }),
      'a key that comes along under its name': await signWith(stranger.privateKey, 'ES256', evil),
      'another body': `${header}.${part({ ...claims, sub: 'somebody' })}.${signature}`,
      'an algorithm that it does not name': await signWith((await generateKeyPair('RS256')).privateKey, 'RS256'),
      'another audience': await idToken({ aud: 'somebody' }),
      'another nonce': await idToken({ nonce: 'another' }),
      'another issuer': await idToken({ iss: `${issuer}/` }),
      'several audiences, of which another is meant': await idToken({ aud: ['us', 'them'], azp: 'them' }),
    })) {
      odd['/token'] = JSON.stringify({ ...(await tokens()), id_token })
      assert.is(await outcome(upstream, what), 'an error', what)
    }
    odd = {}
    assert.is(await outcome(upstream, 'as it should be'), 'a login')
  } finally {
    await upstream.close()
  }
})

test('metadata with internal addresses is not followed', async () => {
  for (const name of ['token_endpoint', 'jwks_uri'])
    for (const host of ['10.0.0.1', '169.254.169.254', '[fd00::1]', '[::ffff:10.0.0.1]', '2852039166']) {
      odd = { '/.well-known/openid-configuration': JSON.stringify({ ...metadata(), [name]: `https://${host}/x` }) }
      const upstream = open()
      const callback = new URLSearchParams({ code: 'c', state: CHECKS.state })
      const refused = await upstream.exchange(callback, CHECKS).catch((error: Error) => error.message)
      assert.match(String(refused), /ERR_ADDRESS_REFUSED/, `${name} ${host}`)
      await upstream.close()
    }
})

const signClaims = (claims: object) =>
  new SignJWT(claims as Record<string, unknown>).setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(privateKey)

test('a refresh', async () => {
  const upstream = open()
  try {
    for (const { text, what } of buildVariants(await tokens())) {
      odd = { '/token': text }
      try {
        const { refreshToken, ...rest } = await upstream.refresh('a-refresh-token')
        assert.ok(isTextOrAbsent(refreshToken) && refreshToken !== '', what)
        if ('tokens' in rest) assert.match(rest.tokens.accessToken, /^[!-~]+$/, what)
        else readMessage(rest.problem, what)
      } catch (error) {
        readMessage(error, what)
      }
    }
  } finally {
    await upstream.close()
  }
})

test.run()
