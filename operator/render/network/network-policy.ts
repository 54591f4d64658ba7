import type { KubernetesObject } from '../../model/view.ts'
import { childName, selectorOf, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'
import { type AdminPeer, operatorPeer } from './admin-peers.ts'
import { egressRules, type Outbound } from './egress.ts'
import type { Listeners } from './listeners.ts'
import type { NetworkPeers } from './network-peers.ts'

interface Traffic {
  /** Whether only our own listeners are to be reached. */
  readonly isShut: boolean
  /** Who may reach the public listener; everybody where absent. */
  readonly public?: NetworkPeers | undefined
  readonly admin?: readonly AdminPeer[] | undefined
  /** What the pods may reach; anything, by other policies too, where absent. */
  readonly outbound?: Outbound | undefined
}

/**
 * Lets traffic in to our own listeners and to nothing else of the pod: an MCP server's own port would bypass
 * authentication. The admin listener, which asks nobody who they are, is for the operator and for whom the installation
 * names besides (`traffic.admin`); the kubelet of a pod's own node is never kept out by a NetworkPolicy. Undefined where
 * there is nothing to keep in or out.
 */
export function renderNetworkPolicy(
  workload: Workload,
  group: string,
  listeners: Listeners,
  traffic: Traffic,
): KubernetesObject | undefined {
  const { isShut, admin = [operatorPeer()], public: callers, outbound } = traffic
  if (!isShut && outbound === undefined) return undefined
  const name = childName(workload.kind, workload.metadata.name)
  return child(
    workload,
    group,
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', name },
    {
      spec: {
        podSelector: { matchLabels: selectorOf(workload) },
        policyTypes: [...(isShut ? ['Ingress'] : []), ...(outbound === undefined ? [] : ['Egress'])],
        ...(isShut && {
          ingress: [
            { ...(callers && { from: callers }), ports: [{ protocol: 'TCP', port: listeners.listen }] },
            { from: admin, ports: [{ protocol: 'TCP', port: listeners.admin }] },
          ],
        }),
        ...(outbound !== undefined && { egress: egressRules(outbound) }),
      },
    },
  )
}
