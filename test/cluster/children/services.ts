/** Services of type LoadBalancer and NodePort: fields of the spec, and fields that others set. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, type Manifest, manifest, proxy, server } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const cluster = newCluster()
const { condition } = cluster

const service = (name = 'mcp-web') => cluster.read('service', name).spec
const web = (more: object): Manifest => {
  const { spec, ...rest } = server('web')
  return { ...rest, spec: { ...spec, ...more } } as Manifest
}
const apply = (more: object) => cluster.apply(web(more))
const patch = (spec: object) => cluster.mergePatch('service', 'mcp-web', { spec })
const writes = () =>
  cluster.plane.writes().filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases').length
const waitUntilQuiet = () => waitUntilStill(writes)
/** Waits until the operator has applied a change of the test's own to the Service. */
async function waitForService(port: number, more: object): Promise<void> {
  apply({ proxyPort: port, ...more })
  await eventually(() => service().ports[0].port === port, `the Service has port ${port}`)
  await waitUntilQuiet()
}

const balanced = {
  serviceType: 'LoadBalancer',
  service: {
    externalTrafficPolicy: 'Local',
    loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'],
    loadBalancerClass: 'example.com/inner',
    ipFamilyPolicy: 'PreferDualStack',
  },
}

test.before(() => cluster.start())
test.after(() => cluster.stop())

test('every kind with pods copies the Service fields to its Service', async () => {
  const registry = manifest('MCPRegistry', 'catalog', {
    sources: [{ name: 'empty', managed: {} }],
    registries: [{ name: 'main', sources: ['empty'] }],
    auth: { mode: 'anonymous' },
  })
  const all = [gateway('front'), proxy('remote'), registry, server('web')]
  cluster.apply(group(), ...all.map((one) => ({ ...one, spec: { ...one.spec, ...balanced } }) as Manifest))
  for (const name of ['vmcp-front', 'mcprp-remote', 'mcpreg-catalog', 'mcp-web']) {
    await eventually(() => cluster.exists('service', name), name)
    const { externalTrafficPolicy, loadBalancerSourceRanges, loadBalancerClass, ipFamilyPolicy } = service(name)
    assert.equal(
      { externalTrafficPolicy, loadBalancerSourceRanges, loadBalancerClass, ipFamilyPolicy },
      balanced.service,
      name,
    )
  }
  cluster.remove('vmcp', 'front')
  cluster.remove('mcprp', 'remote')
  cluster.remove('mcpreg', 'catalog')
})

test('a changed field is restored and a removed one is cleared, except for the class, which is immutable', async () => {
  await waitUntilQuiet()
  patch({ externalTrafficPolicy: 'Cluster', loadBalancerSourceRanges: ['198.51.100.0/24'] })
  await eventually(
    () =>
      service().externalTrafficPolicy === 'Local' &&
      `${service().loadBalancerSourceRanges}` === `${balanced.service.loadBalancerSourceRanges}`,
    'both are put back',
  )
  apply({ serviceType: 'LoadBalancer' })
  await eventually(() => service().loadBalancerSourceRanges === undefined, 'no ranges')
  assert.is(service().externalTrafficPolicy, 'Cluster')
  assert.is(service().loadBalancerClass, 'example.com/inner')
  assert.is(condition('mcpserver', 'web', 'Ready')?.reason === 'ChildRefused', false)
})

test('a refused change of the class is reported, the Service stays, and deleting the Service applies the new class', async () => {
  const { uid } = cluster.read('service', 'mcp-web').metadata
  const other = { serviceType: 'LoadBalancer', service: { loadBalancerClass: 'example.com/outer' } }
  apply(other)
  const message = await eventually(() => {
    const ready = condition('mcpserver', 'web', 'Ready')
    return ready?.reason === 'ChildRefused' && ready.message
  }, 'it is refused')
  assert.match(message, /Service "mcp-web" is refused: .*loadBalancerClass.*may not change once set/)
  assert.is(cluster.read('service', 'mcp-web').metadata.uid, uid)
  cluster.remove('service', 'mcp-web')
  await eventually(
    () => service().loadBalancerClass === 'example.com/outer',
    'the Service is recreated with the other class',
  )
  await eventually(() => condition('mcpserver', 'web', 'Ready')?.reason !== 'ChildRefused', 'nothing is refused')
})

test('fields that others set and the spec does not are kept, also when the type changes', async () => {
  apply({})
  await eventually(() => service().type === 'ClusterIP' && service().loadBalancerClass === undefined, 'no balancer')
  apply({ serviceType: 'LoadBalancer' })
  await eventually(() => service().type === 'LoadBalancer', 'a balancer')
  const byHand = { externalTrafficPolicy: 'Local', loadBalancerSourceRanges: ['192.0.2.0/24'] }
  patch(byHand)
  await waitUntilQuiet()
  await waitForService(8081, { serviceType: 'LoadBalancer' })
  assert.is(service().externalTrafficPolicy, 'Local')
  assert.equal(service().loadBalancerSourceRanges, ['192.0.2.0/24'])
  await waitForService(8082, { serviceType: 'NodePort' })
  assert.is(service().type, 'NodePort', 'ranges of a balancer don’t hinder it')
  assert.is(service().externalTrafficPolicy, 'Local')
  assert.is(service().loadBalancerSourceRanges, undefined)
  await waitForService(8083, {})
  assert.is(service().type, 'ClusterIP')
  assert.is(service().externalTrafficPolicy, undefined)
})

test('fields that do not fit the type of the Service are refused when they are applied', () => {
  for (const [more, why] of [
    [{ service: { externalTrafficPolicy: 'Local' } }, 'externalTrafficPolicy'],
    [{ serviceType: 'NodePort', service: { loadBalancerSourceRanges: ['10.0.0.0/8'] } }, 'loadBalancerSourceRanges'],
    [{ serviceType: 'NodePort', service: { loadBalancerClass: 'a' } }, 'loadBalancerClass'],
    [
      { serviceType: 'LoadBalancer', service: { loadBalancerSourceRanges: ['10.0.0.0/33'] } },
      'loadBalancerSourceRanges',
    ],
    [{ serviceType: 'LoadBalancer', service: { loadBalancerClass: 'a b' } }, 'loadBalancerClass'],
  ] as const)
    assert.throws(() => apply(more), new RegExp(why), JSON.stringify(more))
})

test.run()
