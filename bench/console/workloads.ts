/** The objects of the measurement: workloads and groups, as an operator has reported them. */
import type { KubernetesObject } from '../../operator/model/index.ts'

/** The number of namespaces. */
export const NAMESPACES = 40

const condition = (isWell: boolean) => ({
  type: 'Ready',
  status: isWell ? 'True' : 'False',
  reason: isWell ? 'PodsReady' : 'ImagePullBackOff',
  message: isWell ? '1 of 1 pods are ready' : 'the image can’t be pulled',
  lastTransitionTime: '2026-11-20T00:00:00Z',
})

/** Returns a workload; every tenth is a gateway, every hundredth is unhealthy. */
function workload(index: number): KubernetesObject {
  const namespace = `team-${index % NAMESPACES}`
  const isGateway = index % (10 * NAMESPACES) < NAMESPACES
  const kind = isGateway ? 'VirtualMCPServer' : 'MCPServer'
  const name = `${isGateway ? 'gateway' : 'server'}-${index}`
  const conditions = ['Ready', 'Progressing', 'ReferencesResolved', 'Valid'].map((type) => ({
    ...condition(index % 100 !== 7),
    type,
  }))
  // Field managers are a third of an object as an API server lists it.
  const managedFields = [
    { manager: 'kubectl', operation: 'Apply', fieldsV1: { 'f:spec': { 'f:image': {}, 'f:groupRef': {} } } },
  ]
  return {
    apiVersion: 'portico.dev/v1beta1',
    kind,
    metadata: { name, namespace, uid: `uid-${index}`, resourceVersion: String(index), generation: 3, managedFields },
    spec: isGateway
      ? { groupRef: { name: 'all' }, incomingAuth: { type: 'anonymous' }, config: { audit: { enabled: true } } }
      : { image: `registry.example.com/${name}:1.0.0`, transport: 'streamable-http', groupRef: { name: 'all' } },
    status: {
      observedGeneration: 3,
      replicas: 1,
      readyReplicas: 1,
      url: `http://${name}.${namespace}.svc:4483/mcp`,
      conditions,
    },
  } as unknown as KubernetesObject
}

const group = (index: number) =>
  ({
    apiVersion: 'portico.dev/v1beta1',
    kind: 'MCPGroup',
    metadata: { name: 'all', namespace: `team-${index}`, uid: `group-${index}` },
    spec: {},
    status: { conditions: [condition(true)] },
  }) as unknown as KubernetesObject

/** Returns `count` workloads, and the group of each namespace. */
export const buildObjects = (count: number): readonly KubernetesObject[] => [
  ...Array.from({ length: NAMESPACES }, (_, index) => group(index)),
  ...Array.from({ length: count }, (_, index) => workload(index)),
]
