import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { type McpTestServer, startMcpServer } from '../../support/servers/dual-server.ts'
import { IN_CLUSTER, newCluster } from '../support/cluster.ts'
import { group, manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { givePodAddress, type PodAddress } from '../support/pod-address.ts'

const cluster = newCluster()
const { condition, read } = cluster
let backends: McpTestServer[]
let gateway: GatewayUnderTest
let pods: PodAddress[]

const clash = () => condition('vmcp', 'all', 'AggregationConflict')
const auditLog = (kind: string, name: string) => () => condition(kind, name, 'AuditLogUnavailable')

const config = (conflictResolution: 'manual' | 'prefix', more: Partial<TestConfig> = {}): TestConfig => ({
  // A synchronous kubectl would keep the backends in this process from answering.
  failureHandling: { healthCheckInterval: '10s', healthCheckTimeout: '9900ms', unhealthyThreshold: 1 },
  ...more,
  backends: backends.map(({ url }, index) => ({ name: ['one', 'two'][index] as string, url })),
  aggregation: { conflictResolution },
})

test.before(async () => {
  await cluster.install()
  const objects = [
    group(),
    manifest('VirtualMCPServer', 'all', { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' } }),
    manifest('MCPRemoteProxy', 'one', {
      groupRef: { name: 'tools' },
      remoteUrl: 'https://mcp.example/mcp',
      audit: { enabled: true },
    }),
  ]
  cluster.apply(...objects)
  // As in a cluster, the operator polls pods at their own addresses.
  await cluster.startOperator([], IN_CLUSTER)
  backends = [await startMcpServer(), await startMcpServer()]
  gateway = await startGateway(config('manual'))
  pods = [
    await givePodAddress(cluster.plane, 'all', 84, () => gateway.adminUrl),
    await givePodAddress(cluster.plane, 'one', 85, () => gateway.adminUrl),
  ]
})

test.after(async () => {
  await cluster.stop()
  for (const pod of pods ?? []) pod.close()
  await gateway?.close()
  await Promise.all((backends ?? []).map((backend) => backend.close()))
})

test('name conflicts in a running gateway are a condition while they last', async () => {
  const { status, reason, message } = await eventually(clash, 'the condition exists')
  assert.equal([status, reason], ['True', 'AggregationConflict'])
  assert.match(message, 'is a tool of one and two')
  await gateway.configure(config('prefix'))
  await eventually(() => clash() === undefined, 'the condition is gone')
})

test('an audit log that pods can’t write is a condition with its cause while it lasts, for each kind', async () => {
  const logFile = join(gateway.directory, 'none', 'audit.jsonl')
  await gateway.configure(config('prefix', { audit: { enabled: true, logFile } }))
  await postModern(gateway.url, 'tools/list')
  for (const seen of [auditLog('vmcp', 'all'), auditLog('mcpremoteproxy', 'one')]) {
    const { status, reason, message } = await eventually(seen, 'the condition exists')
    assert.equal([status, reason], ['True', 'AuditLogNotWritten'])
    assert.match(message, /audit\.jsonl can’t be written: ENOENT/)
  }
  await mkdir(join(gateway.directory, 'none'))
  await eventually(() => auditLog('vmcp', 'all')() === undefined, 'the condition of the gateway is gone')
  await eventually(() => auditLog('mcpremoteproxy', 'one')() === undefined, 'the condition of the proxy is gone')
})

test('the status shows the health of backends, and one that goes down is a condition', async () => {
  const healthy = ({ conditions }: LiveObject['status']) => conditions.find(({ type }) => type === 'BackendsHealthy')
  const until = (state: string) =>
    eventually(() => {
      const { status } = read('vmcp', 'all')
      return status?.discoveredBackends?.[0]?.status === state && status
    }, state)
  const ready = await until('ready')
  assert.match(ready.discoveredBackends[0].mcpRevision, /^\d{4}-\d{2}-\d{2}$/)
  assert.is(healthy(ready)?.status, 'True')
  await backends[0]?.close()
  const unreachable = await until('unavailable')
  assert.ok(unreachable.discoveredBackends[0].message.length > 0)
  const unhealthy = healthy(unreachable)
  assert.equal([unhealthy?.status, unhealthy?.reason], ['False', 'BackendsUnavailable'])
  assert.match(unhealthy?.message ?? '', '"one"')
  assert.is(read('vmcp', 'all').status['backendCount'], 0)
})

test.run()
