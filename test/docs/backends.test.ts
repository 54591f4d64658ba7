import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'
import { condition, plansOfText } from '../support/operator/plans.ts'
import { startRawServer, tool } from '../support/servers/raw-server.ts'

const text = readFileSync(new URL('../../docs/backends.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)

for (const [at, block] of blocks.entries())
  test(`example ${at + 1} is valid for a VirtualMCPServer`, () => {
    const { spec } = parse(block) as { spec: object }
    const object = {
      kind: 'VirtualMCPServer',
      metadata: { name: 'gateway' },
      spec: { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' }, ...spec },
    }
    const plan = plansOfText(`kind: MCPGroup\nmetadata: {name: tools}\n---\n${JSON.stringify(object)}`).get(
      'VirtualMCPServer/gateway',
    )
    assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  })

test('`portico doctor backend` prints what the page shows', async () => {
  const [, command = '', printed = ''] = /^```\n(portico doctor backend .*?)\n```\n\n```\n(.*?)^```/ms.exec(text) ?? []
  const server = await startRawServer({
    era: 'legacy',
    tools: [
      ...Array.from({ length: 12 }, (_, index) => tool(`t${index}`)),
      '{"name":"report","inputSchema":{"type":"array"}}',
    ],
    call: () => undefined,
    before: ({ message, headers }, res) => {
      if (message.method !== 'ping') return false
      const isKnown = String(headers['mcp-session-id']).startsWith('raw')
      res.writeHead(isKnown ? 200 : 400, { 'content-type': 'application/json' })
      const error = isKnown ? '{"code":-32601,"message":"?"}' : '{"code":-32000,"message":"No valid session"}'
      res.end(`{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"error":${error}}`)
      return true
    },
  })
  using folder = temporaryFolder({ 'token.txt': 'Bearer x' })
  try {
    const argv = command
      .replace('https://mcp.example.com/mcp', server.url)
      .replace('token.txt', `${folder.path}/token.txt`)
      .split(' ')
      .slice(1)
    let out = ''
    const stop = new AbortController().signal
    const code = await dispatch(argv, { out: (more) => void (out += more), err: () => {}, env: {}, stop })
    assert.is(code, 0)
    assert.is(out.replace(server.url, 'https://mcp.example.com/mcp'), printed)
    assert.ok(server.seen.every(({ headers }) => headers.authorization === 'Bearer x'))
  } finally {
    await server.close()
  }
})

test('there are examples', () => assert.is(blocks.length, 2))

test.run()
