import type { Program } from '../command.ts'

/** The kubectl plugin: shows the state of a cluster’s workloads and what they serve. */
export const program: Program = {
  name: 'kubectl portico',
  about: `Shows what Portico’s workloads in a cluster are and serve, as the user of the kubeconfig. Pods are asked by kubectl
port-forward.`,
  commands: {
    status: {
      summary: 'shows workloads, what they depend on, and what is wrong',
      load: () => import('./status.ts'),
    },
    tools: { summary: 'lists the tools that a workload shows to its caller', load: () => import('./tools.ts') },
    whoami: { summary: 'says who a caller is to a workload', load: () => import('./whoami.ts') },
    explain: { summary: 'says which policy of a workload allows or denies a call', load: () => import('./explain.ts') },
    render: { summary: 'prints what a workload in the cluster becomes, as YAML', load: () => import('./render.ts') },
    logs: { summary: 'prints the logs of a workload’s pods', load: () => import('./logs.ts') },
    version: { summary: 'prints version, Node and API group', load: () => import('../version.ts') },
  },
}
