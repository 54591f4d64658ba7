import { type ApiServer, listAll } from '../../operator/cluster/kubernetes/api-server.ts'
import { childResource } from '../../operator/cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { buildSelector, childName } from '../../operator/render/object/object.ts'
import type { Pod } from '../../operator/runtime/pods/observation.ts'
import { isPollable, PODS } from '../../operator/runtime/pods/read-pod-status.ts'

interface Cluster {
  readonly api: ApiServer
}

const REPLICA_SETS = { group: 'apps', version: 'v1', plural: 'replicasets', kind: 'ReplicaSet' }

/** Returns the label selector of a workload's pods. */
export const selectorText = ({ kind, metadata: { name, namespace = '' } }: KubernetesObject): string =>
  Object.entries(buildSelector({ kind, metadata: { name, namespace } }))
    .map(([label, value]) => `${label}=${value}`)
    .join(',')

const controlledBy = <T extends KubernetesObject>(objects: readonly T[], owners: readonly KubernetesObject[]): T[] => {
  const uids = new Set(owners.flatMap(({ metadata }) => metadata.uid ?? []))
  return objects.filter(({ metadata }) =>
    metadata.ownerReferences?.some(({ controller, uid }) => controller === true && uids.has(uid)),
  )
}

/**
 * Returns the running pods of the workload, ready ones first. Only pods that the workload owns through its Deployment
 * or StatefulSet count: anyone who may create a pod can give it our labels, and would receive the caller's token.
 */
export async function runningPods({ api }: Cluster, workload: KubernetesObject): Promise<readonly Pod[]> {
  const { kind, metadata } = workload
  const which = { namespace: metadata.namespace, labelSelector: selectorText(workload) }
  const pods = await listAll(api, PODS, which)
  if (pods.length === 0) return []
  const children: KubernetesObject[] = []
  for (const child of ['Deployment', 'StatefulSet']) children.push(...(await listAll(api, childResource(child), which)))
  const named = children.filter((child) => child.metadata.name === childName(kind, metadata.name))
  const owners = controlledBy(named, [workload])
  const sets = owners.length === 0 ? [] : await listAll(api, REPLICA_SETS, which)
  const own = controlledBy(pods as Pod[], [...owners, ...controlledBy(sets, owners)])
  const isReady = ({ status }: Pod) =>
    status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  const running = own.filter(isPollable)
  return [...running.filter(isReady), ...running.filter((pod) => !isReady(pod))]
}

/** Returns a running pod of the workload, preferably a ready one; undefined if none runs. */
export const runningPod = async (cluster: Cluster, workload: KubernetesObject): Promise<Pod | undefined> =>
  (await runningPods(cluster, workload))[0]

/** Returns a running pod, for commands that need one. Throws an Error if none runs. */
export async function requirePod(cluster: Cluster, workload: KubernetesObject): Promise<Pod> {
  const pod = await runningPod(cluster, workload)
  if (pod === undefined) throw new Error(`no pod of ${workload.kind} ${workload.metadata.name} runs`)
  return pod
}
