import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../support/gateway/gateway.ts'
import { type McpTestServer, startMcpServer } from '../support/servers/dual-server.ts'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'
import { group, manifest, yaml } from './support/manifests.ts'
import {
  eventually,
  installOperator,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './support/operator-process.ts'
import { givePodAddress, type PodAddress } from './support/pod-address.ts'

let plane: ControlPlane
let operator: OperatorProcess
let backends: McpTestServer[]
let gateway: GatewayUnderTest
let pod: PodAddress

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
  pod = await givePodAddress(plane, 'all', 84, () => gateway.adminUrl)
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
