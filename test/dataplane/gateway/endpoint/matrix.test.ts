/** Connects other people's clients to other people's servers through the gateway. */
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type FastMcpServer, pythonClient, startFastMcp } from '../../../support/python.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { type EverythingServer, startEverything } from '../../../support/servers/everything.ts'

const run = promisify(execFile)
const modules = join(import.meta.dirname, '../../../../node_modules')

let dual: McpTestServer
let everything: EverythingServer
let fast: FastMcpServer
let gateway: GatewayUnderTest

test.before(async () => {
  dual = await startMcpServer({ name: 'dual' })
  everything = await startEverything()
  fast = await startFastMcp()
  gateway = await startGateway({
    backends: [
      { name: 'dual', url: dual.url },
      { name: 'every', url: everything.url },
      { name: 'fast', url: fast.url },
    ],
  })
  await gateway.listed()
})

test.after(async () => {
  await gateway.close()
  await Promise.all([dual.close(), everything.close(), fast.close()])
})

const message = 'hello, Zürich'
const calls = [
  ['dual_echo', { message }],
  ['every_echo', { message }],
  ['fast_echo', { message }],
] as const
const answers = [`dual: ${message}`, `Echo: ${message}`, `fast: ${message}`]

for (const [set, mode, version] of [
  ['sdk2', 'auto', '2026-07-28'],
  ['sdk2', 'legacy', '2025-11-25'],
  ['sdk1', 'legacy', '2025-11-25'],
] as const)
  test(`Python ${set}, ${mode}: lists and calls tools of every server`, async () => {
    const ran = await pythonClient(set, gateway.url, mode, calls)
    assert.is(ran.version, version)
    assert.equal(ran.answers, answers)
    for (const [name] of calls) assert.ok(ran.tools.includes(name), name)
  })

for (const era of ['modern', 'legacy'])
  test(`MCP Inspector, ${era}: calls tools of every server`, async () => {
    // It runs the first `node` on the path, which must be the one that runs this test.
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` }
    for (const [index, [name]] of calls.entries()) {
      const call = ['--method', 'tools/call', '--tool-name', name, '--tool-arg', `message=${message}`]
      const connection = ['--cli', gateway.url, '--transport', 'http', '--protocol-era', era]
      const { stdout } = await run(join(modules, '.bin/mcp-inspector'), [...connection, ...call], { env })
      assert.ok(stdout.includes(answers[index] as string), stdout)
    }
  })

test('mcp-remote carries a client on standard input and output', async () => {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [join(modules, 'mcp-remote/dist/proxy.js'), gateway.url, '--allow-http', '--transport', 'http-only'],
      env: { ...(process.env as Record<string, string>), PATH: `${dirname(process.execPath)}:${process.env['PATH']}` },
      stderr: 'ignore',
    }),
  )
  const { tools } = await client.listTools()
  for (const [name] of calls) assert.ok(tools.some((tool) => tool.name === name))
  for (const [index, [name, args]] of calls.entries())
    assert.is(readText(await client.callTool({ name, arguments: args })), answers[index])
  await client.close()
})

for (const era of ['modern', 'legacy'] as const)
  test(`FastMCP behind the gateway, ${era}: answers, and progress on the way`, async () => {
    const { client } = await connect(gateway.url, era)
    const seen: number[] = []
    const result = await client.callTool(
      { name: 'fast_steps', arguments: { count: 3 } },
      { onprogress: ({ progress }) => void seen.push(progress) },
    )
    assert.is(readText(result), '3 steps')
    assert.equal(seen, [1, 2, 3])
    await client.close()
  })

test('SDK 1 calls tools of every server', async () => {
  const { client } = await connectV1(gateway.url)
  for (const [index, [name, args]] of calls.entries())
    assert.is(readText(await client.callTool({ name, arguments: args })), answers[index])
  await client.close()
})

test.run()
