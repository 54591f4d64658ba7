/** Logs in with the npm package `mcp-remote`, which connects stdio-only clients to remote servers. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { type AuthServerUnderTest, startAuthServer } from '../../../support/identity/auth-server.ts'
import { deleteKey, enterKey, keyLinkIn } from '../../../support/identity/key-entry.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const PROXY = fileURLToPath(import.meta.resolve('mcp-remote/dist/proxy.js'))

let raw: RawServer
let server: AuthServerUnderTest
let home: string
const cleanups: (() => Promise<unknown>)[] = []
test.before(async () => {
  raw = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT.replace('{', '{"resultType":"complete",')),
  })
  server = await startAuthServer({
    providers: ['corp', 'code'],
    gateway: { backends: [buildInjectingBackend('b', raw.url, 'code')] },
  })
  home = await mkdtemp(join(tmpdir(), 'portico-mcp-remote-'))
})
test.after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup()
  await server.close()
  await raw.close()
  await rm(home, { recursive: true })
})

/** Starts it with its stored state, and acts as the user in a browser if it asks for a login. */
async function connect(agent: UserAgent, options: ConstructorParameters<typeof Client>[1] = {}) {
  const port = await freePort()
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [PROXY, server.resource, String(port), '--host', '127.0.0.1', '--allow-http'],
    // Without a browser it prints the address to open.
    env: { HOME: home, PATH: '/nowhere', MCP_REMOTE_CONFIG_DIR: home },
    stderr: 'pipe',
  })
  let output = ''
  let isVisited = false
  transport.stderr?.on('data', (chunk) => {
    output += chunk
    const url = /^\s*(http\S+\/oauth\/authorize\?\S+)\s*$/m.exec(output)?.[1]
    if (url === undefined || isVisited) return
    isVisited = true
    visit(agent, url, port).catch((error: unknown) => {
      output += String(error)
    })
  })
  const client = new Client({ name: 'test', version: '1' }, options)
  const late = wait(180_000, undefined, { ref: false }).then(() => {
    throw new Error(`not connected; it has said:\n${output}`)
  })
  await Promise.race([client.connect(transport), late])
  cleanups.push(() => client.close())
  return { client, isVisited: () => isVisited, readOutput: () => output }
}

async function visit(agent: UserAgent, url: string, port: number): Promise<void> {
  const end = await agent.follow(url, (at) => new URL(at).port === String(port))
  secret(new URL(end.url).searchParams.get('code') ?? '')
  await (await fetch(end.url)).text()
}

test('it registers, logs a person in at two providers, and calls a tool', async () => {
  const agent = new UserAgent()
  const { client, isVisited, readOutput } = await connect(agent)
  assert.ok(isVisited(), readOutput())
  assert.match(agent.questions[0] ?? '', /MCP|mcp/)
  assert.equal(
    (await client.listTools()).tools.map(({ name }) => name),
    ['b_t'],
  )
  await client.callTool({ name: 'b_t', arguments: {} })
  assert.match(raw.calls('tools/call').at(-1)?.headers.authorization ?? '', /^Bearer /)
})

test('the next time it uses the tokens that it has stored', async () => {
  const { client, isVisited } = await connect(new UserAgent())
  assert.is((await client.listTools()).tools.length, 1)
  assert.not.ok(isVisited())
})

test('a missing key: the link in the answer, the key typed, and the same call succeeds', async () => {
  const KEY = secret<string>('desk-0123456789-abcdefgh-remote')
  const agent = new UserAgent()
  const plain = server.config()
  const keyConfig = { title: 'Desk', headerName: 'X-Api-Key', valueTemplate: '{key}' }
  const desk = { name: 'desk', type: 'key', keyConfig: keyConfig as never } as const
  await server.gateway.configure(
    server.config(
      { upstreamProviders: [...unwrap(plain.authServer).upstreamProviders, desk] },
      { backends: [buildInjectingBackend('b', raw.url, 'desk')] },
    ),
  )
  // It still has tokens; the user signs in on the page for the key.
  for (const era of ['legacy', 'auto'] as const) {
    const { client } = await connect(agent, { versionNegotiation: { mode: era } })
    await eventually('the key is requested', async () =>
      readText(await client.callTool({ name: 'b_t', arguments: {} })).includes('/oauth/key?'),
    )
    const refused = await client.callTool({ name: 'b_t', arguments: {} })
    assert.is(refused.isError, true)
    assert.match((await enterKey(agent, keyLinkIn(readText(refused)), KEY)).text, 'The key is kept')
    assert.is((await client.callTool({ name: 'b_t', arguments: {} })).isError, undefined)
    assert.is(raw.calls('tools/call').at(-1)?.headers['x-api-key'], KEY)
    assert.is(client.getNegotiatedProtocolVersion(), era === 'legacy' ? '2025-11-25' : '2026-07-28')
    await deleteKey(agent, server.issuer)
  }
})

test.run()
