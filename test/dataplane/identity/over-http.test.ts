/** Tests authentication as callers see it, at a gateway and at a registry alike. */
import { createHmac } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeProtectedHeader, exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ProtectedServer, protectedGateway, protectedRegistry } from '../../support/identity/protected-servers.ts'
import {
  type IdentityProvider,
  introspectionClient,
  startIdentityProvider,
} from '../../support/network/identity-provider.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

const AUDIENCE = 'https://mcp.example'

let idp: IdentityProvider
let servers: readonly ProtectedServer[]
/** The server of the keys that a token itself names; it must get no request. */
let strangers: Server
const visits: string[] = []
/** Every token that was sent; no answer or log may contain any of them. */
const sent: string[] = []

test.before(async () => {
  idp = await startIdentityProvider()
  const { id, secret } = introspectionClient
  const issuer = { issuer: idp.issuer, audience: AUDIENCE, client: { id, secret } }
  servers = [await protectedGateway(issuer, { scopes: ['openid', 'offline_access'] }), await protectedRegistry(issuer)]
  strangers = createServer((request, response) => {
    visits.push(request.url ?? '')
    response.end('{"keys":[]}')
  })
  await new Promise<void>((resolve) => strangers.listen(0, '127.0.0.1', resolve))
})

test.after(async () => {
  await Promise.all(servers.map((server) => server.close()))
  await idp.close()
  strangers.close()
})

async function ask(server: ProtectedServer, token: string) {
  sent.push(token)
  return server.ask(`Bearer ${token}`)
}

/** Returns the challenge for a request without a token; `problem` is what it says about a given one. */
function readChallenge({ kind, realm, metadataUrl }: ProtectedServer, problem?: string): string {
  const scope = kind === 'gateway' ? ', scope="openid"' : ''
  const error = problem === undefined ? '' : `, error="invalid_token", error_description="${problem}"`
  return `Bearer realm="${realm}", resource_metadata="${metadataUrl}"${scope}${error}`
}

const nowInSeconds = () => Math.floor(Date.now() / 1000)

test('a good token is accepted, whatever the case of the scheme and the spaces around', async () => {
  for (const server of servers) {
    const token = await idp.mint({ aud: AUDIENCE })
    for (const header of [`Bearer ${token}`, `bearer ${token}`, `BEARER   ${token}`, `Bearer ${token} `])
      assert.is((await server.ask(header)).status, 200, `${server.kind}: ${header.slice(0, 10)}`)
  }
})

test('without a token the challenge has the metadata and no error', async () => {
  for (const server of servers) {
    for (const authorization of [undefined, 'Basic YTpi', 'Bearerish x', 'Token x', 'DPoP x', 'Negotiate']) {
      const { status, challenge } = await server.ask(authorization)
      assert.is(status, 401)
      assert.is(challenge, readChallenge(server), `${server.kind}: ${authorization}`)
    }
    for (const authorization of ['Bearer', 'Bearer  ', 'Bearer a b', 'Bearer a,b', 'Bearer é']) {
      const { status, challenge } = await server.ask(Buffer.from(authorization).toString('latin1'))
      assert.is(status, 401)
      assert.is(challenge, readChallenge(server, 'The token is malformed.'), `${server.kind}: ${authorization}`)
    }
  }
})

