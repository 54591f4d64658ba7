import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Authenticate } from '../../../dataplane/identity/index.ts'
import type { Provider } from '../../../dataplane/identity/issuers.ts'
import { verifyTokens } from '../../../dataplane/identity/verify.ts'
import type { PublicError } from '../../../dataplane/server/errors.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { recordLog } from '../../support/kept-log.ts'
import {
  type IdentityProvider,
  introspectionClient,
  startIdentityProvider,
} from '../../support/network/identity-provider.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

const AUDIENCE = 'https://registry.example'

let idp: IdentityProvider
let authenticate: Authenticate & { close(): Promise<void> }
const { log, text } = recordLog()
const folder = temporaryFolder({ 'client-secret': `${introspectionClient.secret}\n`, 'wrong-secret': 'guessed-secret' })
const clientSecretFile = `${folder.path}/client-secret`

const verifier = (...providers: Provider[]) =>
  verifyTokens(providers, { realm: 'test', resourceMetadataUrl: () => undefined, log, observe: observeNothing })
const provider = (rest: Partial<Provider> = {}): Provider => ({
  issuer: idp.issuer,
  audience: AUDIENCE,
  introspection: { clientId: introspectionClient.id, clientSecretFile, url: idp.introspectionUrl },
  ...rest,
})
const countRequests = () => idp.requests.get('/introspect') ?? 0
const call = async (token: string, by: Authenticate = authenticate) => by(`Bearer ${token}`)
const refusal = async (token: string, by: Authenticate = authenticate) => {
  try {
    await call(token, by)
  } catch (error) {
    return error as PublicError
  }
  throw new Error('it was accepted')
}

test.before(async () => {
  idp = await startIdentityProvider()
  authenticate = verifier(provider())
})
test.after(async () => {
  await authenticate.close()
  await idp.close()
  folder[Symbol.dispose]()
})

test('an opaque token that the issuer confirms gives its claims, and is introspected once', async () => {
  const token = idp.grant({ aud: ['other', AUDIENCE], sub: 'carol', team: 'platform' })
  const before = countRequests()
  const [caller] = await Promise.all([call(token), call(token)])
  await call(token)
  assert.is(countRequests() - before, 1)
  assert.is(caller.kind, 'authenticated')
  assert.is(caller.kind === 'authenticated' && caller.subject, 'carol')
  assert.is(caller.kind === 'authenticated' && caller.claims['team'], 'platform')
})

const nowInSeconds = () => Math.floor(Date.now() / 1000)
for (const [what, claims] of [
  ['not active', () => ({ active: false })],
  ['active by another word', () => ({ active: 'true' })],
  ['without an end', () => ({ exp: undefined })],
  ['over for longer than clocks differ', () => ({ exp: nowInSeconds() - 60 })],
  ['not valid yet', () => ({ nbf: nowInSeconds() + 120 })],
  ['for another audience', () => ({ aud: 'https://other.example' })],
  ['for no audience', () => ({ aud: undefined })],
  ['of another issuer', () => ({ iss: 'https://other.example' })],
  ['without a subject', () => ({ sub: undefined })],
  ['of a subject with NUL', () => ({ sub: 'alice\0login' })],
  ['bound to a key', () => ({ cnf: { jkt: '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I' } })],
  ['bound to a certificate', () => ({ cnf: { 'x5t#S256': 'bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2' } })],
  ['a refresh token', () => ({ token_use: 'refresh_token' })],
] as const)
  test(`an opaque token that is ${what} is refused`, async () => {
    const { code, headers } = await refusal(idp.grant({ aud: AUDIENCE, ...claims() }))
    assert.is(code, 'unauthenticated')
    assert.match(headers?.['WWW-Authenticate'] ?? '', /error="invalid_token"/)
  })

test('optional claims that are null count as absent', async () => {
  assert.is((await call(idp.grant({ aud: AUDIENCE, nbf: null, iss: null, token_use: null }))).kind, 'authenticated')
})

