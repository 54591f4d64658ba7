import { Buffer } from 'node:buffer'
import { createHmac } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Caller } from '../../../dataplane/identity/caller.ts'
import { createAuthenticate } from '../../../dataplane/identity/index.ts'
import type { Provider } from '../../../dataplane/identity/issuers.ts'
import { verifyTokens } from '../../../dataplane/identity/verify.ts'
import { PublicError } from '../../../dataplane/server/errors.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { eventually } from '../../support/eventually.ts'
import { recordLog } from '../../support/kept-log.ts'
import { type IdentityProvider, startIdentityProvider } from '../../support/network/identity-provider.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

const METADATA = 'https://gateway.example/.well-known/oauth-protected-resource/mcp'
const AUDIENCE = 'https://gateway.example/mcp'

const cleanups: (() => Promise<unknown>)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const start = async (...options: Parameters<typeof startIdentityProvider>) => {
  const provider = await startIdentityProvider(...options)
  cleanups.push(() => provider.close())
  return provider
}

const authenticate = (providers: readonly Partial<Provider>[], log = recordLog().log) => {
  const verify = verifyTokens(
    providers.map((provider) => ({ audience: AUDIENCE, ...provider }) as Provider),
    {
      realm: 'https://idp.example',
      scopes: ['mcp:read', 'mcp:write'],
      resourceMetadataUrl: () => METADATA,
      log,
      observe: observeNothing,
    },
  )
  cleanups.push(() => verify.close())
  return async (authorization: string | undefined): Promise<Caller> => verify(authorization)
}

const refusal = async (promise: Promise<unknown>): Promise<PublicError> => {
  try {
    await promise
  } catch (error) {
    assert.instance(error, PublicError)
    return error as PublicError
  }
  return assert.unreachable('it was accepted') as never
}
const readChallenge = (error: PublicError): string => error.headers?.['WWW-Authenticate'] ?? ''

test('a good token gives a caller with its claims as they stood', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  for (const algorithm of ['RS256', 'ES256'] as const) {
    const token = await idp.mint({ aud: AUDIENCE, groups: ['a', 'b'], nested: { deep: 1 } }, { algorithm })
    const caller = await verify(`Bearer ${token}`)
    assert.equal(caller.kind, 'authenticated')
    if (caller.kind !== 'authenticated') return
    assert.is(caller.subject, 'alice')
    assert.is(caller.issuer, idp.issuer)
    assert.equal(caller.claims['groups'], ['a', 'b'])
    assert.equal(caller.claims['nested'], { deep: 1 })
    assert.is(caller.expiresAt, caller.claims['exp'])
  }
})

test('the scheme is read in any case, the audience may be one of several', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  const token = await idp.mint({ aud: ['https://other.example', AUDIENCE] })
  for (const scheme of ['Bearer', 'bearer', 'BEARER'])
    assert.is((await verify(`${scheme} ${token}`)).kind, 'authenticated')
})

test('without a token the challenge has no error', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  for (const authorization of [undefined, 'Basic YTpi', '', 'Bearerish x']) {
    const error = await refusal(verify(authorization))
    assert.is(error.status, 401)
    assert.is(
      readChallenge(error),
      `Bearer realm="https://idp.example", resource_metadata="${METADATA}", scope="mcp:read mcp:write"`,
    )
  }
})

