import { createServer, type Server } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type McpTestServer, startMcpServer } from '../support/mcp-dual-server.ts'
import { type GatewayUnderTest, startGateway } from '../support/mcp-gateway.ts'
import { type ControlPlane, startControlPlane } from './control-plane.ts'
import { group, manifest, yaml } from './manifests.ts'
import {
  eventually,
  installOperator,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './operator-process.ts'

/** The pod's address: of this machine, and nobody else's in this test run. */
const POD_IP = `127.84.${process.pid % 250}.${1 + (Math.floor(process.pid / 250) % 250)}`
const ADMIN_PORT = 8081

let plane: ControlPlane
let operator: OperatorProcess
let backends: McpTestServer[]
let gateway: GatewayUnderTest
let pod: Server

const clash = () =>
  JSON.parse(plane.kubectl(['get', 'vmcp', 'all', '-o', 'json'])).status?.conditions?.find(
    ({ type }: { type: string }) => type === 'AggregationConflict',
  )

const config = (conflictResolution: 'manual' | 'prefix') => ({
  backends: backends.map(({ url }, index) => ({ name: ['one', 'two'][index] as string, url })),
  aggregation: { conflictResolution },
})

test.before(async () => {
  backends = [await startMcpServer(), await startMcpServer()]
  gateway = await startGateway(config('manual'))
  plane = await startControlPlane()
  await installOperator(plane)
  const objects = [
    group(),
    manifest('VirtualMCPServer', 'all', { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' } }),
  ]
  plane.kubectl(['apply', '-f', '-'], { input: yaml(...objects) })
  // As in a cluster: pods are asked at their own addresses.
  process.env['KUBERNETES_SERVICE_HOST'] = '127.0.0.1'
  operator = await startOperator(operatorKubeconfig(plane))
  await operator.ready()
  pod = createServer(async (request, response) => {
    response.end(await (await fetch(`${gateway.adminUrl}${request.url}`)).text())
  })
  await new Promise<void>((resolve) => pod.listen(ADMIN_PORT, POD_IP, resolve))
  const selector = 'app.kubernetes.io/instance=all'
  const name = await eventually(
    () => plane.kubectl(['get', 'pods', '-l', selector, '-o', 'jsonpath={.items[0].metadata.name}']),
    'the pod',
  )
  const patch = JSON.stringify({ status: { phase: 'Running', podIP: POD_IP, podIPs: [{ ip: POD_IP }] } })
  plane.kubectl(['patch', 'pod', name, '--subresource=status', '--type=merge', '-p', patch])
})

test.after(async () => {
  await operator?.stop()
  pod?.close()
  await plane?.stop()
  await gateway?.close()
  await Promise.all((backends ?? []).map((backend) => backend.close()))
})

test('names that clash in a running gateway are a condition, as long as they do', async () => {
  const { status, reason, message } = await eventually(clash, 'the condition', 30_000)
  assert.equal([status, reason], ['True', 'AggregationConflict'])
  assert.match(message, 'is a tool of one and two')
  await gateway.configure(config('prefix'))
  await eventually(() => clash() === undefined, 'its end', 60_000)
})

test.run()
