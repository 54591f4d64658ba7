/** Checks under which address a gateway counts invalid tokens. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type IdentityProvider,
  introspectionClient,
  startIdentityProvider,
} from '../../../support/network/identity-provider.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

let idp: IdentityProvider
test.before(async () => {
  idp = await startIdentityProvider()
})
test.after(() => idp.close())

type Bring = (forwardedFor?: string) => Promise<number>

async function serve(trustProxyHeaders: boolean, use: (bring: Bring) => Promise<void>): Promise<void> {
  const introspection = {
    url: idp.introspectionUrl,
    clientId: introspectionClient.id,
    clientSecretFile: 'client-secret',
  }
  const oidc = { issuer: idp.issuer, audience: 'a', allowPrivateIP: true, introspection }
  const gateway = await startGateway(
    {
      backends: [],
      resourceUrl: 'http://tools.example.com/mcp',
      trustProxyHeaders,
      incomingAuth: { type: 'oidc', oidc },
    },
    (directory) => writeFile(join(directory, 'client-secret'), introspectionClient.secret),
  )
  let count = 0
  using _clock = stoppedClock()
  try {
    // Each request has another invalid token.
    await use(async (forwardedFor) => {
      const headers: Record<string, string> = { authorization: `Bearer wrong-${trustProxyHeaders}-${count++}` }
      if (forwardedFor !== undefined) headers['x-forwarded-for'] = forwardedFor
      return (await postModern(gateway.url, 'tools/list', {}, headers)).status
    })
  } finally {
    await gateway.close()
  }
}

async function untilRefused(bring: Bring, from: (index: number) => string): Promise<void> {
  let status = 401
  for (let index = 0; index < 60 && status === 401; index++) status = await bring(from(index))
  assert.is(status, 429)
}

test('behind a trusted proxy the address is the one that the proxy saw', () =>
  serve(true, async (bring) => {
    await untilRefused(bring, (index) => `198.51.100.${index}, 203.0.113.1`)
    assert.is(await bring('203.0.113.1'), 429)
    assert.is(await bring('203.0.113.1, 203.0.113.2'), 401)
    // If the header has no address, the proxy's own is counted.
    assert.is(await bring('unknown'), 401)
    assert.is(await bring(), 401)
  }))

test('otherwise the address is the peer’s, whatever the headers say', () =>
  serve(false, async (bring) => {
    await untilRefused(bring, (index) => `203.0.113.${index}`)
    assert.is(await bring('203.0.113.250'), 429)
    assert.is(await bring(), 429)
  }))

test.run()