const nowInSeconds = () => Math.floor(Date.now() / 1000)
const badClaims: readonly (readonly [string, (idp: IdentityProvider) => Record<string, unknown>, RegExp])[] = [
  ['another audience', () => ({ aud: 'https://other.example' }), /not meant for this server/],
  ['no audience', () => ({ aud: undefined }), /not meant for this server/],
  ['another issuer', () => ({ aud: AUDIENCE, iss: 'https://evil.example' }), /not valid/],
  ['its issuer with a slash', (idp) => ({ aud: AUDIENCE, iss: `${idp.issuer}/` }), /not valid/],
  ['no issuer', () => ({ aud: AUDIENCE, iss: undefined }), /not valid/],
  ['no expiry', () => ({ aud: AUDIENCE, exp: undefined }), /lacks a claim/],
  ['expiry as text', () => ({ aud: AUDIENCE, exp: String(nowInSeconds() + 60) }), /./],
  ['an expiry 30 s ago', () => ({ aud: AUDIENCE, exp: nowInSeconds() - 30 }), /has expired/],
  ['a beginning in 31 s', () => ({ aud: AUDIENCE, nbf: nowInSeconds() + 31 }), /not valid yet/],
  ['no subject', () => ({ aud: AUDIENCE, sub: undefined }), /lacks a claim/],
  ['an empty subject', () => ({ aud: AUDIENCE, sub: '' }), /lacks a claim/],
  ['a number as subject', () => ({ aud: AUDIENCE, sub: 7 }), /lacks a claim/],
]
for (const [what, claims, description] of badClaims)
  test(`a token with ${what} is refused`, async () => {
    using _clock = stoppedClock()
    const idp = await start()
    const error = await refusal(authenticate([idp])(`Bearer ${await idp.mint(claims(idp))}`))
    assert.is(error.code, 'unauthenticated')
    assert.match(readChallenge(error), /error="invalid_token"/)
    assert.match(readChallenge(error), description)
    assert.not.match(JSON.stringify([error.message, error.headers]), /evil|other\.example/)
  })

test('clocks may differ by 30 s', async () => {
  using _clock = stoppedClock()
  const idp = await start()
  const verify = authenticate([idp])
  await verify(`Bearer ${await idp.mint({ aud: AUDIENCE, exp: nowInSeconds() - 29 })}`)
  await verify(`Bearer ${await idp.mint({ aud: AUDIENCE, nbf: nowInSeconds() + 29 })}`)
})

test('types of token', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  for (const typ of ['at+jwt', 'application/at+jwt', 'AT+JWT', 'JWT', 'jwt', undefined])
    await verify(`Bearer ${await idp.mint({ aud: AUDIENCE }, { header: { typ } })}`)
  for (const typ of ['logout+jwt', 'dpop+jwt', 'secevent+jwt', ''])
    await refusal(verify(`Bearer ${await idp.mint({ aud: AUDIENCE }, { header: { typ } })}`))
})

test('forged and malformed tokens are refused', async () => {
  const idp = await start()
  const stranger = await start()
  const verify = authenticate([idp])
  const good = await idp.mint({ aud: AUDIENCE })
  const [header = '', payload = '', signature = ''] = good.split('.')
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const none = `${encode({ alg: 'none' })}.${payload}.`
  const { keys } = (await (await fetch(idp.jwksUrl)).json()) as { keys: { kid: string; alg: string }[] }
  const hmacHeader = encode({ alg: 'HS256', kid: keys[0]?.kid, typ: 'JWT' })
  const hmac = createHmac('sha256', JSON.stringify(keys[0])).update(`${hmacHeader}.${payload}`).digest('base64url')
  const tampered = encode({ iss: idp.issuer, aud: AUDIENCE, sub: 'root', exp: nowInSeconds() + 100 })
  for (const [what, token] of [
    ['alg none', none],
    ['an HMAC with the public key', `${hmacHeader}.${payload}.${hmac}`],
    ['another payload', `${header}.${tampered}.${signature}`],
    ['a flipped signature', `${header}.${payload}.${signature.slice(0, -4)}AAAA`],
    ['somebody else’s key', await stranger.mint({ iss: idp.issuer, aud: AUDIENCE })],
    ['unknown critical header', await idp.mint({ aud: AUDIENCE }, { header: { crit: ['x'], x: 1 } }).catch(() => none)],
    ['an opaque token', 'abcdef0123456789'],
    ['two dots', 'a.b.c'],
    ['nothing', ''],
    ['two tokens', `${good}, Bearer ${good}`],
    ['white space', `${header} ${payload}`],
  ] as const) {
    const error = await refusal(verify(`Bearer ${token}`))
    assert.is(error.code, 'unauthenticated', what)
    assert.match(readChallenge(error), /error="invalid_token"/, what)
  }
})

for (const discovery of ['suffixed', 'oauth-inserted', 'openid-inserted'] as const)
  test(`an issuer with a path is discovered: ${discovery}`, async () => {
    const idp = await start({ path: '/tenants/a', discovery })
    await authenticate([{ issuer: idp.issuer }])(`Bearer ${await idp.mint({ aud: AUDIENCE })}`)
  })

