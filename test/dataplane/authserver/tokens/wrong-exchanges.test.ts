/** Tests token exchange and assertions (RFC 8693, RFC 7523) with wrong forms, claims of every type and invalid signatures. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  CompactEncrypt,
  CompactSign,
  decodeJwt,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  importJWK,
  SignJWT,
} from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { buildVariants, digest, type Variant } from '../../../support/gateway/wrong-values.ts'
import { type AuthServerUnderTest, readTokens, startAuthServer } from '../../../support/identity/auth-server.ts'
import { encodeForm, FORM, isOAuthError, notRefused } from '../../../support/identity/wrong-forms.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const JWT = 'urn:ietf:params:oauth:token-type:jwt'
const OTHER = 'https://other.example/mcp'
const KID = 'of-the-test'

const agentSecret = secret(randomBytes(24).toString('base64url'))
const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
const jwk = { ...(await exportJWK(publicKey)), kid: KID, alg: 'ES256', use: 'sig' }
const stranger = await generateKeyPair('ES256', { extractable: true })
const strangerJwk = await exportJWK(stranger.publicKey)

let idp: IdentityProvider
let server: AuthServerUnderTest
test.before(async () => {
  idp = await startIdentityProvider()
  // Uses our own keys, to sign what no library would.
  idp.intercept = (request, response) => {
    if (request.url !== '/keys') return false
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: [jwk] }))
    return true
  }
  server = await startAuthServer({
    authServer: {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      allowedAudiences: [OTHER],
      delegateClients: [
        { clientId: 'agent', clientSecretFile: 'agent', audiences: [OTHER], scopes: ['tools:call', 'tools:read'] },
      ],
      trustedIssuers: [
        {
          issuerUrl: idp.issuer,
          allowedDelegateClients: ['agent'],
          jwtBearerGrant: { maxAssertionAge: '2m', subjectBindings: [{ subject: 'ci', allowedResources: [OTHER] }] },
        },
      ],
    },
    prepare: (folder) => writeFile(join(folder, 'agent'), agentSecret),
  })
})
test.after(async () => {
  await server.close()
  await idp.close()
})

const client = { client_id: 'agent', client_secret: agentSecret }
const exchange = (token: string) => ({
  ...client,
  grant_type: EXCHANGE,
  subject_token: token,
  subject_token_type: JWT,
})
const bearer = (token: string) => ({ grant_type: BEARER, assertion: token })
const send = (fields: Readonly<Record<string, string>>) =>
  fetch(`${server.issuer}/oauth/token`, { method: 'POST', headers: { 'content-type': FORM }, body: encodeForm(fields) })

let count = 0
function claims() {
  const now = Math.floor(Date.now() / 1000)
  return { iss: idp.issuer, sub: 'ci', aud: server.issuer, iat: now, nbf: now, exp: now + 100, jti: `j${++count}` }
}
/** Signs any text. */
const sign = async (text: string, header: object = {}, key = privateKey) =>
  secret(
    await new CompactSign(new TextEncoder().encode(text))
      .setProtectedHeader({ alg: 'ES256', kid: KID, typ: 'JWT', ...header })
      .sign(key),
  )
const signClaims = (more: object = {}) => sign(JSON.stringify({ ...claims(), ...more }))

test('a correct exchange succeeds', async () => {
  for (const fields of [exchange(await signClaims()), bearer(await signClaims())]) {
    const { access_token: token } = await readTokens(await send(fields))
    assert.is(decodeJwt(token).sub, `${idp.issuer}#ci`)
  }
})

test('forms with wrong values are refused, and use nothing up', async () => {
  const url = `${server.issuer}/oauth/token`
  const optional = ['resource', 'scope']
  const target = { resource: OTHER, scope: 'tools:call' }
  const fields = { ...bearer(await signClaims()), ...target }
  assert.equal(await notRefused({ url, fields, optional }, isOAuthError), [])
  await readTokens(await send(fields))
  const actor = { actor_token: await signClaims({ sub: 'actor' }), actor_token_type: JWT }
  const type = { requested_token_type: 'urn:ietf:params:oauth:token-type:access_token' }
  const exchanged = { ...exchange(await signClaims()), ...target, ...actor, ...type, audience: OTHER }
  await readTokens(await send(exchanged))
  const wrong = { url, fields: exchanged, optional: [...optional, 'audience', 'requested_token_type'] }
  assert.equal(await notRefused(wrong, isOAuthError), [])
})

