import { kinds } from '../../../crds/index.ts'
import type { KubernetesObject } from '../../model/view.ts'

/** Our children carry their workload's kind in lower case (`app.kubernetes.io/name`) and its name (`…/instance`). */
const kindsByLowerCase = new Map(Object.keys(kinds).map((kind) => [kind.toLowerCase(), kind]))

export interface WorkloadName {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** Returns the workload that an object's labels name, or undefined if they name none of ours. */
export function findWorkload({ labels = {}, namespace = '' }: KubernetesObject['metadata']): WorkloadName | undefined {
  const kind = kindsByLowerCase.get(labels['app.kubernetes.io/name'] ?? '')
  const name = labels['app.kubernetes.io/instance']
  return kind && name ? { kind, namespace, name } : undefined
}