test('keys are taken from the configured place without discovery', async () => {
  const idp = await start({ discovery: 'none' })
  await authenticate([{ issuer: idp.issuer, jwksUrl: idp.jwksUrl }])(`Bearer ${await idp.mint({ aud: AUDIENCE })}`)
  assert.equal([...idp.requests.keys()], ['/keys'])
})

for (const [what, options] of [
  ['that names another issuer', { namedIssuer: 'https://evil.example' }],
  ['whose keys would go over plain http', { jwksUri: 'http://192.0.2.1/keys' }],
  ['whose keys are on a metadata address', { jwksUri: 'https://169.254.169.254/keys' }],
  ['whose keys are at no URL', { jwksUri: 'file:///etc/passwd' }],
] as const)
  test(`a discovery document ${what} is not believed`, async () => {
    const idp = await start(options)
    const error = await refusal(authenticate([{ issuer: idp.issuer }])(`Bearer ${await idp.mint({ aud: AUDIENCE })}`))
    assert.is(error.code, 'unavailable')
  })

test('rotated keys are found with one fetch, however many tokens ask', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  await verify(`Bearer ${await idp.mint({ aud: AUDIENCE })}`)
  const before = idp.requests.get('/keys') ?? 0
  await idp.rotate()
  const tokens = await Promise.all([1, 2, 3, 4].map(() => idp.mint({ aud: AUDIENCE })))
  await Promise.all(tokens.map((token) => verify(`Bearer ${token}`)))
  assert.is(idp.requests.get('/keys'), before + 1)
})

test('a new key that can’t be fetched now gets 503, not 401', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  await verify(`Bearer ${await idp.mint({ aud: AUDIENCE })}`)
  await idp.rotate()
  idp.behaviour = 'error'
  for (let index = 0; index < 3; index++)
    assert.is((await refusal(verify(`Bearer ${await idp.mint({ aud: AUDIENCE })}`))).code, 'unavailable')
})

test('invented key ids don’t cause a fetch each', async () => {
  using _clock = stoppedClock()
  const idp = await start()
  const verify = authenticate([idp])
  await verify(`Bearer ${await idp.mint({ aud: AUDIENCE })}`)
  const before = idp.requests.get('/keys') ?? 0
  for (let index = 0; index < 20; index++)
    await refusal(verify(`Bearer ${await idp.mint({ aud: AUDIENCE }, { header: { kid: `invented-${index}` } })}`))
  assert.is(idp.requests.get('/keys'), before + 1)
})

test('a token without a key id is tried with each key that fits', async () => {
  const idp = await start()
  await idp.rotate({ keepOld: true })
  const verify = authenticate([idp])
  await verify(`Bearer ${await idp.mint({ aud: AUDIENCE }, { header: { kid: undefined } })}`)
})

for (const behaviour of ['error', 'rubbish', 'redirects', 'huge'] as const)
  test(`an issuer that answers with ${behaviour} gives 503, then recovers by itself`, async () => {
    const idp = await start()
    idp.behaviour = behaviour
    const recorder = recordLog()
    const verify = authenticate([{ issuer: idp.issuer }], recorder.log)
    const token = await idp.mint({ aud: AUDIENCE })
    for (let index = 0; index < 5; index++) {
      const error = await refusal(verify(`Bearer ${token}`))
      assert.is(error.code, 'unavailable')
      assert.is(error.status, 503)
    }
    assert.is(recorder.lines.filter(({ level }) => level === 'warn').length, 1, 'one line an outage')
    idp.behaviour = 'fine'
    await eventually('the token is accepted', () =>
      verify(`Bearer ${token}`).then(
        () => true,
        () => false,
      ),
    )
    assert.is(recorder.lines.filter(({ level }) => level === 'info').length, 1)
  })

test('an issuer that is down at the start is found when it comes up', async () => {
  const idp = await startIdentityProvider()
  const token = await idp.mint({ aud: AUDIENCE })
  const { port, issuer } = idp
  await idp.close()
  const verify = authenticate([{ issuer }])
  assert.is((await refusal(verify(`Bearer ${token}`))).status, 503)
  assert.is((await refusal(verify(undefined))).status, 401, 'a missing token is not the issuer’s fault')
  const back = await start({ port })
  const fresh = await back.mint({ aud: AUDIENCE })
  await eventually('the token is accepted', () =>
    verify(`Bearer ${fresh}`).then(
      () => true,
      () => false,
    ),
  )
})

