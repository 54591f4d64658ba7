import { type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { NAMESPACES } from '../watch/namespaces.ts'
import type { OwnRights } from './own-rights.ts'

const DEPLOYMENTS: Resource = { group: 'apps', version: 'v1', plural: 'deployments', kind: 'Deployment' }

/** How an operator learns that its installation is being removed, and what it has its rights from. */
export interface Removal {
  /** Whether nobody will follow this process, which then lets go of what finalizers hold; asked when it stops. */
  readonly isRemoved: () => Promise<boolean>
  readonly rights: OwnRights
  /** The rights are being taken away; to be answered by a stop. */
  readonly onGoing: () => void
}

/** The Deployment that a pod is of: its ReplicaSet is named after it and the hash of the template. */
function deploymentOf({ metadata }: KubernetesObject): string | undefined {
  const set = metadata.ownerReferences?.find(({ kind, controller }) => kind === 'ReplicaSet' && controller)?.name
  const hash = metadata.labels?.['pod-template-hash']
  return set !== undefined && hash !== undefined && set.endsWith(`-${hash}`)
    ? set.slice(0, -hash.length - 1)
    : undefined
}

/**
 * Makes the function that says at the end of this process, which is in this pod, whether anybody will follow it: nobody
 * does once the Deployment is gone, going or scaled to zero, or the namespace is going. Outside a Deployment somebody may
 * always follow.
 */
export function removalOf(api: ApiServer, ownPod: KubernetesObject): () => Promise<boolean> {
  const deployment = deploymentOf(ownPod)
  const { namespace } = ownPod.metadata
  return async function isRemoved() {
    if (deployment === undefined) return false
    try {
      const { metadata, spec } = await api.get<KubernetesObject>(DEPLOYMENTS, namespace, deployment)
      if (metadata.deletionTimestamp !== undefined || (spec as { replicas?: number }).replicas === 0) return true
      const own = await api.get<KubernetesObject>(NAMESPACES, undefined, namespace as string)
      return own.metadata.deletionTimestamp !== undefined
    } catch (error) {
      if (isNotFound(error)) return true
      throw error
    }
  }
}
