import { createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { CallerRequest } from '../../../dataplane/identity/caller.ts'
import type { Provider } from '../../../dataplane/identity/issuers.ts'
import { verifyTokens } from '../../../dataplane/identity/verify.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { recordLog } from '../../support/kept-log.ts'
import { type IdentityProvider, startIdentityProvider } from '../../support/network/identity-provider.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

/** Checks that a cached result applies only to the very same header, and no longer than the result for its token is valid. */

const AUDIENCE = 'https://gateway.example/mcp'
let idp: IdentityProvider
const cleanups: (() => unknown)[] = []
test.before(async () => {
  idp = await startIdentityProvider()
})
test.after(() => idp.close())
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const createVerifier = (provider: Partial<Provider>) => {
  const verifier = verifyTokens([{ issuer: idp.issuer, audience: AUDIENCE, ...provider } as Provider], {
    realm: 'r',
    resourceMetadataUrl: () => undefined,
    log: recordLog().log,
    observe: observeNothing,
  })
  cleanups.push(() => verifier.close())
  return verifier
}

const connection = (): CallerRequest => ({ headers: {}, socket: { remoteAddress: '127.0.0.1' } })
const bearer = async (claims = {}) => `Bearer ${await idp.mint({ aud: AUDIENCE, ...claims })}`
const readCode = async (attempt: () => unknown): Promise<string> => {
  try {
    await attempt()
    return 'ok'
  } catch (error) {
    return (error as { code: string }).code
  }
}

test('callers on one connection are distinguished, also if the headers differ in one character', async () => {
  const [verify, request] = [createVerifier({}), connection()]
  const headers = { ann: await bearer({ sub: 'ann' }), bob: await bearer({ sub: 'bob' }) }
  for (let round = 0; round < 3; round++)
    for (const [subject, header] of Object.entries(headers))
      for (let times = 0; times < 3; times++) {
        const caller = await verify(header, request)
        assert.is(caller.kind === 'authenticated' && caller.subject, subject)
      }
  assert.not.instance(verify(headers.bob, request), Promise)
  const signature = headers.bob.lastIndexOf('.') + 5
  const other = headers.bob[signature] === 'A' ? 'B' : 'A'
  const forged = headers.bob.slice(0, signature) + other + headers.bob.slice(signature + 1)
  assert.is(await readCode(() => verify(forged, request)), 'unauthenticated')
  assert.is(await readCode(() => verify(undefined, request)), 'unauthenticated')
  assert.is(await readCode(() => verify('Bearer', request)), 'unauthenticated')
  assert.is(await readCode(() => verify(headers.bob.slice(0, -1), request)), 'unauthenticated')
})

test('a token cached for a connection expires as it does elsewhere', async () => {
  using clock = stoppedClock()
  const [verify, request, header] = [createVerifier({}), connection(), await bearer()]
  for (let times = 0; times < 3; times++) await verify(header, request)
  assert.not.instance(verify(header, request), Promise)
  clock.pass(61_000)
  assert.instance(verify(header, request), Promise, 'it is verified again')
})

test('a revoked token is refused on its own connection too', async () => {
  let isRevoked = false
  const { keys } = (await (await fetch(`${idp.issuer}/keys`)).json()) as JSONWebKeySet
  const findKey = createLocalJWKSet({ keys })
  const local = { issuer: idp.issuer, findKey, isRevoked: () => isRevoked }
  const [verify, request, header] = [createVerifier({ local }), connection(), await bearer()]
  for (let times = 0; times < 3; times++) await verify(header, request)
  isRevoked = true
  assert.is(await readCode(() => verify(header, request)), 'unauthenticated')
  isRevoked = false
  assert.is(await readCode(() => verify(header, request)), 'ok')
})

test('a token without the scope is refused each time', async () => {
  const [verify, request] = [createVerifier({ scopes: ['tools:call'] }), connection()]
  const header = await bearer({ scope: 'openid' })
  for (let times = 0; times < 3; times++) assert.is(await readCode(() => verify(header, request)), 'insufficient_scope')
})

test.run()