const NOT_VALID = 'The token is not valid.'
const NOT_MEANT = 'The token is not meant for this server.'
const LACKS = 'The token lacks a claim that is needed here.'
const refused: readonly (readonly [what: string, claims: () => Record<string, unknown>, problem: string])[] = [
  ['another audience', () => ({ aud: 'https://other.example' }), NOT_MEANT],
  ['an audience that begins like this one', () => ({ aud: `${AUDIENCE}/mcp` }), NOT_MEANT],
  ['an audience in capitals', () => ({ aud: AUDIENCE.toUpperCase() }), NOT_MEANT],
  ['an empty list of audiences', () => ({ aud: [] }), NOT_MEANT],
  ['an audience within a list', () => ({ aud: [[AUDIENCE]] }), NOT_MEANT],
  ['an audience as an object', () => ({ aud: { [AUDIENCE]: true } }), NOT_MEANT],
  ['an audience in a text with others', () => ({ aud: `other ${AUDIENCE}` }), NOT_MEANT],
  ['no audience', () => ({ aud: undefined }), NOT_MEANT],
  ['another issuer', () => ({ iss: 'https://evil.example' }), NOT_VALID],
  ['its issuer with a slash', () => ({ iss: `${idp.issuer}/` }), NOT_VALID],
  ['its issuer in a list', () => ({ iss: [idp.issuer] }), NOT_VALID],
  ['its issuer with blanks', () => ({ iss: ` ${idp.issuer} ` }), NOT_VALID],
  ['no issuer', () => ({ iss: undefined }), NOT_VALID],
  ['an end 31 s ago', () => ({ exp: nowInSeconds() - 31 }), 'The token has expired.'],
  ['no end', () => ({ exp: undefined }), LACKS],
  ['an end as text', () => ({ exp: String(nowInSeconds() + 60) }), LACKS],
  ['an end that is null', () => ({ exp: null }), LACKS],
  ['a beginning in 40 s', () => ({ nbf: nowInSeconds() + 40 }), 'The token is not valid yet.'],
  ['a beginning as text', () => ({ nbf: '0' }), 'The token is not valid yet.'],
  ['no subject', () => ({ sub: undefined }), LACKS],
  ['a number as subject', () => ({ sub: 7 }), LACKS],
  ['a list as subject', () => ({ sub: ['alice'] }), LACKS],
  ['an empty subject', () => ({ sub: '' }), LACKS],
  ['a subject with NUL', () => ({ sub: 'alice\0login' }), LACKS],
]
for (const [what, claims, problem] of refused)
  test(`a token with ${what} is refused, and never introspected`, async () => {
    using _clock = stoppedClock()
    for (const server of servers) {
      const before = idp.requests.get('/introspect')
      const { status, challenge } = await ask(server, await idp.mint({ aud: AUDIENCE, ...claims() }))
      assert.is(status, 401, server.kind)
      assert.is(challenge, readChallenge(server, problem), server.kind)
      assert.is(idp.requests.get('/introspect'), before)
    }
  })

test('a clock skew of 30 s is accepted either way', async () => {
  using _clock = stoppedClock()
  for (const server of servers) {
    assert.is((await ask(server, await idp.mint({ aud: AUDIENCE, exp: nowInSeconds() - 29 }))).status, 200)
    assert.is((await ask(server, await idp.mint({ aud: AUDIENCE, nbf: nowInSeconds() + 29 }))).status, 200)
  }
})

test('unknown claims of any type and depth are accepted', async () => {
  let deep: unknown = 'end'
  for (let level = 0; level < 500; level++) deep = [deep]
  const odd = {
    deep,
    __proto__: 1,
    constructor: { name: 1 },
    scope: { a: 1 },
    groups: null,
    '': 0,
    act: [],
    email: 1e300,
  }
  for (const server of servers) assert.is((await ask(server, await idp.mint({ aud: AUDIENCE, ...odd }))).status, 200)
})

/** Returns tokens forged with public knowledge alone. */
async function forgeries(): Promise<Record<string, string>> {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const good = await idp.mint({ aud: AUDIENCE })
  const [header = '', payload = '', signature = ''] = good.split('.')
  const { kid = '' } = decodeProtectedHeader(good)
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signWithHeader = (fields: object) =>
    new SignJWT({ iss: idp.issuer, aud: AUDIENCE, sub: 'root', exp: nowInSeconds() + 300 })
      .setProtectedHeader({ alg: 'RS256', kid, ...fields } as JWTHeaderParameters)
      .sign(privateKey)
  const { port } = strangers.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const { keys } = (await (await fetch(idp.jwksUrl)).json()) as { keys: { kid: string; n?: string }[] }
  const known = keys.find((key) => key.n !== undefined)
  const hmac = (secret: string) => {
    const start = `${encode({ alg: 'HS256', kid: known?.kid, typ: 'JWT' })}.${payload}`
    return `${start}.${createHmac('sha256', secret).update(start).digest('base64url')}`
  }
  const tampered = encode({ iss: idp.issuer, aud: AUDIENCE, sub: 'root', exp: nowInSeconds() + 100 })
  return {
    'alg none': `${encode({ alg: 'none', kid })}.${payload}.`,
    'alg nOnE': `${encode({ alg: 'nOnE', kid })}.${payload}.${signature}`,
    'an HMAC with the public key as JSON': hmac(JSON.stringify(known)),
    'an HMAC with its modulus': hmac(known?.n ?? ''),
    'the key embedded': await signWithHeader({ jwk: await exportJWK(publicKey) }),
    'a key of its own by URL': await signWithHeader({ jku: `${url}/keys` }),
    'a certificate by URL': await signWithHeader({ x5u: `${url}/certificate` }),
    'an unknown critical header': await idp
      .mint({ aud: AUDIENCE }, { header: { crit: ['x'], x: 1 } })
      .catch(() => `${encode({ alg: 'RS256', kid, crit: ['x'], x: 1 })}.${payload}.${signature}`),
    'another payload': `${header}.${tampered}.${signature}`,
    'another algorithm for its key': `${encode({ alg: 'PS256', kid })}.${payload}.${signature}`,
    'an algorithm that nobody has': `${encode({ alg: 'XX1', kid })}.${payload}.${signature}`,
    'an algorithm that is a list': `${encode({ alg: ['RS256'], kid })}.${payload}.${signature}`,
    'a type that is a number': await idp.mint({ aud: AUDIENCE }, { header: { typ: 7 } }),
    'a type of token made for something else': await idp.mint({ aud: AUDIENCE }, { header: { typ: 'logout+jwt' } }),
    'a key id that is an object': `${encode({ alg: 'RS256', kid: {} })}.${payload}.${signature}`,
    'an unknown key id': await idp.mint({ aud: AUDIENCE }, { header: { kid: 'unknown' } }),
    'a payload that is no object': `${header}.${encode([1])}.${signature}`,
    'a payload that is no JSON': `${header}.e30x.${signature}`,
    'no signature': `${header}.${payload}.`,
  }
}