interface Actor {
  readonly sub: unknown
  readonly iss: unknown
  readonly act?: Actor
}

/** Classifies an answer and checks its form: an error is one of RFC 6749, and a token has the usual shape. */
async function outcome(response: Response, what: string): Promise<'a token' | 'an error'> {
  const text = await response.clone().text()
  if (response.status !== 200) {
    assert.ok(isOAuthError(response, text), `${what}: ${response.status} ${text.slice(0, 200)}`)
    return 'an error'
  }
  const {
    sub,
    aud,
    scope,
    act,
    tsid,
    exp = 0,
  } = decodeJwt<{ scope: string; act?: Actor; tsid?: unknown }>((await readTokens(response)).access_token)
  assert.ok(typeof sub === 'string' && sub.startsWith(`${idp.issuer}#`) && sub.length < 1024, what)
  assert.equal([aud, tsid], [OTHER, undefined], what)
  assert.match(scope, /^tools:(call|read)( tools:read)?$/, what)
  assert.ok(exp <= Date.now() / 1000 + 3601, what)
  for (let at = act; at !== undefined; at = at.act) {
    assert.ok(typeof at.sub === 'string' && typeof at.iss === 'string', what)
    for (const name of Object.keys(at)) assert.ok(['act', 'iss', 'sub'].includes(name), `${what}: ${name}`)
  }
  return 'a token'
}

const CLAIMS = () => ({
  ...claims(),
  scope: 'tools:call tools:read',
  client_id: 'agent',
  resource: OTHER,
  act: { sub: 'web', iss: 'https://idp.example', act: { sub: 'cli' } },
  may_act: { sub: 'agent', iss: server.issuer },
})
/** Returns half of the variants, the same ones each time. */
const half = (variants: readonly Variant[], part: number) => variants.filter(({ what }) => digest(what) % 2 === part)

