import type { KubernetesObject } from '../../model/view.ts'
import { childName, selectorOf, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'
import { type AdminPeer, operatorPeer } from './admin-peers.ts'
import type { Listeners } from './listeners.ts'
import type { NetworkPeers } from './network-peers.ts'

interface Peers {
  /** Who may reach the public listener; everybody where absent. */
  readonly public?: NetworkPeers | undefined
  readonly admin?: readonly AdminPeer[] | undefined
}

/**
 * Lets traffic in to our own listeners and to nothing else of the pod: an MCP server's own port would bypass
 * authentication. The admin listener, which asks nobody who they are, is for the operator and for whom the installation
 * names besides (`peers.admin`); the kubelet of a pod's own node is never kept out by a NetworkPolicy.
 */
export function renderNetworkPolicy(
  workload: Workload,
  group: string,
  listeners: Listeners,
  peers: Peers = {},
): KubernetesObject {
  const { admin = [operatorPeer()], public: callers } = peers
  const name = childName(workload.kind, workload.metadata.name)
  return child(
    workload,
    group,
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', name },
    {
      spec: {
        podSelector: { matchLabels: selectorOf(workload) },
        policyTypes: ['Ingress'],
        ingress: [
          { ...(callers && { from: callers }), ports: [{ protocol: 'TCP', port: listeners.listen }] },
          { from: admin, ports: [{ protocol: 'TCP', port: listeners.admin }] },
        ],
      },
    },
  )
}
