/** Egress of a server as its NetworkPolicy on a real API server: builtin profiles, and one in a ConfigMap. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from '../support/cluster.ts'
import { manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const cluster = newCluster()
const { apply } = cluster

const profile = (outbound: object) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'profile', namespace: 'default' },
  data: { 'profile.json': JSON.stringify({ network: { outbound } }) },
})
const server = (more: object) =>
  manifest('MCPServer', 'web', { image: 'time:test', transport: 'streamable-http', ...more })

/** Returns the server's policy, or undefined if there is none. */
function policy(): { policyTypes: string[]; egress?: unknown } | undefined {
  return cluster.list('networkpolicies').find(({ metadata }) => metadata.name === 'web-mcp')?.spec
}

test.before(() => cluster.start())
test.after(() => cluster.stop())

test('the profile none allows no egress, and the profile network allows all', async () => {
  apply(server({ permissionProfile: { name: 'none' } }))
  const shut = await eventually(() => policy(), 'a policy')
  assert.equal(shut.policyTypes, ['Ingress', 'Egress'])
  assert.is(shut.egress, undefined, 'no rule lets anything out')
  apply(server({ permissionProfile: { name: 'network' } }))
  await eventually(() => JSON.stringify(policy()?.egress) === '[{}]', 'one rule allows all egress')
  apply(server({}))
  await eventually(() => policy()?.policyTypes.join() === 'Ingress', 'the policy does not restrict egress')
})

test('a profile in a ConfigMap is followed, and an unusable one changes nothing', async () => {
  apply(
    profile({ allow_host: ['192.0.2.0/24'], allow_port: [443] }),
    server({ permissionProfile: { type: 'configmap', name: 'profile', key: 'profile.json' } }),
  )
  await eventually(() => JSON.stringify(policy()?.egress)?.includes('192.0.2.0/24'), 'the listed network')
  apply(profile({ allow_host: ['198.51.100.7'] }))
  await eventually(() => JSON.stringify(policy()?.egress)?.includes('198.51.100.7/32'), 'another address')
  apply(profile({ allow_host: ['api.example.com'] }))
  const readMessage = () => cluster.read('mcpserver', 'web').status.message
  await eventually(() => readMessage().includes('a NetworkPolicy can’t use names'), 'the condition reports it')
  assert.ok(JSON.stringify(policy()?.egress).includes('198.51.100.7/32'), 'the last good policy stays')
})

test.run()
