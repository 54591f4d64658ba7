import { kindNamed } from '../../../crds/index.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { ApiServer } from '../kubernetes/api-server.ts'
import { listAll } from '../kubernetes/list-all.ts'

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

interface ResourceList {
  readonly resources: readonly { readonly name: string; readonly kind: string }[]
}

/** What its author wrote of a live object: neither status nor what the API server and controllers have put there. */
function desired({ apiVersion, kind, metadata, spec }: KubernetesObject): KubernetesObject {
  const { name, namespace, labels, annotations: { [LAST_APPLIED]: _, ...annotations } = {} } = metadata
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(labels && { labels }),
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    ...(spec !== undefined && { spec }),
  } as KubernetesObject
}

/**
 * Every object of an API group in a cluster, as manifests; of kinds that we have not, too. Throws an ApiError where the
 * cluster has no such group, or it may not be read.
 *
 * @param namespace only this one; absent: all
 */
export async function liveObjects(api: ApiServer, group: string, namespace?: string): Promise<KubernetesObject[]> {
  const discovered = await api.request<{ preferredVersion: { version: string } }>('GET', `/apis/${group}`)
  const { version } = discovered.preferredVersion
  const { resources } = await api.request<ResourceList>('GET', `/apis/${group}/${version}`)
  const objects: KubernetesObject[] = []
  for (const { name: plural, kind } of resources) {
    if (plural.includes('/')) continue
    const found = await listAll(api, { group, version, plural, kind }, { namespace })
    objects.push(...found.map(desired))
  }
  // Configs before what refers to them, so that nothing waits when they are applied in this order.
  const rank = ({ kind }: KubernetesObject) => (kindNamed(kind)?.role === 'workload' ? 1 : 0)
  return objects.sort((one, other) => rank(one) - rank(other))
}
