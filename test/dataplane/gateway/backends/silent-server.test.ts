/** Starts a proxy before the server in its pod. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { startMcpServer } from '../../../support/servers/dual-server.ts'

const startProxy = (url: string) => startGateway({ role: 'proxy', backends: [{ name: 'server', url }] })
const readiness = async (adminUrl: string) => {
  const response = await fetch(`${adminUrl}/readyz`)
  await response.text()
  return response.status
}

for (const era of ['modern', 'legacy'] as const) {
  test(`${era}: a proxy whose server has never answered fails to list tools, and gives no empty list`, async () => {
    const port = await freePort()
    const proxy = await startProxy(`http://127.0.0.1:${port}/mcp`)
    const { client } = await connect(proxy.url, era)
    try {
      const error = await client.listTools().then(
        () => undefined,
        (reason: Error) => reason,
      )
      assert.match(String(error?.message), /backend "[^"]+" can’t be reached/)
      const server = await startMcpServer({ port })
      try {
        await eventually('the server’s tools', () =>
          client
            .listTools()
            .then(({ tools }) => tools.length > 0)
            .catch(() => false),
        )
      } finally {
        await server.close()
      }
    } finally {
      await client.close()
      await proxy.close()
    }
  })
}

test('a proxy is ready only after the server in its pod has answered', async () => {
  const port = await freePort()
  const proxy = await startProxy(`http://127.0.0.1:${port}/mcp`)
  try {
    await eventually('a first try has failed', async () => (await proxy.status()).backends[0]?.lastError !== null)
    assert.is(await readiness(proxy.adminUrl), 503)
    const server = await startMcpServer({ port })
    try {
      await eventually('it is ready', async () => (await readiness(proxy.adminUrl)) === 200)
    } finally {
      await server.close()
    }
    // Readiness covers only the start: if a server goes away later, calls return errors.
    assert.is(await readiness(proxy.adminUrl), 200)
  } finally {
    await proxy.close()
  }
})

test('a gateway is ready without one of its backends', async () => {
  const gateway = await startGateway({ backends: [{ name: 'away', url: `http://127.0.0.1:${await freePort()}/mcp` }] })
  try {
    await eventually('it is ready', async () => (await readiness(gateway.adminUrl)) === 200)
  } finally {
    await gateway.close()
  }
})

test('a gateway in front of a proxy shows the tools soon after the server has started', async () => {
  const port = await freePort()
  const proxy = await startProxy(`http://127.0.0.1:${port}/mcp`)
  const gateway = await startGateway({ backends: [{ name: 'server', url: proxy.url }] })
  const { client } = await connect(gateway.url, 'modern')
  try {
    assert.equal((await client.listTools()).tools, [])
    const server = await startMcpServer({ port })
    try {
      await eventually('the tools are shown', async () => (await client.listTools()).tools.length > 0)
    } finally {
      await server.close()
    }
  } finally {
    await client.close()
    await gateway.close()
    await proxy.close()
  }
})

test.run()
