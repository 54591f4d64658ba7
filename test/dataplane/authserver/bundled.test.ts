/** Tests the shipped bundle: oidc-provider names its records after its classes, which a bundler may rename. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { readTokens, SCOPES, TestClient } from '../../support/identity/auth-server.ts'
import { startLoginProvider } from '../../support/identity/login-provider.ts'
import { freePort } from '../../support/network/free-port.ts'
import { writeBundle } from '../../support/portico-program.ts'

test('a user logs in at a gateway that runs from the bundle', async () => {
  using folder = temporaryFolder({})
  writeBundle(join(folder.path, 'dist'))
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const upstream = await startLoginProvider([`${issuer}/oauth/callback`])
  const { id: clientId, secret } = upstream.client
  const oidcConfig = { issuerUrl: upstream.issuer, clientId, clientSecretFile: 'secret', scopes: ['openid'] }
  const config = {
    ...{ name: 'bundled', namespace: 'default', role: 'gateway', backends: [], resourceUrl: `${issuer}/mcp` },
    incomingAuth: { type: 'oidc', oidc: { issuer, audience: `${issuer}/mcp` } },
    authServer: { issuer, scopes: SCOPES, upstreamProviders: [{ name: 'corp', type: 'oidc', oidcConfig }] },
  }
  writeFileSync(join(folder.path, 'secret'), secret)
  writeFileSync(join(folder.path, 'gateway.json'), JSON.stringify(config))
  const listeners = ['--listen', `127.0.0.1:${port}`, '--admin-listen', '127.0.0.1:0']
  const command = ['serve', 'gateway', '--config', join(folder.path, 'gateway.json'), ...listeners]
  const child = spawn(process.execPath, [join(folder.path, 'dist/portico.js'), ...command], { stdio: 'ignore' })
  try {
    const metadata = `${issuer}/.well-known/oauth-authorization-server`
    await eventually('it serves', () =>
      fetch(metadata).then(
        ({ ok }) => ok,
        () => false,
      ),
    )
    const client = await TestClient.register(issuer)
    const tokens = await client.login({ scope: 'openid tools:call' })
    assert.is((await readTokens(await client.refresh(tokens.refresh_token))).scope, 'openid tools:call')
  } finally {
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
    await upstream.close()
  }
})

test.run()
