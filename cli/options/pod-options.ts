import type { ReconcileContext } from '../../operator/reconcile/outcome/plan.ts'
import { OPERATOR_NAMESPACE, operatorPeer, parseAdminPeer } from '../../operator/render/network/network.ts'
import { type Given, type Option, UsageError } from '../command.ts'

export const podTemplateOption: Option = {
  type: 'string',
  value: ['baseline', 'any'],
  default: 'baseline',
  description:
    'The limit for podTemplateSpec: the Pod Security level baseline, or any (host namespaces, privileged containers, hostPath), which gives the nodes to everybody who may write a workload.',
}

export const podUsersOption: Option = {
  type: 'string',
  value: ['fixed', 'platform'],
  default: 'fixed',
  description:
    'Users and groups of the pods: fixed ones, or those that the platform assigns (OpenShift, which refuses others by default).',
}

/** The peers that may reach the admin listeners. */
export const adminFromOption: Option = {
  type: 'string',
  multiple: true,
  value: 'PEER',
  description:
    'Peers that may reach the admin listeners (/metrics, /status) besides the operator and the kubelet: a namespace, NAMESPACE/LABEL=VALUE[,LABEL=VALUE] or a CIDR; repeatable.',
}

export const operatorNamespaceOption: Option = {
  type: 'string',
  value: 'NAME',
  default: OPERATOR_NAMESPACE,
  description: 'Namespace in which the operator runs: it reaches the admin listeners.',
}

export const readPodTemplate = (given: Given): Pick<ReconcileContext, 'podTemplate' | 'podUsers'> => ({
  podTemplate: given.text('pod-template') === 'any' ? 'any' : 'baseline',
  podUsers: given.text('pod-users') === 'platform' ? 'platform' : 'fixed',
})

/** Returns the operator in its namespace, and the named peers. Throws a UsageError for an invalid peer. */
export function readAdminPeers(given: Given, operatorNamespace: string): Pick<ReconcileContext, 'adminPeers'> {
  const named = given.texts('admin-from').map((text) => {
    const peer = parseAdminPeer(text)
    if (!peer)
      throw new UsageError(`--admin-from ${text}: takes NAMESPACE, NAMESPACE/LABEL=VALUE[,LABEL=VALUE] or a CIDR`)
    return peer
  })
  return { adminPeers: [operatorPeer(operatorNamespace), ...named] }
}
