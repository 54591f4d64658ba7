/**
 * Tests the SDK's own everything server: it shows the tools that ask only to clients with the needed capabilities, and
 * asks by requests. Through the gateway each client has what it has directly, and so has a stateless client, which the
 * server does not support.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type EverythingServer, startEverything } from '../../../support/servers/everything.ts'
import { clientKinds, openSdkClient, type SdkClient } from './sdk-client.ts'

let everything: EverythingServer
let gateway: GatewayUnderTest

test.before(async () => {
  everything = await startEverything()
  gateway = await startGateway({ backends: [{ name: 'every', url: everything.url }] })
})

test.after(async () => {
  await gateway.close()
  await everything.close()
})

const PREFIX = 'every_'
const asking = {
  'trigger-elicitation-request': {},
  'trigger-sampling-request': { prompt: 'What is the capital of France?' },
  'get-roots-list': {},
}

async function listNames({ client }: SdkClient, prefix: string): Promise<readonly string[]> {
  const { tools } = await client.listTools()
  return tools.flatMap(({ name }) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : [])).sort()
}

async function outcomes({ client, received }: SdkClient, prefix: string): Promise<object> {
  const results: Record<string, unknown> = {}
  for (const [name, args] of Object.entries(asking)) {
    const { content, isError } = await client.callTool({ name: prefix + name, arguments: args })
    results[name] = { content, isError: isError === true }
  }
  return { results, received: received.filter((one) => /^(elicit|sample)/.test(one)) }
}

for (const kind of clientKinds)
  test(`client ${kind}: lists the tools that ask, and is asked`, async () => {
    // The server supports only sessions: directly, a stateless client falls back to one.
    const direct = await openSdkClient(kind === 'v2-stateless' ? 'v2-session' : kind, everything.url)
    const relayed = await openSdkClient(kind, gateway.url)
    try {
      const has = async (one: SdkClient, prefix: string) => (await listNames(one, prefix)).includes('get-roots-list')
      await eventually('the tools that depend on the client', async () => await has(direct, ''))
      await eventually('the same, relayed', async () => await has(relayed, PREFIX))
      const [own, renamed] = [await listNames(direct, ''), await listNames(relayed, PREFIX)]
      assert.equal(
        own.filter((name) => !renamed.includes(name)),
        [],
      )
      assert.equal(await outcomes(relayed, PREFIX), await outcomes(direct, ''))
    } finally {
      await Promise.all([direct.client.close(), relayed.client.close()])
    }
  })

test.run()