for (const [name, fieldsOf, part] of [
  ['an exchange', exchange, 0],
  ['an assertion', bearer, 1],
] as const)
  test(`claims of every type: ${name}`, async () => {
    const outcomes = { 'a token': 0, 'an error': 0 }
    for (const { text, what } of half(buildVariants(CLAIMS()), part)) {
      // Each assertion gets a new `jti`.
      const own = text.replace(/"jti":"j\d+"/, `"jti":"j${++count}"`)
      outcomes[await outcome(await send(fieldsOf(await sign(own))), what)]++
    }
    assert.ok(outcomes['a token'] > 5 && outcomes['an error'] > 50, JSON.stringify(outcomes))
    for (const text of ['null', '[]', '"ci"', '1', '', '{', `{"sub":"ci"}${' '.repeat(20_000)}`, '\0', '\ufeff{}'])
      assert.is(await outcome(await send(fieldsOf(await sign(text))), text.slice(0, 20)), 'an error')
  })

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Returns tokens that no trusted issuer signed, or whose header claims too much. */
async function forgeries(evil: string): Promise<Readonly<Record<string, string>>> {
  const payload = claims()
  const text = JSON.stringify(payload)
  const [header = '', body = '', signature = ''] = (await sign(text)).split('.')
  const mac = (key: string | Uint8Array, alg = 'HS256') =>
    new SignJWT(payload)
      .setProtectedHeader({ alg, kid: KID, typ: 'JWT' })
      .sign(typeof key === 'string' ? new TextEncoder().encode(key) : key)
  const byStranger = (more: object) => sign(text, more, stranger.privateKey)
  const buildUnsigned = (alg: unknown) => `${part({ alg, kid: KID, typ: 'JWT' })}.${body}.`
  const encrypted = await new CompactEncrypt(new TextEncoder().encode(await sign(text)))
    .setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM', cty: 'JWT', kid: KID })
    .encrypt(await importJWK({ ...jwk, use: 'enc' }, 'ECDH-ES'))
  return {
    'alg none': buildUnsigned('none'),
    'alg None': buildUnsigned('None'),
    'alg nONE': buildUnsigned('nONE'),
    'alg none, with the signature': `${buildUnsigned('none')}${signature}`,
    'no alg': buildUnsigned(undefined),
    'alg that is a list': `${part({ alg: ['ES256'], kid: KID })}.${body}.${signature}`,
    'alg that is an object': `${part({ alg: { toString: 'ES256' }, kid: KID })}.${body}.${signature}`,
    'the public key as a secret, in PEM': await mac(await exportSPKI(publicKey)),
    'the public key as a secret, as JWK': await mac(JSON.stringify(jwk)),
    'the public key as a secret, its x': await mac(Buffer.from(jwk.x as string, 'base64url')),
    'HS512 with it': await mac(`${await exportSPKI(publicKey)}`.padEnd(64), 'HS512'),
    'an empty secret': await mac('\0'.repeat(32)),
    'the secret of the client': await mac(agentSecret),
    'a key of their own under the name of ours': await byStranger({}),
    'a key in the header': await byStranger({ jwk: strangerJwk }),
    'a key in the header, without a name': await byStranger({ jwk: strangerJwk, kid: undefined }),
    'keys at another address': await byStranger({ jku: `${evil}/keys`, kid: 'evil' }),
    'certificates at another address': await byStranger({ x5u: `${evil}/certificate`, kid: 'evil' }),
    'a certificate': await byStranger({ x5c: ['MIIB'], kid: 'evil' }),
    'a name that is a path': await byStranger({ kid: '../../../dev/null' }),
    'a name that is an object': `${part({ alg: 'ES256', kid: { a: 1 } })}.${body}.${signature}`,
    'a name with a NUL': await byStranger({ kid: `${KID}\0` }),
    'a header that has to be understood': `${part({ alg: 'ES256', kid: KID, crit: ['exp'], exp: 1 })}.${body}.${signature}`,
    'a body that is not encoded': `${part({ alg: 'ES256', kid: KID, b64: false, crit: ['b64'] })}.${text}.${signature}`,
    'a token in a token': await sign(await sign(text), { cty: 'JWT' }),
    'an encrypted one': encrypted,
    JSON: JSON.stringify({ payload: body, protected: header, signature }),
    'JSON with several signatures': JSON.stringify({ payload: body, signatures: [{ protected: header, signature }] }),
    'a signature of zeros': `${header}.${body}.${'A'.repeat(86)}`,
    'a signature in DER': `${header}.${body}.${Buffer.from('3006020100020100', 'hex').toString('base64url')}`,
    'four parts': `${header}.${body}.${signature}.${signature}`,
    'a line at its end': `${header}.${body}.${signature}\n`,
    'padding at its end': `${header}.${body}.${signature}==`,
    'a line in it': `${header}.\n${body}.${signature}`,
    'a type of another use': await sign(text, { typ: 'dpop+jwt' }),
    'a type that is an object': `${part({ alg: 'ES256', kid: KID, typ: {} })}.${body}.${signature}`,
  }
}

for (const [name, fieldsOf] of [
  ['subject_token', exchange],
  ['actor_token', (token: string) => ({ ...exchange(token), actor_token: token, actor_token_type: JWT })],
  ['assertion', bearer],
] as const)
  test(`invalid signatures: ${name}`, async () => {
    const evil = await startIdentityProvider()
    try {
      for (const [what, token] of Object.entries(await forgeries(evil.issuer))) {
        const own = fieldsOf(secret(token))
        // An actor's token is checked only after a valid subject token.
        const fields = name === 'actor_token' ? { ...own, subject_token: await signClaims() } : own
        assert.is(await outcome(await send(fields), what), 'an error', what)
      }
      assert.equal([...evil.requests.keys()], [])
    } finally {
      await evil.close()
    }
  })

test('the log has no failure of the gateway’s own', () => {
  assert.equal(
    server.gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
})

test.run()
