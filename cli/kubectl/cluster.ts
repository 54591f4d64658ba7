import { DEFAULT_GROUP } from '../../crds/index.ts'
import { ApiServer } from '../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../operator/cluster/kubernetes/kube-config.ts'
import { type Given, type Io, type Option, UsageError } from '../command.ts'
import { apiGroup } from '../options/manifests.ts'

export const clusterOptions = {
  kubeconfig: { type: 'string', value: 'FILE', description: 'The cluster. Default: KUBECONFIG, ~/.kube/config.' },
  context: { type: 'string', value: 'NAME', description: 'Context of the kubeconfig. Default: the current one.' },
  namespace: { type: 'string', short: 'n', value: 'NAME', description: 'Default: that of the context.' },
  'api-group': {
    type: 'string',
    value: 'GROUP',
    description: `API group of our kinds; also PORTICO_API_GROUP. Default: ${DEFAULT_GROUP}.`,
  },
} as const satisfies Readonly<Record<string, Option>>

export interface Cluster {
  readonly api: ApiServer
  readonly group: string
  readonly namespace: string
  /** The options with which kubectl finds the same cluster and namespace. */
  readonly kubectlOptions: readonly string[]
}

/** Calls `use` with the cluster that the options name, and then closes its connections. */
export async function inCluster<T>(given: Given, io: Io, use: (cluster: Cluster) => Promise<T>): Promise<T> {
  const kubeconfig = given.text('kubeconfig')
  const context = given.text('context')
  const config = loadKubeConfig(kubeconfig, { context, tell: (text) => io.err(`portico: ${text}`) })
  if (context !== undefined && !config.getContextObject(context))
    throw new UsageError(`--context ${context}: the kubeconfig has none of that name`)
  const namespace =
    given.text('namespace') ?? config.getContextObject(config.getCurrentContext())?.namespace ?? 'default'
  const kubectlOptions = [
    ...(kubeconfig === undefined ? [] : [`--kubeconfig=${kubeconfig}`]),
    ...(context === undefined ? [] : [`--context=${context}`]),
    `--namespace=${namespace}`,
  ]
  try {
    const group = apiGroup(given, io) ?? DEFAULT_GROUP
    return await use({ api: new ApiServer(config, 'kubectl-portico'), group, namespace, kubectlOptions })
  } finally {
    await config.closePool()
  }
}
