import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { newCluster } from '../support/cluster.ts'
import { group, manifest, telemetry } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'

const SERVERS = 1_200
const TELEMETRY = {
  group: 'portico.dev',
  version: 'v1beta1',
  plural: 'mcptelemetryconfigs',
  kind: 'MCPTelemetryConfig',
}

const cluster = newCluster()
const { read } = cluster

const names = Array.from({ length: SERVERS }, (_, index) => `server-${String(index).padStart(5, '0')}`)

/** The Secret is missing, so that nothing is rendered and the operator only writes the lists. */
const server = (name: string) =>
  manifest('MCPServer', name, {
    image: 'everything:test',
    transport: 'streamable-http',
    groupRef: { name: 'tools' },
    telemetryConfigRef: { name: 'main' },
    secrets: [{ name: 'absent', key: 'k', targetEnvName: 'K' }],
  })

test.before(async () => {
  await cluster.install()
  // The operator would otherwise write the lists again for each new server.
  await cluster.stopOperator()
})

test.after(() => cluster.stop())

test(`${SERVERS} servers on one config and in one group are all listed`, async () => {
  cluster.create(group(), telemetry('main'), ...names.map(server))
  await cluster.startOperator()
  await eventually(
    () => (read('mcpotel', 'main').status?.referencingWorkloads ?? []).length === SERVERS,
    'all referrers are listed',
    300_000,
  )
  await eventually(() => read('mcpg', 'tools').status?.serverCount === SERVERS, 'the group has them')
  assert.equal(read('mcpg', 'tools').status.servers, names)
  const refused = cluster.plane.writes().filter(({ user, code }) => user === OPERATOR_USER && code >= 400)
  assert.equal(refused, [])
})

test('the API server and etcd take ten thousand names of 52 characters', async () => {
  await cluster.operator.stop()
  const api = new ApiServer(loadKubeConfig(cluster.plane.kubeconfig), 'test')
  const referencingWorkloads = Array.from({ length: 10_000 }, (_, index) => ({
    kind: 'VirtualMCPServer',
    name: `${'n'.repeat(46)}${String(index).padStart(6, '0')}`,
  }))
  await api.jsonPatch(TELEMETRY, 'default', 'main', {
    fieldManager: 'portico-status',
    subresource: 'status',
    operations: [{ op: 'add', path: '/status', value: { referencingWorkloads } }],
  })
  assert.is(read('mcpotel', 'main').status.referencingWorkloads.length, 10_000)
})

test.run()
