import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson } from '../../render/object/canonical.ts'

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const differs = (a: unknown, b: unknown) => canonicalJson(a ?? null) !== canonicalJson(b ?? null)

const policyOf = (spec: Fields) => spec['podManagementPolicy'] ?? 'OrderedReady'

/**
 * Whether the pods of a child that is replaced belong to the new one as they are: then they run on, and are taken up by it.
 * They do where nothing but the order differs in which pods are made.
 */
export function keepsPods(rendered: KubernetesObject, live: KubernetesObject): boolean {
  const wanted = fieldsOf(rendered['spec'])
  const there = fieldsOf(live['spec'])
  const withPolicyOf = { ...live, spec: { ...there, podManagementPolicy: policyOf(wanted) } }
  return live.kind === 'StatefulSet' && policyOf(wanted) !== policyOf(there) && !mustBeReplaced(rendered, withPolicyOf)
}

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
        policyOf(wanted) !== policyOf(there) ||
        differs(wanted['volumeClaimTemplates'] ?? [], there['volumeClaimTemplates'] ?? [])
      )
    default:
      return false
  }
}
