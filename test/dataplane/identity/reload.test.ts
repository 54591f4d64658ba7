import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Issuers, type Provider } from '../../../dataplane/identity/issuers.ts'
import { Retired } from '../../../dataplane/identity/retired.ts'
import { verifyTokens } from '../../../dataplane/identity/verify.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { recordLog } from '../../support/kept-log.ts'
import { startIdentityProvider } from '../../support/network/identity-provider.ts'

/** Checks that a configuration which leaves an issuer unchanged does not affect its users. */

const AUDIENCE = 'https://gateway.example/mcp'
const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const start = async (...options: Parameters<typeof startIdentityProvider>) => {
  const provider = await startIdentityProvider(...options)
  cleanups.push(() => provider.close())
  return provider
}

const createVerifier = (issuers: Issuers, ...providers: Partial<Provider>[]) => {
  const verifier = verifyTokens(
    providers.map((provider) => ({ audience: AUDIENCE, ...provider }) as Provider),
    { realm: 'r', resourceMetadataUrl: () => undefined, log: recordLog().log, observe: observeNothing, issuers },
  )
  cleanups.push(() => verifier.close())
  return verifier
}

const readCode = async (attempt: () => unknown): Promise<string> => {
  try {
    await attempt()
    return 'ok'
  } catch (error) {
    return (error as { code: string }).code
  }
}

test('known keys survive a reload while the issuer is down', async () => {
  const [idp, other] = [await start(), await start()]
  const issuers = new Issuers()
  const before = createVerifier(issuers, { issuer: idp.issuer })
  const bearer = async () => `Bearer ${await idp.mint({ aud: AUDIENCE })}`
  await before(await bearer())
  idp.behaviour = 'error'
  // Another issuer is added, and this one gets another audience.
  const after = createVerifier(issuers, { issuer: other.issuer }, { issuer: idp.issuer, audience: `${AUDIENCE}/2` })
  await before.close()
  assert.is(await readCode(async () => after(`Bearer ${await idp.mint({ aud: `${AUDIENCE}/2` })}`)), 'ok')
  assert.is(await readCode(async () => after(`Bearer ${await other.mint({ aud: AUDIENCE })}`)), 'ok')
  assert.is(idp.requests.get('/keys'), 1)
})

test('cached tokens are still accepted, but not for a provider that was changed or removed', async () => {
  const idp = await start()
  const issuers = new Issuers()
  const authorization = `Bearer ${await idp.mint({ aud: AUDIENCE })}`
  await createVerifier(issuers, { issuer: idp.issuer })(authorization)
  const same = createVerifier(issuers, { issuer: idp.issuer }, { issuer: `${idp.issuer}/x` })
  assert.not.instance(same(authorization), Promise, 'no signature is checked again')
  for (const provider of [{ issuer: idp.issuer, audience: 'another' }, { issuer: `${idp.issuer}/x` }])
    assert.is(await readCode(() => createVerifier(issuers, provider)(authorization)), 'unauthenticated')
  const unreachable = { issuer: idp.issuer, serviceAccount: { namespace: 'n' } }
  assert.is(await readCode(() => createVerifier(issuers, unreachable)(authorization)), 'unauthenticated')
})

test('a token that was refused is introspected again under the next configuration', async () => {
  const idp = await start()
  const issuers = new Issuers()
  const client = { url: idp.introspectionUrl }
  const authorization = `Bearer ${idp.grant({ aud: 'b' })}`
  const introspecting = (audience: string) =>
    createVerifier(issuers, {
      issuer: idp.issuer,
      audience,
      introspection: client,
    })
  idp.intercept = (_request, response) => {
    response.end(JSON.stringify({ active: true, sub: 's', aud: 'b', exp: Date.now() / 1000 + 60 }))
    return true
  }
  assert.is(await readCode(() => introspecting('a')(authorization)), 'unauthenticated')
  assert.is(await readCode(() => introspecting('b')(authorization)), 'ok')
})

test('a replaced provider is closed later, so that running introspections finish', async () => {
  let pending: ServerResponse | undefined
  const { promise: isAsked, resolve } = Promise.withResolvers<void>()
  const server = createServer((_request, response) => {
    pending = response
    resolve()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const issuers = new Issuers()
  const before = createVerifier(issuers, { issuer, jwksUrl: `${issuer}/keys`, introspection: { url: `${issuer}/ask` } })
  await isAsked
  const retired = new Retired((error) => assert.unreachable(String(error)))
  cleanups.push(() => retired.close())
  const answer = readCode(() => before('Bearer opaque'))
  retired.add(before)
  const { promise: again, resolve: askedAgain } = Promise.withResolvers<void>()
  server.on('request', () => askedAgain())
  await again
  pending?.end(JSON.stringify({ active: true, sub: 's', aud: AUDIENCE, exp: Date.now() / 1000 + 60 }))
  assert.is(await answer, 'ok')
})

test.run()
