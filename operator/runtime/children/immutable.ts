import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson } from '../../render/object/canonical.ts'

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const differs = (a: unknown, b: unknown) => canonicalJson(a ?? null) !== canonicalJson(b ?? null)

/**
 * Whether a live child is another one than the rendered in what the API server lets nobody change, so that only a new
 * object can be right: somebody has deleted ours and made it anew otherwise, or has made a ConfigMap immutable.
 */
export function mustBeReplaced(rendered: KubernetesObject, live: KubernetesObject): boolean {
  const wanted = fieldsOf(rendered['spec'])
  const there = fieldsOf(live['spec'])
  switch (live.kind) {
    case 'ConfigMap':
      return live['immutable'] === true
    case 'RoleBinding':
      return differs(rendered['roleRef'], live['roleRef'])
    case 'Service':
      return there['clusterIP'] === 'None' && wanted['type'] !== 'ExternalName'
    case 'Deployment':
      return differs(wanted['selector'], there['selector'])
    case 'StatefulSet':
      return (
        differs(wanted['selector'], there['selector']) ||
        differs(wanted['serviceName'], there['serviceName']) ||
        differs(wanted['podManagementPolicy'] ?? 'OrderedReady', there['podManagementPolicy']) ||
        differs(wanted['volumeClaimTemplates'] ?? [], there['volumeClaimTemplates'] ?? [])
      )
    default:
      return false
  }
}
