import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const run = promisify(execFile)
const INSPECTOR = fileURLToPath(new URL('../../../../node_modules/.bin/mcp-inspector', import.meta.url))

let dual: McpTestServer
let legacy: McpTestServer
let gateway: GatewayUnderTest

test.before(async () => {
  dual = await startMcpServer({ name: 'dual' })
  legacy = await startMcpServer({ name: 'legacy', mode: 'sessions' })
  gateway = await startGateway({
    backends: [
      { name: 'dual', url: dual.url },
      { name: 'legacy', url: legacy.url },
    ],
  })
  await gateway.listed()
})

test.after(async () => {
  await gateway.close()
  await Promise.all([dual.close(), legacy.close()])
})

async function inspect(...args: string[]): Promise<string> {
  // The inspector runs the first `node` on the path, which must be the one that runs this test.
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` }
  const { stdout } = await run(INSPECTOR, ['--cli', gateway.url, '--transport', 'http', ...args], { env })
  return stdout
}

for (const era of ['modern', 'legacy']) {
  test(`MCP Inspector, ${era}: lists tools`, async () => {
    const text = await inspect('--method', 'tools/list', '--protocol-era', era)
    assert.match(text, /"dual_echo"/)
    assert.match(text, /"legacy_echo"/)
  })

  test(`MCP Inspector, ${era}: calls tools`, async () => {
    for (const backend of ['dual', 'legacy']) {
      const call = ['--method', 'tools/call', '--tool-name', `${backend}_echo`, '--tool-arg', 'message=hello']
      assert.match(await inspect(...call, '--protocol-era', era), new RegExp(`${backend}: hello`))
    }
  })
}

test.run()