test('the audience of an opaque token may be in another claim', async () => {
  const byClient = verifier(provider({ audienceClaim: 'client_id' }))
  try {
    assert.is((await call(idp.grant({ aud: undefined, client_id: AUDIENCE }), byClient)).kind, 'authenticated')
    assert.is((await refusal(idp.grant({ client_id: 'other' }), byClient)).code, 'unauthenticated')
  } finally {
    await byClient.close()
  }
})

test('the clocks may differ by half a minute', async () => {
  assert.is((await call(idp.grant({ aud: AUDIENCE, exp: nowInSeconds() - 5 }))).kind, 'authenticated')
})

test('an unknown token is refused', async () => {
  assert.is((await refusal('no-such-token')).code, 'unauthenticated')
})

test('an invalid JWT is not introspected', async () => {
  const before = countRequests()
  for (const token of [
    await idp.mint({ aud: 'https://other.example' }),
    `${await idp.mint({ aud: AUDIENCE })}x`,
    await idp.mint({ aud: AUDIENCE, iss: 'https://other.example' }),
    'eyJhbGciOiJub25lIn0.e30.x',
  ])
    assert.is((await refusal(token)).code, 'unauthenticated')
  assert.is(countRequests(), before)
})

/** Returns the parts of a request that matter here. */
const requestFrom = (remoteAddress: string) => ({ headers: {}, socket: { remoteAddress } })
const readOutcome = async (by: Authenticate, token: string, address: string) => {
  try {
    await by(`Bearer ${token}`, requestFrom(address))
    return 'fine'
  } catch (error) {
    return (error as PublicError).code
  }
}

test('a refused token is introspected once in a while, however often it is sent', async () => {
  using _clock = stoppedClock()
  const before = countRequests()
  for (let time = 0; time < 20; time++) assert.is((await refusal('wrong-again-and-again')).code, 'unauthenticated')
  assert.is(countRequests() - before, 1)
})

test('an address that sends many wrong tokens is limited, and no other address is', async () => {
  using _clock = stoppedClock()
  const own = verifier(provider())
  const before = countRequests()
  const outcomes: string[] = []
  for (let index = 0; index < 200; index++) outcomes.push(await readOutcome(own, `wrong-${index}`, '203.0.113.7'))
  assert.ok(countRequests() - before <= 32, `${countRequests() - before} questions for 200 wrong tokens`)
  assert.is(outcomes.at(-1), 'rate_limited')
  assert.is(await readOutcome(own, 'wrong-elsewhere', '203.0.113.8'), 'unauthenticated')
  assert.is(await readOutcome(own, idp.grant({ aud: AUDIENCE }), '203.0.113.8'), 'fine')
  try {
    await own('Bearer one-more', requestFrom('203.0.113.7'))
    assert.unreachable()
  } catch (error) {
    const { status, headers } = error as PublicError
    assert.is(status, 429)
    assert.match(headers?.['Retry-After'] ?? '', /^[1-9]\d*$/)
  }
  await own.close()
})

test('all addresses of an IPv6 network together are limited in the same way', async () => {
  using _clock = stoppedClock()
  const own = verifier(provider())
  const before = countRequests()
  const outcomes = await Promise.all(
    Array.from({ length: 500 }, (_, index) => readOutcome(own, `many-${index}`, `2001:db8:1:2::${index.toString(16)}`)),
  )
  assert.ok(countRequests() - before <= 40, `${countRequests() - before} questions for 500 wrong tokens`)
  assert.equal([...new Set(outcomes)].sort(), ['rate_limited', 'unauthenticated'])
  await own.close()
})

test('good tokens do not count against an address, and wrong ones evict none of them', async () => {
  using _clock = stoppedClock()
  const own = verifier(provider())
  const tokens = Array.from({ length: 60 }, () => idp.grant({ aud: AUDIENCE }))
  for (const token of tokens) assert.is(await readOutcome(own, token, '203.0.113.9'), 'fine')
  const before = countRequests()
  for (let index = 0; index < 100; index++) await readOutcome(own, `stranger-${index}`, '203.0.113.10')
  const count = countRequests()
  for (const token of tokens) assert.is(await readOutcome(own, token, '203.0.113.9'), 'fine')
  assert.is(countRequests(), count)
  assert.ok(count > before)
  await own.close()
})

