/** The MCP conformance suite's scenarios for authorization servers. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { listFailures, runAuthorizationScenarios } from '../../../support/gateway/conformance.ts'
import { startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { freePort } from '../../../support/network/free-port.ts'

test('every scenario passes and none is skipped', async () => {
  const server = await startAuthServer()
  try {
    const port = await freePort()
    const client = await TestClient.register(server.issuer, { redirect_uris: [`http://127.0.0.1:${port}/callback`] })
    const options = { issuer: server.issuer, clientId: client.id, resource: server.resource, port }
    const results = await runAuthorizationScenarios(options, async (url) => {
      const end = await client.agent.follow(url, (at) => new URL(at).port === String(port))
      secret(new URL(end.url).searchParams.get('code') ?? '')
      await (await fetch(end.url)).text()
    })
    assert.equal(
      [...results.keys()].sort(),
      ['code-grant', 'server-metadata-endpoint'].map((name) => `authorization-server-authorization-${name}`),
    )
    for (const [scenario, checks] of results) {
      assert.equal(listFailures(checks), [], scenario)
      assert.ok(
        checks.some(({ status }) => status === 'SUCCESS'),
        scenario,
      )
      assert.not.ok(
        checks.some(({ status }) => status === 'SKIPPED'),
        scenario,
      )
    }
  } finally {
    await server.close()
  }
})

test.run()
