/** HTTPRoutes on a real API server: the route, a cluster without the Gateway API, and the verdict of Gateways. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from '../support/cluster.ts'
import { installGatewayApi } from '../support/gateway-api.ts'
import { manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const cluster = newCluster()
const { exists } = cluster

const parentRefs = [{ name: 'public', namespace: 'edge', sectionName: 'https' }]
const server = (more: object) =>
  manifest('MCPServer', 'web', { image: 'time:test', transport: 'streamable-http', ...more })
const apply = (more: object) => cluster.apply(server(more))
const live = () => cluster.read('mcpserver', 'web')
const condition = (type: string) =>
  cluster.condition('mcpserver', 'web', type) ?? { status: '', reason: '', message: '' }
const route = () => cluster.read('httproute', 'web-mcp')

/** Writes the status that a Gateway's controller would write. */
function answer(accepted: 'True' | 'False'): void {
  const { generation } = route().metadata
  const conditions = [
    {
      type: 'Accepted',
      status: accepted,
      reason: accepted === 'True' ? 'Accepted' : 'NotAllowedByListeners',
      message: 'said by the test',
      observedGeneration: generation,
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
  ]
  const status = { parents: [{ parentRef: parentRefs[0], controllerName: 'example.com/test', conditions }] }
  cluster.patch('httproute', 'web-mcp', { status }, { subresource: 'status' })
}

test.before(() => cluster.start())
test.after(() => cluster.stop())

test('without the Gateway API everything but the route is created, and the condition says what to install', async () => {
  apply({ httpRoute: { parentRefs, hostnames: ['tools.example.com'] } })
  const said = await eventually(
    () => condition('Ready').reason === 'KindNotServed' && condition('Ready'),
    'the condition reports it',
  )
  assert.match(said.message, /HTTPRoute "web-mcp" can’t be made: .*gateway\.networking\.k8s\.io\/v1; install the CRDs/)
  assert.ok(exists('deployment', 'web-mcp'), 'the server runs')
  assert.ok(exists('service', 'mcp-web'))
})

test('the route is created once the CRD is installed', async () => {
  await installGatewayApi(cluster.plane)
  await eventually(() => exists('httproute', 'web-mcp'), 'a route')
  const { spec, metadata } = route()
  assert.equal(spec.hostnames, ['tools.example.com'])
  assert.equal(spec.parentRefs[0].namespace, 'edge')
  assert.equal(spec.rules[0].backendRefs[0].name, 'mcp-web')
  assert.is(metadata.ownerReferences[0].kind, 'MCPServer')
  await eventually(() => condition('Ready').reason !== 'KindNotServed', 'the kind is served')
  assert.is(live().status.externalUrl, 'https://tools.example.com/mcp')
})

test('the verdict of Gateways on the route is a condition', async () => {
  await eventually(() => condition('RouteAccepted').reason === 'NoAnswer', 'no answer yet')
  answer('True')
  await eventually(() => condition('RouteAccepted').status === 'True', 'the route is accepted')
  answer('False')
  const refused = await eventually(
    () => condition('RouteAccepted').status === 'False' && condition('RouteAccepted'),
    'no',
  )
  assert.match(refused.message, /Gateway "edge\/public": Accepted is False \(NotAllowedByListeners\)/)
})

test('a deleted route is recreated, and a route that the spec no longer asks for is deleted', async () => {
  const { uid } = route().metadata
  cluster.remove('httproute', 'web-mcp')
  await eventually(() => exists('httproute', 'web-mcp') && route().metadata.uid !== uid, 'the route is recreated')
  apply({ httpRoute: { parentRefs } })
  await eventually(() => route().spec.hostnames === undefined, 'no host names')
  await eventually(() => live().status.externalUrl === undefined, 'no public URL')
  apply({})
  await eventually(() => !exists('httproute', 'web-mcp'), 'no route')
  await eventually(() => condition('RouteAccepted').status === '', 'there is no condition')
})

test('host names with a wildcard are refused when they are applied', () => {
  assert.throws(() => apply({ httpRoute: { parentRefs, hostnames: ['*.example.com'] } }), /Invalid|invalid/)
})

test.run()