test('forged tokens are refused, without fetching keys that they name or introspecting them', async () => {
  const before = idp.requests.get('/introspect')
  for (const [what, token] of Object.entries(await forgeries()))
    for (const server of servers) {
      const { status, challenge } = await ask(server, token)
      assert.is(status, 401, `${server.kind}: ${what}`)
      assert.match(challenge, 'error="invalid_token"')
    }
  assert.equal(visits, [])
  assert.is(idp.requests.get('/introspect'), before)
})

test('opaque tokens are introspected, and inactive or foreign ones are refused', async () => {
  for (const server of servers) {
    assert.is((await ask(server, idp.grant({ aud: AUDIENCE }))).status, 200)
    assert.is((await ask(server, idp.grant({ aud: [AUDIENCE, 'other'] }))).status, 200)
    const wrong = [{ active: false }, { active: 1 }, { exp: undefined }, { aud: 'https://other.example' }, { sub: 7 }]
    for (const claims of wrong) {
      const { status, challenge } = await ask(server, idp.grant({ aud: AUDIENCE, ...claims }))
      assert.is(status, 401, `${server.kind}: ${JSON.stringify(claims)}`)
      assert.is(challenge, readChallenge(server, NOT_VALID))
    }
  }
})

test('the metadata is where RFC 9728 says, for every origin, whatever Host and X-Forwarded-Host say', async () => {
  for (const { kind, base, resource } of servers) {
    const path = new URL(resource).pathname
    for (const suffix of ['', path]) {
      const url = `${base}/.well-known/oauth-protected-resource${suffix}`
      const headers = { origin: 'https://inspector.example', 'x-forwarded-host': 'evil.example' }
      const answer = await fetch(url, { headers })
      assert.is(answer.headers.get('access-control-allow-origin'), '*', url)
      assert.equal(await answer.json(), {
        resource,
        authorization_servers: [idp.issuer],
        bearer_methods_supported: ['header'],
        ...(kind === 'gateway' ? { scopes_supported: ['openid'] } : {}),
      })
      const preflightHeaders = { ...headers, 'access-control-request-method': 'GET' }
      const preflight = await fetch(url, { method: 'OPTIONS', headers: preflightHeaders })
      assert.is(preflight.status, 204, url)
    }
    for (const unknown of ['oauth-protected-resource/other', 'oauth-protected-resource/mcp/x', 'unknown']) {
      const answer = await fetch(`${base}/.well-known/${unknown}`)
      assert.is(answer.status, 404, `${kind}: ${unknown}`)
      assert.match(answer.headers.get('content-type') ?? '', 'application/json')
    }
  }
})

test('proxy headers change neither the challenge nor the decision', async () => {
  const headers = {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'http',
    forwarded: 'host=evil.example',
    'x-original-url': '/evil',
  }
  for (const server of servers) assert.is((await server.ask(undefined, headers)).challenge, readChallenge(server))
})

test('neither tokens nor the client’s secret are in answers or logs', async () => {
  sent.push(introspectionClient.secret)
  const answers = await Promise.all(servers.flatMap((server) => sent.slice(-40).map((token) => ask(server, token))))
  const texts = [...servers.map((server) => server.log()), ...answers.map(({ text, challenge }) => text + challenge)]
  const secrets = sent.flatMap((token) => [token, token.split('.')[2] ?? token]).filter((secret) => secret.length > 8)
  for (const text of texts) for (const secret of secrets) assert.not.ok(text.includes(secret), secret.slice(0, 12))
})

test.run()
