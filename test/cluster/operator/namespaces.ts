import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from '../support/cluster.ts'
import { buildNamespace, manifest } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const PROXIES = 30

const cluster = newCluster()

const count = (kind: string) => cluster.list(kind, { namespace: 'team' }).length
const warnings = () =>
  cluster.operator
    .log()
    .split('\n')
    .filter((line) => /"level":("warn"|"error"|40|50)/.test(line))

const writes = () =>
  cluster.plane.writes().filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases')

const everything = () => {
  const telemetry = manifest(
    'MCPTelemetryConfig',
    'main',
    { openTelemetry: { enabled: true, endpoint: 'https://otel.example:4318', tracing: { enabled: true } } },
    'team',
  )
  const proxies = Array.from({ length: PROXIES }, (_, index) =>
    manifest(
      'MCPRemoteProxy',
      `proxy-${index}`,
      {
        remoteUrl: 'https://mcp.example/mcp',
        groupRef: { name: 'tools' },
        telemetryConfigRef: { name: 'main' },
      },
      'team',
    ),
  )
  return [manifest('MCPGroup', 'tools', {}, 'team'), telemetry, ...proxies]
}

test.before(() => cluster.start())
test.after(() => cluster.stop())

for (const round of ['first', 'second'])
  test(`deleting a namespace with ${PROXIES} proxies causes no refused write and no warning: the ${round} of its name`, async () => {
    cluster.apply(buildNamespace('team'))
    cluster.create(...everything())
    await eventually(() => count('deployments') === PROXIES, 'all are there', 180_000)
    await eventually(
      () => cluster.read('mcpotel', 'main', 'team').status?.referencingWorkloads?.length === PROXIES,
      'and told',
    )
    // The API server refuses writes that were under way when the namespace began to terminate.
    await waitUntilStill(() => writes().length)
    const [before, warned] = [cluster.plane.writes().length, warnings().length]
    cluster.remove('namespace', 'team')
    await eventually(() => !cluster.exists('namespace', 'team'), 'the namespace is gone', 180_000)
    const refused = cluster.plane
      .writes()
      .slice(before)
      .filter(({ user, code }) => user === OPERATOR_USER && code >= 400)
      // The operator removes a finalizer from the version that it has read. If the object has changed since then, the
      // write conflicts, and the operator reads it again.
      .filter(({ verb, resource, code }) => !(verb === 'patch' && resource.startsWith('mcp') && code === 409))
      .map(({ verb, resource, subresource, name, code }) => `${verb} ${resource}/${subresource} ${name} ${code}`)
    assert.equal(refused, [])
    assert.equal(warnings().slice(warned), [])
  })

test.run()
