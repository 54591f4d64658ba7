/**
 * Servers in pods that do not speak Streamable HTTP: standard input and output, to which the sidecar attaches, and SSE.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, readText } from '../support/gateway/clients.ts'
import {
  apply,
  type ContainerStatus,
  createNamespace,
  installOperator,
  isReady,
  killContainer,
  kubectl,
  listContainers,
  listPods,
  type Pod,
  until,
  untilReady,
} from '../support/operator/e2e-cluster.ts'

const NAMESPACE = 'transports'

let uninstall = () => {}
let url = ''
let sseUrl = ''
let gatewayUrl = ''

const object = (kind: string, name: string, spec: object) => ({
  apiVersion: 'portico.dev/v1beta1',
  kind,
  metadata: { name },
  spec,
})

async function echo(address: string, tool: string, era: 'legacy' | 'modern'): Promise<string> {
  const { client } = await connect(address, era)
  try {
    return readText(await client.callTool({ name: tool, arguments: { message: 'one to another' } }))
  } finally {
    await client.close()
  }
}

const pod = () => listPods(NAMESPACE, 'MCPServer', 'piped')[0] as Pod
const container = (name: string) => listContainers(pod()).find((one) => one.name === name) as ContainerStatus
const restarts = (name: string) => container(name).restartCount

test('the pods become Ready, one of them with a ServiceAccount of the user', async () => {
  uninstall = await installOperator('cluster')
  createNamespace(NAMESPACE)
  kubectl(['create', 'serviceaccount', 'tools', '--namespace', NAMESPACE])
  apply(NAMESPACE, object('MCPGroup', 'pipes', {}))
  apply(
    NAMESPACE,
    object('MCPServer', 'piped', {
      image: 'mcp/everything:2026.8.31',
      args: ['node', 'dist/index.js', 'stdio'],
      transport: 'stdio',
      groupRef: { name: 'pipes' },
    }),
  )
  apply(
    NAMESPACE,
    object('MCPServer', 'events', {
      image: 'mcp/everything:2026.8.31',
      args: ['node', 'dist/index.js', 'sse'],
      transport: 'sse',
      mcpPort: 3001,
      serviceAccount: 'tools',
      groupRef: { name: 'pipes' },
    }),
  )
  apply(
    NAMESPACE,
    object('VirtualMCPServer', 'front', { groupRef: { name: 'pipes' }, incomingAuth: { type: 'anonymous' } }),
  )
  url = await untilReady(NAMESPACE, 'MCPServer', 'piped')
  sseUrl = await untilReady(NAMESPACE, 'MCPServer', 'events')
  gatewayUrl = await untilReady(NAMESPACE, 'VirtualMCPServer', 'front')
})

for (const era of ['legacy', 'modern'] as const) {
  test(`a client of the ${era} era calls a tool of each server through its Service and through the gateway’s`, async () => {
    for (const [address, name] of [
      [url, 'piped'],
      [sseUrl, 'events'],
    ] as const) {
      assert.match(await echo(address, 'echo', era), 'one to another')
      await until(`the gateway has the tools of ${name}`, NAMESPACE, async () =>
        (await echo(gatewayUrl, `${name}_echo`, era).catch(() => '')).includes('one to another'),
      )
    }
  })
}

test('a killed sidecar attaches again: the server is restarted and answers', async () => {
  const before = { server: restarts('mcp'), sidecar: restarts('portico') }
  killContainer(container('portico'))
  await until(
    'both have been restarted',
    NAMESPACE,
    () => restarts('portico') > before.sidecar && restarts('mcp') > before.server,
  )
  await until('the pod is Ready', NAMESPACE, () => isReady(pod()))
  await until('it answers', NAMESPACE, async () =>
    (await echo(url, 'echo', 'modern').catch(() => '')).includes('one to another'),
  )
})

test('the operator’s children are deleted with their objects', () => {
  kubectl(['delete', 'vmcp,mcpserver,mcpg', '--all', '--namespace', NAMESPACE, '--timeout', '240s'])
  uninstall()
})

test.run()
