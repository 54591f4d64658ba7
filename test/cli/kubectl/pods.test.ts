/** Checks which pods the plugin connects to: anyone who may create pods can give one the labels of a workload. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Cluster } from '../../../cli/kubectl/cluster.ts'
import { requirePod, runningPod } from '../../../console/places/pods.ts'
import type { KubernetesObject } from '../../../operator/model/index.ts'
import { buildSelector, dataPlaneContainerName } from '../../../operator/render/object/object.ts'

const owner = (kind: string, uid: string) => ({ apiVersion: 'v1', kind, name: 'x', uid, controller: true })
const object = (kind: string, name: string, uid: string, owners: readonly object[] = []) =>
  ({
    apiVersion: 'v1',
    kind,
    metadata: { name, namespace: 'team', uid, ownerReferences: owners },
  }) as unknown as KubernetesObject

const gateway = object('VirtualMCPServer', 'front', 'of-front')

const pod = (name: string, owners: readonly object[] = [], { kind, metadata } = gateway) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    ...object('Pod', name, `of-${name}`, owners).metadata,
    labels: buildSelector({ kind, metadata: { name: metadata.name, namespace: 'team' } }),
  },
  spec: { containers: [{ name: dataPlaneContainerName(kind), ports: [{ name: 'admin', containerPort: 4081 }] }] },
  status: { phase: 'Running', podIP: '10.0.0.1', conditions: [{ type: 'Ready', status: 'True' }] },
})

/** Returns a cluster with these objects, by plural. */
const buildCluster = (objects: Readonly<Record<string, readonly object[]>>) =>
  ({
    api: { list: async ({ plural }: { plural: string }) => ({ metadata: {}, items: objects[plural] ?? [] }) },
    namespace: 'team',
  }) as unknown as Cluster

const rogues = [
  pod('rogue'),
  pod('rogue-owner', [owner('VirtualMCPServer', 'of-front')]),
  pod('rogue-set', [owner('ReplicaSet', 'of-rogue-set')]),
]
const deployments = [object('Deployment', 'front-vmcp', 'of-deployment', [owner('VirtualMCPServer', 'of-front')])]
const replicasets = [
  object('ReplicaSet', 'rogue', 'of-rogue-set'),
  object('ReplicaSet', 'front-vmcp-1', 'of-set', [owner('Deployment', 'of-deployment')]),
]

test('the pod is that of the Deployment that the workload owns, not another one with its labels', async () => {
  const pods = [...rogues, pod('own', [owner('ReplicaSet', 'of-set')])]
  assert.is((await runningPod(buildCluster({ pods, deployments, replicasets }), gateway))?.metadata.name, 'own')
})

test('the pod of a stdio server is that of its StatefulSet', async () => {
  const server = object('MCPServer', 'it', 'of-it')
  const statefulsets = [object('StatefulSet', 'it-mcp', 'of-stateful', [owner('MCPServer', 'of-it')])]
  const pods = [...rogues, pod('own', [owner('StatefulSet', 'of-stateful')], server)]
  assert.is((await runningPod(buildCluster({ pods, statefulsets }), server))?.metadata.name, 'own')
})

test('no token is sent if only foreign pods have the labels', async () => {
  assert.is(await runningPod(buildCluster({ pods: rogues, deployments, replicasets }), gateway), undefined)
  const foreign = [object('Deployment', 'front-vmcp', 'of-deployment', [owner('VirtualMCPServer', 'of-another')])]
  const pods = [pod('own', [owner('ReplicaSet', 'of-set')])]
  assert.is(await runningPod(buildCluster({ pods, deployments: foreign, replicasets }), gateway), undefined)
  try {
    await requirePod(buildCluster({ pods: rogues }), gateway)
    assert.unreachable()
  } catch (error) {
    assert.match((error as Error).message, /no pod of VirtualMCPServer front runs/)
  }
})

test.run()
