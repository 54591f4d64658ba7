import { type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { NAMESPACES } from '../watch/namespaces.ts'
import type { OwnRights } from './own-rights.ts'

const DEPLOYMENTS: Resource = { group: 'apps', version: 'v1', plural: 'deployments', kind: 'Deployment' }

/** Tells an operator that its installation is being removed, and names the objects that grant its rights. */
export interface Removal {
  /** Tells whether no process will follow this one, which then releases what finalizers hold. Called at a stop. */
  readonly isRemoved: () => Promise<boolean>
  readonly rights: OwnRights
  /** Called when the rights are being removed. The answer must be a stop. */
  readonly onGoing: () => void
}

/** Returns the Deployment of a pod: its ReplicaSet is named after it and the hash of the template. */
function findDeployment({ metadata }: KubernetesObject): string | undefined {
  const set = metadata.ownerReferences?.find(({ kind, controller }) => kind === 'ReplicaSet' && controller)?.name
  const hash = metadata.labels?.['pod-template-hash']
  return set !== undefined && hash !== undefined && set.endsWith(`-${hash}`)
    ? set.slice(0, -hash.length - 1)
    : undefined
}

/**
 * Makes the function that tells that no other process will follow this one: the Deployment is gone, being deleted or
 * scaled to zero, or the namespace is being deleted.
 */
export function createIsRemoved(api: ApiServer, ownPod: KubernetesObject): () => Promise<boolean> {
  const deployment = findDeployment(ownPod)
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
