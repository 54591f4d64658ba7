import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { operatorPeer, parseAdminPeer } from '../../../../operator/render/network/network.ts'
import { buildWorld, context, findChild, planWorld } from '../../../support/operator/plans.ts'

const monitoring = { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } }

test('a peer is a namespace, labels in a namespace, or a CIDR', () => {
  assert.equal(parseAdminPeer('monitoring'), { namespaceSelector: monitoring })
  assert.equal(parseAdminPeer('monitoring/app.kubernetes.io/name=prometheus,team=a'), {
    namespaceSelector: monitoring,
    podSelector: { matchLabels: { 'app.kubernetes.io/name': 'prometheus', team: 'a' } },
  })
  for (const cidr of ['10.0.0.0/8', '0.0.0.0/0', 'fd00::/8', '::1/128'])
    assert.equal(parseAdminPeer(cidr), { ipBlock: { cidr } })
})

for (const text of [
  '',
  '/',
  'Monitoring',
  'a/',
  'a/b',
  'a/=b',
  'a/b=c=d',
  'a/b=c,',
  '10.0.0.0/33',
  '10.0.0.1/8',
  'fd00::/129',
  '10.0.0.0/-1',
  'a b',
  '-a',
])
  test(`no peer: ${JSON.stringify(text)}`, () => assert.is(parseAdminPeer(text), undefined))

test('the admin listener is open to the operator and to named peers, the public one to everybody', () => {
  const world = buildWorld('kind: MCPServer\nmetadata: {name: a}\nspec: {image: "a:1", transport: streamable-http}\n')
  const adminPeers = [operatorPeer('tools'), { namespaceSelector: monitoring }]
  const plan = planWorld(world, { ...context, adminPeers }).get('MCPServer/a')
  const { ingress } = findChild(plan, 'NetworkPolicy')['spec'] as { ingress: object[] }
  assert.equal(ingress, [
    { ports: [{ protocol: 'TCP', port: 14_483 }] },
    {
      from: [
        {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'tools' } },
          podSelector: { matchLabels: { 'app.kubernetes.io/name': 'portico-operator' } },
        },
        { namespaceSelector: monitoring },
      ],
      ports: [{ protocol: 'TCP', port: 14_081 }],
    },
  ])
})

test.run()