test('known keys stay in use while the issuer is down', async () => {
  const idp = await start()
  const verify = authenticate([idp])
  const [first, second] = [await idp.mint({ aud: AUDIENCE }), await idp.mint({ aud: AUDIENCE })]
  await verify(`Bearer ${first}`)
  idp.behaviour = 'error'
  await verify(`Bearer ${second}`)
})

test('a token is checked only by the providers of its own issuer', async () => {
  const [one, two] = [await start(), await start()]
  const verify = authenticate([
    { issuer: one.issuer },
    { issuer: two.issuer, audience: 'first' },
    { issuer: two.issuer, audience: 'second' },
  ])
  assert.is((await verify(`Bearer ${await one.mint({ aud: AUDIENCE })}`)).kind, 'authenticated')
  await verify(`Bearer ${await two.mint({ aud: 'first' })}`)
  await verify(`Bearer ${await two.mint({ aud: 'second' })}`)
  await refusal(verify(`Bearer ${await two.mint({ aud: AUDIENCE })}`))
  // A provider that is down does not affect the others.
  two.behaviour = 'error'
  await verify(`Bearer ${await one.mint({ aud: AUDIENCE })}`)
})

test('a provider whose keys can’t be fetched does not affect another one of the same issuer', async () => {
  const idp = await start()
  const gone = { issuer: idp.issuer, jwksUrl: `${idp.issuer}/nowhere`, audience: 'first' }
  const verify = authenticate([gone, { issuer: idp.issuer, audience: 'second' }])
  await verify(`Bearer ${await idp.mint({ aud: 'second' })}`)
  assert.is((await refusal(verify(`Bearer ${await idp.mint({ aud: 'first' })}`))).code, 'unavailable')
})

test('a verified token is not cached beyond its expiry', async () => {
  using clock = stoppedClock()
  const idp = await start()
  const verify = authenticate([idp])
  // With the clock skew of 30 s it expires in three seconds.
  const token = await idp.mint({ aud: AUDIENCE, exp: nowInSeconds() - 27 })
  await verify(`Bearer ${token}`)
  clock.pass(2_000)
  await verify(`Bearer ${token}`)
  clock.pass(1_000)
  assert.is((await refusal(verify(`Bearer ${token}`))).code, 'unauthenticated')
})

test('tokens are not logged, and the details of their errors only at debug', async () => {
  const idp = await start()
  const recorder = recordLog()
  const verify = authenticate([idp], recorder.log)
  const token = await idp.mint({ aud: 'https://other.example' })
  await refusal(verify(`Bearer ${token}`))
  recorder.log.error({ authorization: `Bearer ${token}`, err: new Error(`what of Bearer ${token}`) }, `text ${token}`)
  assert.not.match(recorder.text(), new RegExp(token.split('.')[2] as string))
})

test('the configuration of a gateway: anonymous, and files relative to its folder', async () => {
  const options = { resourceMetadataUrl: () => METADATA, log: recordLog().log, observe: observeNothing }
  const open = createAuthenticate({ type: 'anonymous' }, options)
  assert.equal(await open(undefined), { kind: 'anonymous' })
  assert.equal(await open('Bearer whatever'), { kind: 'anonymous' })

  const idp = await start({ requireBearer: 'service-account' })
  const { mkdtemp, writeFile, mkdir, rm } = await import('node:fs/promises')
  const { join } = await import('node:path')
  const { tmpdir } = await import('node:os')
  const root = await mkdtemp(join(tmpdir(), 'portico-identity-'))
  cleanups.push(() => rm(root, { recursive: true }))
  await mkdir(join(root, 'config'))
  await writeFile(join(root, 'token'), 'service-account\n')
  const guarded = createAuthenticate(
    { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, bearerTokenFile: '../token' } },
    { ...options, directory: join(root, 'config'), tokenFolder: root },
  )
  cleanups.push(() => guarded.close())
  assert.is((await guarded(`Bearer ${await idp.mint({ aud: AUDIENCE })}`)).kind, 'authenticated')
})

test.run()
