/** Checks that a reload does not affect callers of an unchanged issuer, even while that issuer is down. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createIdentity } from '../../../../dataplane/registry/settings/identity.ts'
import { observeNothing } from '../../../../dataplane/telemetry/observe.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { startIdentityProvider } from '../../../support/network/identity-provider.ts'

const AUDIENCE = 'https://registry.example'

test('known keys stay in use beside a new provider', async () => {
  const [idp, other] = [await startIdentityProvider(), await startIdentityProvider()]
  const identity = createIdentity({ log: recordLog().log, observe: observeNothing })
  const auth = (...issuers: string[]) => ({
    mode: 'oauth' as const,
    oauth: {
      resourceUrl: AUDIENCE,
      providers: issuers.map((issuerUrl, index) => ({ name: `p${index}`, issuerUrl, audience: AUDIENCE })),
    },
  })
  const actor = async (by: typeof idp) =>
    identity.identify(`Bearer ${await by.mint({ aud: AUDIENCE })}`, '/v0.1/servers')
  identity.apply(auth(idp.issuer), '.')
  await actor(idp)
  idp.behaviour = 'error'
  identity.apply(auth(other.issuer, idp.issuer), '.')
  assert.ok(await actor(idp))
  assert.ok(await actor(other))
  await identity.close()
  await Promise.all([idp.close(), other.close()])
})

test.run()
