import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { configText, plansOfText } from '../../support/operator/plans.ts'

const plans = plansOfText(`
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPServer
metadata: {name: server}
spec: {image: x, transport: sse, mcpPort: 9000}
---
kind: MCPRemoteProxy
metadata: {name: proxy}
spec: {remoteUrl: "https://example.com/events", transport: sse}
---
kind: MCPServerEntry
metadata: {name: entry}
spec: {remoteUrl: "https://example.com/events", transport: sse, groupRef: {name: tools}}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}
`)

const findBackend = (name: string) => (parse(configText(plans.get(name))) as GatewayConfig).backends[0]

test('a server that speaks HTTP+SSE is called at the usual path', () => {
  const { name, url, transport } = findBackend('MCPServer/server') ?? {}
  assert.equal([name, url, transport], ['server', 'http://127.0.0.1:9000/sse', 'sse'])
})

for (const [owner, backend] of [
  ['MCPRemoteProxy/proxy', 'proxy'],
  ['VirtualMCPServer/gateway', 'entry'],
] as const)
  test(`${owner}: a remote one is called at its own URL`, () => {
    const { name, url, transport } = findBackend(owner) ?? {}
    assert.equal([name, url, transport], [backend, 'https://example.com/events', 'sse'])
  })

test.run()
