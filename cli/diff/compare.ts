import { ApiError, type ApiServer, isNotFound } from '../../operator/cluster/kubernetes/api-server.ts'
import { childResource } from '../../operator/cluster/kubernetes/child-kinds.ts'
import { pathOf } from '../../operator/cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { sortedKeys } from '../../operator/render/object/canonical.ts'
import { canonicalYaml } from '../../operator/render/object/yaml.ts'
import { MANAGER } from '../../operator/runtime/children/managed-fields.ts'
import { unified } from './unified.ts'

/** What the API server and the operator keep for themselves. */
const OF_SERVER = new Set(['managedFields', 'resourceVersion', 'uid', 'generation', 'creationTimestamp', 'selfLink'])

function text(object: KubernetesObject | undefined, group: string): string {
  if (!object) return ''
  const { status: _, metadata, ...rest } = object
  const { annotations = {}, ...others } = metadata as Record<string, unknown> & { annotations?: Record<string, string> }
  const { [`${group}/applied-hash`]: __, ...shown } = annotations
  const kept = Object.fromEntries(Object.entries(others).filter(([name]) => !OF_SERVER.has(name)))
  return canonicalYaml(
    sortedKeys({ ...rest, metadata: { ...kept, ...(Object.keys(shown).length > 0 && { annotations: shown }) } }),
  )
}

const nameOf = ({ kind, metadata }: KubernetesObject) => `${kind}/${metadata.namespace}/${metadata.name}`

/** What a server-side apply by the operator would make of a child; nothing is written. */
async function dryRun(api: ApiServer, child: KubernetesObject): Promise<KubernetesObject> {
  const { namespace, name } = child.metadata
  try {
    return await api.request<KubernetesObject>('PATCH', pathOf(childResource(child.kind), namespace, name), {
      query: { fieldManager: MANAGER, force: true, dryRun: 'All' },
      contentType: 'application/apply-patch+yaml',
      body: child,
    })
  } catch (error) {
    // The namespace isn't there yet; or a field can't be changed, and the operator makes the child anew.
    if (isNotFound(error) || (error instanceof ApiError && error.status === 422)) return child
    throw error
  }
}

/** The differences of a live child and what it would become, as a text; empty where there are none. */
export async function childDiff(
  api: ApiServer,
  group: string,
  live: KubernetesObject | undefined,
  child: KubernetesObject | undefined,
): Promise<string> {
  const after = child && (await dryRun(api, child))
  const changes = unified(text(live, group), text(after, group))
  const name = nameOf((child ?? live) as KubernetesObject)
  const [old, next] = [live ? `live/${name}` : '/dev/null', child ? `new/${name}` : '/dev/null']
  return changes === '' ? '' : `--- ${old}\n+++ ${next}\n${changes}`
}
