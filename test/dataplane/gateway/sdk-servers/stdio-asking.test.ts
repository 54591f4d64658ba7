/** Tests a server of SDK 2 on stdio, which uses the era of the first message that it gets. */
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { hasWorked, run } from './compare.ts'
import { clientKinds } from './sdk-client.ts'

function startInFront(shape: string): Promise<GatewayUnderTest> {
  const command = [process.execPath, join(import.meta.dirname, 'stdio-server.ts'), shape]
  return startGateway({ backends: [{ name: 'b', transport: 'stdio', stdio: { command } }] })
}

const questions = ['elicitation by a request', 'elicitation of a URL', 'sampling', 'roots', 'inputs as a result']
const offered = ['progress', 'a large result', 'resources', 'updates of a resource']
for (const [shape, revision, names] of [
  ['v2', '2025-11-25', [...questions, ...offered]],
  ['v2-stateless', '2026-07-28', ['inputs as a result', ...offered]],
] as const)
  for (const kind of clientKinds)
    test(`${shape}, client ${kind}: gets everything of the server, whatever its era`, async () => {
      const gateway = await startInFront(shape)
      try {
        await gateway.listed()
        for (const name of names) {
          const outcome = await run(name, { kind, target: gateway.url, prefix: 'b_' })
          assert.ok(hasWorked(outcome), `${name}: ${JSON.stringify(outcome)}`)
        }
        assert.is((await gateway.status()).backends[0]?.revision, revision)
      } finally {
        await gateway.close()
      }
    })

test.run()
