/** A server that speaks on standard input and output, in a pod: the sidecar attaches to it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, textOf } from '../support/gateway/clients.ts'
import {
  apply,
  type ContainerStatus,
  containersOf,
  createNamespace,
  installOperator,
  isReady,
  killContainer,
  kubectl,
  type Pod,
  podsOf,
  until,
  untilReady,
} from '../support/operator/e2e-cluster.ts'

const NAMESPACE = 'stdio'

let uninstall = () => {}
let url = ''
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
    return textOf(await client.callTool({ name: tool, arguments: { message: 'over the pipe' } }))
  } finally {
    await client.close()
  }
}

const pod = () => podsOf(NAMESPACE, 'MCPServer', 'piped')[0] as Pod
const container = (name: string) => containersOf(pod()).find((one) => one.name === name) as ContainerStatus
const restarts = (name: string) => container(name).restartCount

test('its pod becomes Ready', async () => {
  uninstall = await installOperator('cluster')
  createNamespace(NAMESPACE)
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
    object('VirtualMCPServer', 'front', { groupRef: { name: 'pipes' }, incomingAuth: { type: 'anonymous' } }),
  )
  url = await untilReady(NAMESPACE, 'MCPServer', 'piped')
  gatewayUrl = await untilReady(NAMESPACE, 'VirtualMCPServer', 'front')
})

for (const era of ['legacy', 'modern'] as const) {
  test(`a client of the ${era} era calls a tool through the server’s Service and through the gateway’s`, async () => {
    assert.match(await echo(url, 'echo', era), 'over the pipe')
    await until('the gateway has its tools', NAMESPACE, async () =>
      (await echo(gatewayUrl, 'piped_echo', era).catch(() => '')).includes('over the pipe'),
    )
  })
}

test('a killed sidecar attaches anew: the server is started again and answers', async () => {
  const before = { server: restarts('mcp'), sidecar: restarts('portico') }
  killContainer(container('portico'))
  await until(
    'both have been restarted',
    NAMESPACE,
    () => restarts('portico') > before.sidecar && restarts('mcp') > before.server,
  )
  await until('the pod is Ready', NAMESPACE, () => isReady(pod()))
  await until('it answers', NAMESPACE, async () =>
    (await echo(url, 'echo', 'modern').catch(() => '')).includes('over the pipe'),
  )
})

test('what it made goes with its objects', () => {
  kubectl(['delete', 'vmcp,mcpserver,mcpg', '--all', '--namespace', NAMESPACE, '--timeout', '60s'])
  uninstall()
})

test.run()
