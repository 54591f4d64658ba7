import { DEFAULT_GROUP, type KindName, kinds, VERSION } from '../../crds/index.ts'
import { ApiServer, isNotFound } from '../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../operator/cluster/kubernetes/kube-config.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { type Given, type Io, type Option, UsageError } from '../command.ts'
import { clusterGroupOption, readApiGroup } from '../options/manifests.ts'

export const clusterOptions = {
  kubeconfig: { type: 'string', value: 'FILE', description: 'The cluster. Default: KUBECONFIG, ~/.kube/config.' },
  context: { type: 'string', value: 'NAME', description: 'Context of the kubeconfig. Default: the current one.' },
  namespace: { type: 'string', short: 'n', value: 'NAME', description: 'Default: that of the context.' },
  'api-group': clusterGroupOption,
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
    const group = readApiGroup(given, io) ?? DEFAULT_GROUP
    return await use({ api: new ApiServer(config, 'kubectl-portico'), group, namespace, kubectlOptions })
  } finally {
    await config.closePool()
  }
}

export const WORKLOAD = '[KIND/]NAME'

const withPods = Object.values(kinds).filter(({ role }) => role === 'workload')

/** Returns the kinds with pods that a word may mean, as in kubectl: kind, plural or short name, in any case. */
function findKinds(word: string): typeof withPods {
  const wanted = word.toLowerCase()
  const found = withPods.filter(({ kind, plural, shortNames }) =>
    [kind.toLowerCase(), plural, ...shortNames].includes(wanted),
  )
  if (found.length > 0) return found
  throw new UsageError(`${word}: not a kind with pods; these are ${withPods.map(({ kind }) => kind).join(', ')}`)
}

/** Returns the workload that the one argument of a command names. Throws an Error if there is none, or several. */
export async function readWorkload({ positionals }: Given, cluster: Cluster): Promise<KubernetesObject> {
  const [text, ...more] = positionals
  if (text === undefined || more.length > 0) throw new UsageError('takes one workload, as KIND/NAME or NAME')
  const slash = text.indexOf('/')
  const name = text.slice(slash + 1)
  const found: KubernetesObject[] = []
  for (const { kind, plural } of slash < 0 ? withPods : findKinds(text.slice(0, slash)))
    try {
      const resource = { group: cluster.group, version: VERSION, plural, kind: kind as KindName }
      found.push(await cluster.api.get(resource, cluster.namespace, name))
    } catch (error) {
      if (!isNotFound(error)) throw error
    }
  if (found.length > 1)
    throw new UsageError(`${name}: say which: ${found.map(({ kind }) => `${kind}/${name}`).join(' or ')}`)
  if (found[0] === undefined) throw new Error(`no workload ${text} in namespace ${cluster.namespace}`)
  return found[0]
}