test('wrong tokens from the same address do not lock out callers with known tokens', async () => {
  using clock = stoppedClock()
  const own = verifier(provider())
  const token = idp.grant({ aud: AUDIENCE })
  assert.is(await readOutcome(own, token, '203.0.113.11'), 'fine')
  for (let index = 0; index < 40; index++) await readOutcome(own, `stranger-${index}`, '203.0.113.11')
  assert.is(await readOutcome(own, 'one-more-stranger', '203.0.113.11'), 'rate_limited')
  // Its result has expired, and the strangers have used up what their address had regained.
  clock.pass(61_000)
  for (let index = 0; index < 40; index++) await readOutcome(own, `later-${index}`, '203.0.113.11')
  assert.is(await readOutcome(own, 'another-stranger', '203.0.113.11'), 'rate_limited')
  const before = countRequests()
  assert.is(await readOutcome(own, token, '203.0.113.11'), 'fine')
  assert.is(countRequests() - before, 1)
  await own.close()
})

test('the endpoint is discovered if it is not configured', async () => {
  const found = verifier(provider({ introspection: { clientId: introspectionClient.id, clientSecretFile } }))
  assert.is((await call(idp.grant({ aud: AUDIENCE }), found)).kind, 'authenticated')
  await found.close()
})

test('an endpoint that has moved is found again', async () => {
  const found = verifier(provider({ introspection: { clientId: introspectionClient.id, clientSecretFile } }))
  assert.is((await call(idp.grant({ aud: AUDIENCE }), found)).kind, 'authenticated')
  const claims = { active: true, sub: 'alice', aud: AUDIENCE, exp: Math.floor(Date.now() / 1000) + 300 }
  const documents: Readonly<Record<string, object>> = {
    '/.well-known/openid-configuration': { issuer: idp.issuer, introspection_endpoint: `${idp.issuer}/moved` },
    '/moved': claims,
  }
  idp.intercept = ({ url = '' }, response) => {
    const document = documents[url]
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(document ?? {}))
    return true
  }
  try {
    assert.is((await refusal('moved-token', found)).code, 'unavailable')
    assert.is((await call('moved-token', found)).kind, 'authenticated')
  } finally {
    idp.intercept = undefined
    await found.close()
  }
})

test('without a configured client no opaque token is accepted', async () => {
  const without = verifier(provider({ introspection: undefined }))
  assert.is((await refusal(idp.grant({ aud: AUDIENCE }), without)).code, 'unauthenticated')
  await without.close()
})

test('an issuer with an invalid answer counts as down, and the next provider is still asked', async () => {
  const other = await startIdentityProvider()
  const both = verifier(
    provider(),
    provider({
      issuer: other.issuer,
      introspection: { clientId: introspectionClient.id, clientSecretFile, url: other.introspectionUrl },
    }),
  )
  for (const behaviour of ['error', 'rubbish', 'redirects', 'huge'] as const) {
    idp.behaviour = behaviour
    const { code, headers } = await refusal('some-token', both)
    assert.is(code, 'unavailable', behaviour)
    assert.is(headers?.['Retry-After'], '1')
    assert.is((await call(other.grant({ aud: AUDIENCE }), both)).kind, 'authenticated', behaviour)
  }
  idp.behaviour = 'fine'
  assert.is((await call(idp.grant({ aud: AUDIENCE }), both)).kind, 'authenticated')
  await both.close()
  await other.close()
})

test('a wrong client secret is the server’s fault, not the caller’s; no secret is in the log', async () => {
  const wrong = `${folder.path}/wrong-secret`
  const by = verifier(
    provider({
      introspection: { clientId: introspectionClient.id, clientSecretFile: wrong, url: idp.introspectionUrl },
    }),
  )
  const token = idp.grant({ aud: AUDIENCE })
  assert.is((await refusal(token, by)).code, 'unavailable')
  for (const secret of [token, 'guessed-secret', introspectionClient.secret]) assert.not.match(text(), secret)
  await by.close()
})

test.run()
