import { kindNamed } from '../../../crds/index.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { ApiServer } from '../kubernetes/api-server.ts'
import { listAll } from '../kubernetes/list-all.ts'

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

interface ResourceList {
  readonly resources: readonly { readonly name: string; readonly kind: string }[]
}

/** Returns what the author of a live object wrote. */
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
 * Lists every object of an API group as manifests, including kinds that Portico lacks; `namespace` limits it. Throws an
 * ApiError.
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
  // Configs come before the objects that refer to them, so that nothing waits if they are applied in this order.
  const rank = ({ kind }: KubernetesObject) => (kindNamed(kind)?.role === 'workload' ? 1 : 0)
  return objects.sort((one, other) => rank(one) - rank(other))
}
