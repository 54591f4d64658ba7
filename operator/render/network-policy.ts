import type { KubernetesObject } from '../model/view.ts'
import type { Listeners } from './containers.ts'
import { childName, selectorOf, type Workload } from './names.ts'
import { child } from './object.ts'

/**
 * Lets traffic in to our own listeners and to nothing else of the pod: an MCP server's own port would bypass
 * authentication. The admin listener stays reachable for the operator and for whoever scrapes metrics.
 */
export function renderNetworkPolicy(workload: Workload, group: string, listeners: Listeners): KubernetesObject {
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
          {
            ports: [
              { protocol: 'TCP', port: listeners.listen },
              { protocol: 'TCP', port: listeners.admin },
            ],
          },
        ],
      },
    },
  )
}
